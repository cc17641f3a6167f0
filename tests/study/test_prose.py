"""The study's prose: every piece that code quotes exists, every piece is quoted, and no fact is missing silently."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import jinja2
import pytest

import rankbound_study
from rankbound_study import templates
from rankbound_study.report import content
from rankbound_study.report.content import Finding, Paragraph

STUDY = Path(rankbound_study.__file__).parent
# The examples of the steps' help are no templates, and named by their steps.
FILES = sorted((STUDY / "templates").glob("*.md"))
MODULES = [*(STUDY / "report").rglob("*.py"), *(STUDY / "figures").rglob("*.py")]


def texts_of(module: Path) -> Iterator[str]:
    yield from (
        node.value
        for node in ast.walk(ast.parse(module.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_every_piece_is_quoted_by_a_module_that_names_its_file(file: Path) -> None:
    quoting = [texts for module in MODULES if file.name in (texts := set(texts_of(module)))]
    assert quoting
    quoted = set().union(*quoting)
    # The worked tables are named by their numbers, pairs of faces by theirs, the methods of protocols by these.
    quoted |= {f"worked-{number}" for number in quoted} | {f"figure_neural_{number}" for number in (2, 6, 7)}
    assert set(templates.pieces(file.name)) <= quoted | {"published", "honest"}


def test_pieces_that_are_named_in_calls_exist() -> None:
    named = []
    for module in MODULES:
        source = module.read_text("utf-8")
        homes = dict(re.findall(r'^(\w+) = "(\w+\.md)"$', source, re.MULTILINE))
        calls = re.findall(r'\b(?:text|finding|paragraph)\(\s*(\w+),\s*"([\w-]+)"', source)
        named += [(homes[home], name) for home, name in calls]
    assert [(file, name) for file, name in named if name not in templates.pieces(file)] == []
    assert len(named) > 90


def test_a_piece_is_one_line_whose_bold_start_is_a_title_or_headline(monkeypatch: pytest.MonkeyPatch) -> None:
    piece = "**A {{ of }}.**  It\nholds{% if more %}, {{ more | signed }}{% endif %}. 5\N{NO-BREAK SPACE}%\n"
    monkeypatch.setattr(templates, "pieces", lambda file: {"a": piece})
    assert content.paragraph("x.md", "a", of="B", more=None) == Paragraph("A B", "It holds. 5\N{NO-BREAK SPACE}%")
    assert content.finding("x.md", "a", [{"h": "1"}, {"h": "2"}], of="B", more=-0.01) == Finding(
        "A B.", "It holds, −0.0100. 5\N{NO-BREAK SPACE}%", ("h",), (("1",), ("2",))
    )
    with pytest.raises(jinja2.UndefinedError, match="'more' is undefined"):
        templates.text("x.md", "a", of="B")


def test_texts_have_no_markup_of_templates_left() -> None:
    for file in FILES:
        for name, piece in templates.pieces(file.name).items():
            if not re.search(r"{[{%]", piece):
                assert "{" not in templates.text(file.name, name)
