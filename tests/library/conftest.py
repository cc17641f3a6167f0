"""What tests share: the command line, each way of computing, and checks of every file that any of them has written."""

import shlex
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rankbound import cli
from tests.written_files import writers_keep_the_file_they_are_given

__all__ = ["writers_keep_the_file_they_are_given"]

Program = Callable[..., str]


@pytest.fixture
def program(capsys: pytest.CaptureFixture[str]) -> Program:
    """Return what `rankbound COMMAND ...` prints, or its errors, if it should end with a status.

    With `warns`, its errors hold this text, or nothing if that is empty.
    """

    def run(command: str, *more: object, status: int = 0, warns: str | None = None) -> str:
        capsys.readouterr()
        found = cli.main([*shlex.split(command), *map(str, more)])
        printed = capsys.readouterr()
        assert found == status, printed.err
        assert warns is None or (warns in printed.err if warns else not printed.err), printed.err
        return printed.err if status else printed.out

    return run


@pytest.fixture
def ranx(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The package ranx, whose functions take half a minute to compile: for few short lists, uncompiled ones do."""
    monkeypatch.setattr(pytest.importorskip("numba").config, "DISABLE_JIT", True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba's, of its own compiling
        yield pytest.importorskip("ranx")


@pytest.fixture(params=["kernels", "formulas"])
def each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute by compiled kernels, where there are some, and by PyTorch's formulas alone."""
    monkeypatch.setenv("RANKBOUND_FAST", "1" if request.param == "kernels" else "0")
