"""The report's prose: every piece that code quotes exists, every piece is quoted, and no fact is missing silently."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import jinja2
import pytest

from rankbound_study import report
from rankbound_study.report import prose
from rankbound_study.report.blocks import Finding, Paragraph

REPORT = Path(report.__file__).parent
FILES = sorted((REPORT / "templates").glob("*.md"))


def texts_of(module: Path) -> Iterator[str]:
    yield from (
        node.value
        for node in ast.walk(ast.parse(module.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_every_piece_is_quoted_by_a_module_that_names_its_file(file: Path) -> None:
    quoting = [texts for module in REPORT.rglob("*.py") if file.name in (texts := set(texts_of(module)))]
    assert quoting
    quoted = set().union(*quoting)
    # The worked tables are named by their numbers, the methods of protocols by these.
    quoted |= {f"worked-{number}" for number in quoted}
    quoted |= {"published", "honest"}
    assert set(prose._pieces(file.name)) <= quoted


def test_pieces_that_are_named_in_calls_exist() -> None:
    missing = []
    for module in REPORT.rglob("*.py"):
        tree = ast.parse(module.read_text("utf-8"))
        file = next((text for text in texts_of(module) if text.endswith(".md") and len(text) > 3), "")
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and len(call.args) > 1:
                home, name = call.args[:2]
                named = isinstance(home, ast.Name) and home.id == "FILE" and isinstance(name, ast.Constant)
                if named and name.value not in prose._pieces(file):
                    missing.append((module.name, name.value))
    assert missing == []


def test_a_piece_is_one_line_whose_bold_start_is_a_title_or_headline(monkeypatch: pytest.MonkeyPatch) -> None:
    piece = "**A {{ of }}.**  It\nholds{% if more %}, {{ more | signed }}{% endif %}. 5\N{NO-BREAK SPACE}%\n"
    monkeypatch.setattr(prose, "_pieces", lambda file: {"a": piece})
    assert prose.paragraph("x.md", "a", of="B", more=None) == Paragraph("A B", "It holds. 5\N{NO-BREAK SPACE}%")
    assert prose.finding("x.md", "a", ("h",), (("1",),), of="B", more=-0.01) == Finding(
        "A B.", "It holds, −0.0100. 5\N{NO-BREAK SPACE}%", ("h",), (("1",),)
    )
    with pytest.raises(jinja2.UndefinedError, match="'more' is undefined"):
        prose.text("x.md", "a", of="B")


def test_texts_have_no_markup_of_templates_left() -> None:
    for file in FILES:
        for name, piece in prose._pieces(file.name).items():
            if not re.search(r"{[{%]", piece):
                assert "{" not in prose.text(file.name, name)
