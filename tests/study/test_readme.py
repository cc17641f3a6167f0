"""The README's example runs and gives what it says; its commands are valid ones."""

import re
import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from rankbound import cli
from rankbound_study import cli as study_cli
from website import WRITTEN

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = ("README.md", "CONTRIBUTING.md", "config/README.md")


def test_the_library_example_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    printed = capsys.readouterr().out.splitlines()
    said = re.findall(
        r"^print\(.*?\)  # (tensor\(\[[\d., ]+\], dtype=torch.float64\)|[\d.]+)", example, flags=re.MULTILINE
    )
    assert len(printed) == len(said) == 4
    assert printed[0] == said[0]
    assert [float(line) for line in printed[1:]] == pytest.approx([float(text) for text in said[1:]], abs=5e-5)
    assert names["scores"].grad.abs().sum() > 0


@pytest.mark.parametrize(
    "page",
    [*(ROOT / name for name in PAGES), *sorted((ROOT / "docs").rglob("*.md"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    written = [(ROOT / "docs" / name).resolve() for name in WRITTEN]
    places = [(page.parent / target).resolve() for target in targets]
    assert [place for place in places if not place.exists() and place not in written] == []


def test_every_make_target_that_is_named_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"^make (\w+)|`make (\w+)`", README, flags=re.MULTILINE)):
        name = next(filter(None, target))
        assert re.search(rf"^{name}:", makefile, flags=re.MULTILINE), f"make {name}"


@pytest.mark.parametrize(("program", "of"), [("rankbound", cli), ("python -m rankbound_study", study_cli)])
def test_every_command_that_is_named_has_these_arguments(program: str, of: ModuleType) -> None:
    lines = re.findall(rf"^(?:\(`)?{program} ([a-z-]+ [^`#\n]+)", README, flags=re.MULTILINE)
    assert len(lines) >= 3
    for line in lines:
        assert of.own_parser().parse_args(shlex.split(line)).run


def test_the_library_tells_where_steps_of_the_study_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["convert", "mq2008"]) == 2
    assert "expected one of pack, train, " in (told := capsys.readouterr().err)
    assert "as `python -m rankbound_study convert mq2008`" in told


def test_the_page_of_the_configuration_names_every_section() -> None:
    page = (ROOT / "config" / "README.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`.+?) \|", page, flags=re.MULTILINE)
    named = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(named) == sorted(yaml.safe_load((ROOT / "config.yaml").read_text("utf-8")))
