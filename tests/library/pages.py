"""The pages of the documentation, the programs in them, and what comes of following them."""

import re
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
NUMBER = re.compile(r"-?\d+\.\d+")


def text_of(page: str, section: str | None = None) -> str:
    """Return a page, or one of its sections, by its heading; "" is what stands before the first."""
    text = (DOCS / page).read_text("utf-8")
    sections = {part.partition("\n")[0]: part for part in re.split(r"^## ", f"\n{text}", flags=re.MULTILINE)}
    return text if section is None else sections[section]


def blocks(page: str, section: str | None = None) -> list[tuple[str, str]]:
    """Return the blocks of code of a page or section: language and text."""
    found = re.findall(r"^ *```(\w+)\n(.*?)^ *```", text_of(page, section), re.DOTALL | re.MULTILINE)
    return [(kind, dedent(text)) for kind, text in found]


def programs(page: str, section: str | None = None) -> list[str]:
    return [text for kind, text in blocks(page, section) if kind == "python"]


def follow(
    page: str, program: Callable[[str], str], capsys: pytest.CaptureFixture[str], close: float
) -> dict[str, Any]:
    """Run the programs and commands of a page one after the other, and return the variables of the programs.

    What the page shows was printed last, but for numbers: another processor may train to other last digits.
    """
    names: dict[str, Any] = {}
    printed = ""
    for kind, text in blocks(page):
        if kind == "python":
            capsys.readouterr()
            exec(text, names)
            printed = capsys.readouterr().out
        elif kind == "sh" and not text.startswith("pip "):
            for line in text.replace("\\\n", "").splitlines():
                command, _, file = line.removeprefix("rankbound ").partition(" > ")
                printed = program(command.replace("runs/*.txt", " ".join(sorted(map(str, Path("runs").glob("*.txt"))))))
                if file:
                    Path(file).write_text(printed, "utf-8")
        elif kind in ("text", "latex"):
            found = re.sub(r"^%.*\n", "", printed, flags=re.MULTILINE)
            assert NUMBER.sub("#", found).split() == NUMBER.sub("#", text).split()
            assert [*map(float, NUMBER.findall(found))] == pytest.approx([*map(float, NUMBER.findall(text))], abs=close)
    return names
