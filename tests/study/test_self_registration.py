"""A figure, a table or a claim is known by its module: nothing else lists it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from rankbound_study.config.code_digests import LIBRARY, STUDY
from rankbound_study.config.sections.base import SOURCES

FIGURE = """
from rankbound_study.figures import Catalogue, FigureSpec, style

FIGURES = Catalogue(FigureSpec)


@FIGURES.add("figure_4_2", "A line that rises.", arguments={"height": 3.0})
def rising_line(*, height):
    figure, axes = style.panels(1, 1, height=height)
    axes[0, 0].plot([0, 1], [0, 1])
    return figure
"""

TABLE = """
import polars as pl
from rankbound_study.figures import Catalogue
from rankbound_study.report.blocks import TableFiles
from rankbound_study.report.tables import TableSpec

TABLES = Catalogue(TableSpec)


@TABLES.add("table_4_2", "A number.", arguments={"number": 42}, beside=())
def forty_two(name, files, *, number):
    return TableFiles(pl.DataFrame({"number": [number]}))
"""

CLAIM = """
from rankbound_study.claims.registry import decides
from rankbound_study.claims.verdicts import CONFIRMED, Ruling


@decides("X01")
def new_claim(evidence):
    return Ruling(CONFIRMED, {"less": "One", "more": "two"}, n=1)
"""
ENTRY = """
another group:
- id: X01
  source: another source
  claim: One is less than two.
  kind: theorem
  how_to_test: Compare them.
  reason: "{less} is less than {more}."
"""

SCRIPT = """
import json
from rankbound_study import figures
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import claims, verdict_on
from rankbound_study.report import tables
from rankbound_study.results.study_files import StudyFiles

verdicts = [(one.id, verdict_on(one.id, Evidence("thesis")).reason) for one in claims() if one.id == "X01"]
names = list(figures.figure_specs())
size = figures.draw("figure_4_2").get_size_inches().tolist()
made = tables.make("table_4_2", StudyFiles(), {}).table.rows()
print(json.dumps([names[names.index("figure_4_2") :][:2], figures.title("figure_4_2"), size, verdicts, made]))
"""


def test_a_module_is_all_that_a_figure_a_table_or_a_claim_needs(tmp_path: Path) -> None:
    for package in (LIBRARY, STUDY):
        shutil.copytree(SOURCES / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    study = tmp_path / STUDY
    (study / "figures" / "rising_line.py").write_text(FIGURE, "utf-8")
    (study / "report" / "tables" / "forty_two.py").write_text(TABLE, "utf-8")
    (study / "claims" / "less_than.py").write_text(CLAIM, "utf-8")
    with (study / "reference" / "claims.yaml").open("a", encoding="utf-8") as file:
        file.write(ENTRY)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", SCRIPT]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    order, title, size, verdicts, made = json.loads(result.stdout)
    assert order == ["figure_4_2", "figure_5_1"]
    assert title == "Figure 4.2"
    assert size[1] == 3.0
    assert verdicts == [["X01", "One is less than two."]]
    assert made == [[42]]
