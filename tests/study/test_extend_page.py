"""The page on extensions: its figure is drawn, its table made, and the files and packages that it names exist."""

import re
from pathlib import Path
from typing import Any

from synthetic_runs import write_runs

from rankbound_study.figures.style import house_style
from rankbound_study.report.table_files import TableFiles, plain_texts
from rankbound_study.results.study_files import StudyFiles

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "extend.md").read_text("utf-8")


def module_of_the_page(number: int) -> dict[str, Any]:
    module: dict[str, Any] = {}
    exec(re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[number], module)
    return module


def test_the_figure_of_the_page_is_drawn(tmp_path: Path) -> None:
    module = module_of_the_page(0)
    assert list(module["FIGURES"]) == ["figure_9_9"]
    with house_style():
        module["expected_ap"]().savefig(tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").stat().st_size > 1000


def test_the_table_of_the_page_is_made_and_read_back(tmp_path: Path) -> None:
    module = module_of_the_page(1)
    runs = write_runs(tmp_path / "runs.parquet", topics=4)
    table = module["make_losses"]("table_losses", StudyFiles(runs), study="thesis")
    (spec,) = module["TABLES"].values()
    TableFiles(table, plain_texts(spec.layout(table))).write(tmp_path, "table_losses")
    (block,) = spec.shown("table_losses", tmp_path)
    assert {"AP", "nDCG", "nRBP"} <= {loss.text for loss, _ in block.rows}
    assert "| AP | " in (tmp_path / "table_losses.md").read_text("utf-8")


def test_the_files_that_the_page_names_exist() -> None:
    named = re.findall(r"`((?:src|tests)/[^`]*?)`", PAGE)
    assert len(named) > 8
    folders = [name.replace("NAME.py", "") for name in named]
    assert [name for name in folders if not list(ROOT.glob(name))] == []
