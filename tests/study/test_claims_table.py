"""Claims as a table and in the report: every claim once, verdicts that exist, what is missing told."""

import json
from pathlib import Path

import polars as pl
import pytest

from rankbound.errors import DataError
from rankbound_study.claims import registry, verdict_table
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.rules import DECIDING, P_VALUES, RULES
from rankbound_study.claims.verdict import (
    CONFIRMED,
    INCONCLUSIVE,
    NOT_RUN,
    NOT_TESTABLE,
    REFUTED,
    MissingEvidence,
    Verdict,
)
from rankbound_study.cli import main
from rankbound_study.report import claims_table
from rankbound_study.report.claims_section import Claims
from rankbound_study.report.columns import TableBlock
from rankbound_study.report.table_files import escaped

CLAIMS = registry.claims()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the files that the command writes without any runs."""
    folder = tmp_path_factory.mktemp("claims")
    assert main(["claims", "--out-dir", str(folder)]) == 0
    return folder


def test_the_step_leaves_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RANKBOUND_PROVENANCE", "results/provenance")
    assert main(["claims", "--out-dir", "results/tables"]) == 0
    record = json.loads(Path("results/provenance/tables/table_claims.csv.json").read_text("utf-8"))
    assert set(record["outputs"]) == {f"tables/table_claims.{kind}" for kind in ("csv", "md", "tex")}


def test_every_claim_has_one_row_in_the_order_of_their_weight(folder: Path) -> None:
    table = verdict_table.read(folder / "table_claims.csv")
    assert table["id"].to_list() == [claim.id for claim in CLAIMS]
    assert len(set(table["id"])) == len(table)
    assert table["claim"].to_list() == [claim.claim for claim in CLAIMS]
    assert table["reason"].str.len_chars().min() > 10


def test_groups_begin_with_the_question_and_end_with_definitions() -> None:
    """A group is one run of rows, so that tables can be cut where it changes."""
    names = [claim.group for claim in CLAIMS]
    of_group = list(dict.fromkeys(names))
    assert names == sorted(names, key=of_group.index)
    assert (of_group[0], of_group[-1]) == ("Bounding and mean scores", "Definitions and worked examples")
    assert {claim.kind for claim in CLAIMS if claim.group == of_group[0]} == {"empirical"}
    assert "empirical" not in {claim.kind for claim in CLAIMS if claim.group == of_group[-1]}


def test_theorems_need_no_runs_and_experiments_do(folder: Path) -> None:
    table = verdict_table.read(folder / "table_claims.csv")
    told = dict(table.select("id", "verdict").rows())
    assert told["T03"] == CONFIRMED
    assert told["T19"] == REFUTED
    assert told["T23"] == NOT_RUN
    assert not set(table.filter(pl.col("verdict") == NOT_RUN)["id"]) & set(registry.deciders()) - {
        claim.id for claim in CLAIMS if claim.kind == "empirical"
    }


def test_deciders_are_those_of_claims() -> None:
    assert set(registry.deciders()) == {claim.id for claim in CLAIMS}
    with pytest.raises(ValueError, match="T03 is decided twice"):
        registry.decides("T03")(lambda evidence: Verdict(CONFIRMED, "again"))


def test_every_claim_has_its_sentences_and_those_of_cells_a_known_rule() -> None:
    assert all(claim.reason and claim.statistic for claim in CLAIMS)
    with pytest.raises(KeyError, match="some rise"):
        registry.decide_by_shape(Evidence("thesis"), "differences", "some rise")
    rows = [row for claim in CLAIMS for row in claim.shape.values()]
    assert {row["rule"] for row in rows} <= set(RULES)
    assert all(row.get("deciding", "") in DECIDING and row.get("p", "all") in P_VALUES for row in rows)


def test_missing_runs_are_named(tmp_path: Path) -> None:
    with pytest.raises(MissingEvidence, match="no runs: no file of them was given"):
        Evidence("thesis").ratios("movielens")


def test_the_section_counts_and_shows_all(folder: Path, tmp_path: Path) -> None:
    claims = Claims.read(folder)
    (finding,) = claims.findings(synthetic=False)
    assert finding.headline.startswith(f"Of {len(CLAIMS)} claims of the sources, ")
    (of_generated,) = claims.findings(synthetic=True)
    assert "Generated data decide no claim about the literature" in of_generated.detail
    assert "generated" not in finding.detail
    (section,) = claims.sections()
    tables = [block for block in section.blocks if isinstance(block, TableBlock)]
    assert [row[0].text for table in tables for row in table.rows] == [claim.id for claim in CLAIMS]
    assert [table.name for table in tables] == list(dict.fromkeys(claim.group for claim in CLAIMS))
    nothing = Claims.read(tmp_path)
    assert [*nothing.sections(), *nothing.findings(synthetic=False), *nothing.of_source("N")] == []
    assert nothing.quoted("T26") == ""


def test_the_claims_of_one_source_begin_with_what_is_refuted(folder: Path) -> None:
    (block,) = Claims.read(folder).of_source("T")
    verdicts = [row[2].text for row in block.rows]
    order = [REFUTED, INCONCLUSIVE, CONFIRMED, NOT_TESTABLE, NOT_RUN]
    assert verdicts == sorted(verdicts, key=order.index)
    assert {row[0].text for row in block.rows} == {claim.id for claim in CLAIMS if claim.id.startswith("T")}


def test_a_damaged_table_is_named(folder: Path, tmp_path: Path) -> None:
    text = (folder / "table_claims.csv").read_text("utf-8")
    (tmp_path / "table_claims.csv").write_text(text.replace(",confirmed,", ",sure,", 1), "utf-8")
    with pytest.raises(DataError, match=r"table_claims\.csv: not as the step wrote it .*unknown verdict 'sure'"):
        Claims.read(tmp_path)


def test_a_verdict_is_one_of_five() -> None:
    with pytest.raises(ValueError, match="expected one of confirmed, refuted"):
        Verdict("perhaps", "who knows")


@pytest.mark.parametrize(
    ("value", "text"), [(0.012345, "0.0123"), (-0.5, "−0.5"), (0.0, "0"), (12345.6, "12346"), (0.00001234, "1.2e−05")]
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert claims_table.number(value) == text


def test_texts_cannot_break_the_forms() -> None:
    claim = registry.Claim("T01", "bounds", "seed", "a | b & c_d 100%", "theorem", "none", "", "")
    table = verdict_table.frame([(claim, Verdict(REFUTED, r"x < y \ z", value=0.1, low=0.05, high=0.15, n=3))])
    assert r"a \| b & c_d" in claims_table.texts(table).markdown
    assert r"a | b \& c\_d 100\%" in claims_table.texts(table).latex
    assert escaped("\\") == r"\textbackslash{}"
    assert claims_table.estimate(table.row(0, named=True)) == "0.1 [0.05, 0.15]"
