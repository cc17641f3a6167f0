"""The released evidence gives the committed tables, verdicts and paper, without training."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from project import ROOT

from rankbound_study.claims import verdicts
from rankbound_study.cli import main
from rankbound_study.report.paper import TABLES

PUBLISHED = ROOT / "published_results"
NUMBER = re.compile(r"\d+(?:\.\d+)?")

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make report` writes."""
    folder = tmp_path_factory.mktemp("report")
    flags = ["--out-dir", str(folder), "--elsewhere", str(PUBLISHED)]
    assert main(["report", str(PUBLISHED / "evidence.parquet"), *flags]) == 0
    return folder


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_the_committed_ones(made: Path, name: str) -> None:
    """Scores are released in single precision, and tables have six decimals."""
    one, other = (pl.read_csv(folder / "tables" / f"{name}.csv") for folder in (made, PUBLISHED))
    assert one.schema == other.schema
    numbers = [column for column, kind in one.schema.items() if kind == pl.Float64]
    assert one.drop(numbers).equals(other.drop(numbers))
    for column in numbers:
        np.testing.assert_allclose(one[column].to_numpy(), other[column].to_numpy(), atol=1e-5, err_msg=column)


def test_verdicts_are_the_committed_ones(made: Path) -> None:
    one, other = (verdicts.read(folder / "tables" / f"{verdicts.NAME}.csv") for folder in (made, PUBLISHED))
    assert one.select("id", "verdict", "reason").equals(other.select("id", "verdict", "reason"))


def test_the_paper_is_the_committed_one(made: Path) -> None:
    """Words are the same, and printed numbers up to their last digit, which another processor may round otherwise."""
    one, other = (
        re.sub(r"<(svg|style).*?</\1>", "", (folder / "paper.html").read_text("utf-8"), flags=re.S)
        for folder in (made, PUBLISHED / "paper")
    )
    assert NUMBER.sub("#", one) == NUMBER.sub("#", other)
    found = [np.array(NUMBER.findall(text), float) for text in (one, other)]
    np.testing.assert_allclose(*found, atol=1.5e-4)
    assert (made / "paper.pdf").read_bytes().startswith(b"%PDF-")


def test_every_empirical_claim_has_a_configuration_of_what_it_rests_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claim", "--evidence", str(PUBLISHED / "evidence.parquet")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == (verdicts.read(PUBLISHED / "tables" / f"{verdicts.NAME}.csv")["kind"] == "empirical").sum() - 1
    assert [line for line in lines if "of a processor" not in line] == []
