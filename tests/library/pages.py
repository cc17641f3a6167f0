"""The pages of the documentation, and the programs in them."""

import re
from pathlib import Path
from textwrap import dedent

DOCS = Path(__file__).resolve().parents[2] / "docs"


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
