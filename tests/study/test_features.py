"""The table of features: our column is tried, absent and failing libraries are reported, the page is the program's."""

import ast
import builtins
import json
import re
import sys
from pathlib import Path

import pytest

from benchmarks import features, features_probes
from benchmarks.features import FAILS, NOT_TRIED, SOURCE_ONLY, Feature, try_cell
from benchmarks.features_probes import NO, PARTLY, YES
from benchmarks.losses import allrank

ROWS = {row.name: row for rows, _ in features.TABLES.values() for row in rows}

COUNTED = "Number of ranking measures"
OURS = dict.fromkeys(ROWS.keys() - {COUNTED}, YES) | {"Trains on texts": PARTLY}
"""The library has no text model and no trainer of one."""
SLOW = {"Compiles as a whole", "Trains on texts", "Exported as a graph"}
"""Which import a compiler or language models, or trace a graph."""


def page_tables() -> list[list[list[str]]]:
    """Return the cells of the page's tables, without their rulers."""
    text = features.PAGE.read_text("utf-8")
    tables = re.findall(r"^## (.+)\n\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert [heading for heading, _ in tables] == list(features.TABLES)
    return [[line.strip("| ").split(" | ") for line in table.splitlines() if "---" not in line] for _, table in tables]


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] if n in SLOW else []) for n in sorted(OURS)])
def test_rankbound_has_what_the_table_says(name: str) -> None:
    seen = try_cell(ROWS[name], "rankbound")
    if seen.verdict == NOT_TRIED:
        pytest.skip(seen.note)
    assert seen.verdict == OURS[name], seen.note


def test_rankbound_measures_are_counted() -> None:
    assert int(try_cell(ROWS[COUNTED], "rankbound").verdict) > 20


def test_every_cell_is_of_a_column_and_says_where_it_is_from() -> None:
    for rows, columns in features.TABLES.values():
        for row in rows:
            assert row.cells.keys() <= {*columns}
            assert row.words or row.cells.keys() == {*columns}, row.name
            for library, cell in row.cells.items():
                if library in SOURCE_ONLY:
                    verdict, _, file = cell
                    assert verdict in (YES, PARTLY, NO) or verdict.isdigit()
                    assert re.fullmatch(r"[\w/]+\.(py|java)", file), file
                else:
                    tree = ast.parse(cell if isinstance(cell, str) else cell[2], mode="eval")
                    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
                    own = {node.id for node in names if isinstance(node.ctx, ast.Store)} | {"library"}
                    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
                    assert {node.id for node in names} <= own | vars(features_probes).keys() | vars(builtins).keys()
            assert {*SOURCE_ONLY} & {*columns} <= row.cells.keys()


def test_the_page_is_the_programs() -> None:
    shown = {}
    for table, (rows, libraries) in zip(page_tables(), features.TABLES.values(), strict=True):
        assert table[0] == ["feature", *libraries]
        assert [line[0] for line in table[1:]] == [row.name for row in rows]
        assert {len(line) for line in table[1:]} == {1 + len(libraries)}
        assert not {FAILS, NOT_TRIED} & {cell for line in table[1:] for cell in line}
        shown |= {line[0]: line[1] for line in table}
    assert {name: shown[name] for name in OURS} == OURS


def test_an_absent_library_is_reported_and_the_rest_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks() -> bool:
        raise ValueError("a message\nof two lines")

    monkeypatch.setattr(features_probes, "breaks", breaks, raising=False)
    cells = {
        "absent": "breaks()",
        "Rax": "use('no_such_module')",
        "LightGBM": "breaks()",
        "rankbound": [PARTLY, "seen", "1 < 2"],
        "XGBoost": [YES, "not seen", "2 < 1"],
        "RecBole": "breaks()",
    }
    row = Feature("A feature", "", "word", cells)
    monkeypatch.setattr(features, "find_spec", lambda name: None if name in ("absent", "recbole") else object())
    shown = {"versions": "RecBole 1", "cells": {"A feature": [YES, "seen elsewhere"]}}
    of_the_program = features.elsewhere
    monkeypatch.setattr(features, "elsewhere", lambda name: shown if name == "RecBole" else of_the_program(name))
    assert {library: try_cell(row, library) for library in cells} == {
        "absent": (NOT_TRIED, "absent is not installed"),
        "Rax": (NOT_TRIED, "no_such_module is not installed"),
        "LightGBM": (FAILS, "ValueError: a message"),
        "rankbound": (PARTLY, "seen"),
        "XGBoost": (NO, "not seen"),
        "RecBole": (YES, "seen elsewhere"),
    }


def test_the_cells_of_a_library_of_another_interpreter_are_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [Feature("A feature", "", "", {"rankbound": [YES, "seen", "True"]}), Feature("Another", "", "no_such_word")]
    monkeypatch.setattr(features, "TABLES", {"A table": (rows, ["rankbound"]), "Others": ([], ["Rax"])})
    assert features.main(["--library", "rankbound"]) == 0
    cells = {"A feature": [YES, "seen"], "Another": [NO, "no such name"]}
    assert json.loads(capsys.readouterr().out)["cells"] == cells


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty package named allrank."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "allrank"]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "allrank").mkdir()
    (tmp_path / "allrank" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "allrank"


def test_names_are_searched_where_nothing_can_be_tried(package: Path) -> None:
    (package / "private.py").write_text("def _fuse(): ...\n\nfuse = 1\n")
    (package / "fuse_test.py").write_text("def fuse_tested(): ...\n")
    row = Feature("Fusion", "", "fuse", {})
    assert try_cell(row, "allRank") == (NO, "no such name")
    (package / "runs.py").write_text("class Runs:\n    def fuse_all(self): ...\n")
    assert try_cell(row, "allRank") == (NOT_TRIED, "has fuse_all")


def test_stand_ins_are_gone_after_the_import(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = object()
    monkeypatch.setitem(sys.modules, "torchvision", mine)
    monkeypatch.delitem(sys.modules, "gcsfs", raising=False)
    (package / "losses.py").write_text("import gcsfs\nfrom torchvision.transforms import Compose\n\nvalue = 3\n")
    assert allrank("losses").value == 3
    assert sys.modules["torchvision"] is mine
    assert "gcsfs" not in sys.modules


def test_the_program_writes_between_the_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "features.md"
    page.write_text(f"# Before\n\n{features.BEGIN}\nold\n{features.END}\n\n## After\n")
    row = Feature("A feature", "What it means.", "", {"rankbound": [YES, "0.5", "True"]})
    monkeypatch.setattr(features, "PAGE", page)
    monkeypatch.setattr(features, "TABLES", {"A table": ([row], ["rankbound"])})
    assert features.main(["--write-docs"]) == 0
    text = page.read_text("utf-8")
    assert text.startswith("# Before")
    assert text.endswith("## After\n")
    assert "old" not in text
    assert "| feature | rankbound |\n| --- | --- |\n| A feature | yes |" in text
    assert "### A feature\n\nWhat it means.\n\n- rankbound: *yes* (0.5)\n" in text
