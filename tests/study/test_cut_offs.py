"""nDCG@k by list size: groups of lists, and what cannot happen beyond the number of relevant items."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from synthetic_runs import write_runs

import rankbound as rb
from rankbound_study.figures import draw
from rankbound_study.figures.cutoffs import FEWEST, GROUPS, means_by_size
from rankbound_study.results.specs import StudyFiles


def lists(p: np.ndarray, seeds: int = 2) -> pl.DataFrame:
    """Lists whose nDCG@1 is their number of relevant items over 100, changed by the seed up and down."""
    parts = [{"topic": str(t), "fold": 1, "seed": s, "p": int(p[t]), "n": 2 * int(p[t])} for t in range(len(p))
             for s in range(seeds)]  # fmt: skip
    frame = pl.DataFrame(parts)
    return frame.with_columns((pl.col("p") / 100 + (pl.col("seed") * 2 - 1) * 0.1).alias("nDCG@1"))


def test_every_list_is_in_the_group_of_its_size() -> None:
    p = np.repeat([1, 2, 3, 5, 6, 20, 21, 200], FEWEST)
    found = dict(means_by_size(lists(p), ["nDCG@1"], "p"))
    assert {number: mean[0] for number, mean in found.items()} == pytest.approx(
        {0: 0.015, 1: 0.04, 2: 0.06, 3: 0.2, 4: 1.105}
    )
    assert len(found) == len(GROUPS["p"])


def test_small_groups_are_left_out() -> None:
    p = np.repeat([1, 8], [FEWEST, FEWEST - 1])
    assert [number for number, _ in means_by_size(lists(p), ["nDCG@1"], "p")] == [0]


def test_beyond_the_relevant_items_the_metric_cannot_fall() -> None:
    """What the caption says, for any order of a list with three relevant items."""
    rng = np.random.default_rng(0)
    relevance = np.array([1] * 3 + [0] * 9)
    for _ in range(20):
        scores = rng.permutation(12).astype(float)
        found = rb.evaluate([f"nDCG@{k}" for k in range(3, 13)], scores, relevance, [0, 12])
        values = [float(value[0]) for value in found.values()]
        assert (np.diff(values) >= -1e-12).all()


def test_the_figure_shows_groups_and_random_orderings(tmp_path: Path) -> None:
    figure = draw("figure_cut_offs", StudyFiles(write_runs(tmp_path / "runs.parquet", topics=40)))
    (legend,) = figure.legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert "1–2 relevant" in labels
    assert "≥ 81 items" in labels
    for panel in figure.axes:
        drawn = [line.get_label() for line in panel.lines]
        assert sum(label.startswith("_random ordering") for label in drawn) == len(drawn) / 2 > 0
