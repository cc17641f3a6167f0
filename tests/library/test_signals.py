"""A signal that asks for an end is told as that signal, whatever the code that it reaches makes of it."""

import signal
import sys
import time
from collections.abc import Callable

import pytest

from rankbound import cli


class Dying:
    """Does something while its destructor runs, whose exceptions Python drops."""

    def __init__(self, end: Callable[[], object]) -> None:
        self.end = end

    def __del__(self) -> None:
        self.end()


def turned_into_another_error() -> None:
    """As compiled code does, such as an import of pandas."""
    try:
        signal.raise_signal(signal.SIGTERM)
    except BaseException:
        raise AttributeError("partially initialised") from None


def sent_in_a_destructor() -> None:
    Dying(lambda: signal.raise_signal(signal.SIGTERM))
    time.sleep(5)


def not_sent() -> None:
    Dying(lambda: {}["no signal came"])
    raise KeyError("no signal came")


@pytest.mark.parametrize(
    ("work", "error", "dropped"),
    [
        (turned_into_another_error, cli._Signal, []),
        (sent_in_a_destructor, cli._Signal, []),
        (not_sent, KeyError, [KeyError]),
    ],
)
def test_a_signal_is_told_as_the_signal_and_other_errors_stay_what_they_are(
    work: Callable[[], None], error: type[BaseException], dropped: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda ignored: found.append(ignored.exc_type))
    with pytest.raises(error) as raised, cli._ended_by_signals():
        work()
    assert getattr(raised.value, "number", signal.SIGTERM) == signal.SIGTERM
    assert found == dropped
