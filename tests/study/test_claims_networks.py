"""Claims about networks on queries and faces alike: planted differences and leads decide them."""

from pathlib import Path

import pyarrow as pa
import pytest
from planted_methods import Planted

from rankbound_study.claims.registry import verdict_on
from rankbound_study.claims.verdict import MissingEvidence

NAMES = ("DirectRanker", "RankNet")
COUNTS = (5, 10, 46)


@pytest.mark.parametrize(
    ("queries", "noise", "faces", "own", "verdict"),
    [
        ((0.6, 0.6), 0.01, (0.7, 0.7), 0.01, "confirmed"),
        ((0.6, 0.6), 0.01, (0.7, 0.7), 1.0, "inconclusive"),
        ((0.6, 0.6), 0.3, (0.7, 0.7), 0.01, "inconclusive"),
        ((0.63, 0.6), 0.01, (0.7, 0.7), 0.01, "refuted"),
        ((0.6, 0.6), 0.01, (0.7, 0.8), 0.01, "refuted"),
    ],
)
def test_alike_on_both(
    tmp_path: Path, queries: tuple[float, float], noise: float, faces: tuple[float, float], own: float, verdict: str
) -> None:
    """A difference that is not found is no likeness; one beyond the margin on either data set refutes it."""
    planted = Planted(tmp_path).queries(dict(zip(NAMES, queries, strict=True)), noise=noise)
    planted.pairs(dict(zip(NAMES, faces, strict=True)), own=own)
    found = verdict_on("N03", planted.evidence())
    assert found.verdict == verdict
    assert found.n == 1600
    assert "MQ2008" in found.reason
    assert "All-Age-Faces" in found.reason


def test_one_data_set_is_enough_and_none_is_named(tmp_path: Path) -> None:
    planted = Planted(tmp_path / "one").queries(dict.fromkeys(NAMES, 0.6), noise=0.01).pairs({"RankNet": 0.7})
    found = verdict_on("N03", planted.evidence())
    assert (found.verdict, found.n) == ("confirmed", 100)
    with pytest.raises(MissingEvidence, match="no runs of both DirectRanker and RankNet"):
        verdict_on("N03", Planted(tmp_path / "none").queries({"RankNet": 0.6}).evidence())


def by_features(planted: Planted, leads: tuple[float, ...], noise: float = 0.01) -> Planted:
    """RankNet lies above Rank-LR by these leads."""
    for count, lead in zip(COUNTS, leads, strict=True):
        start = len(planted.runs)
        planted.queries({f"RankNet-of-{count}": 0.5 + lead, f"Rank-LR-of-{count}": 0.5}, noise=noise)
        for place, table in enumerate(planted.runs[start:], start):
            options = [text.replace("}", f', "features": {count}}}') for text in table["options"].to_pylist()]
            planted.runs[place] = table.set_column(table.column_names.index("options"), "options", pa.array(options))
    return planted


@pytest.mark.parametrize(
    ("leads", "noise", "verdict"),
    [
        ((-0.1, 0.0, 0.1), 0.01, "confirmed"),
        ((0.1, 0.0, -0.1), 0.01, "refuted"),
        ((0.1, 0.1, 0.1), 0.01, "refuted"),
        ((0.0, 0.01, 0.02), 0.4, "inconclusive"),
    ],
)
def test_the_lead_by_number_of_features(tmp_path: Path, leads: tuple[float, ...], noise: float, verdict: str) -> None:
    found = verdict_on("N15", by_features(Planted(tmp_path), leads, noise).evidence())
    assert found.verdict == verdict
    assert "with 5 to" in found.reason
    assert "with 46" in found.reason


def test_without_counts_it_is_not_run(tmp_path: Path) -> None:
    with pytest.raises(MissingEvidence, match="feature_counts"):
        verdict_on("N15", Planted(tmp_path).queries({"RankNet": 0.5}).evidence())
