"""Related work: planted orders of systems, gradients of every bound, and the paragraphs that quote them."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from planted import Lists, Study

import rankbound as rb
from rankbound_study.claims import related
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.related import METRICS, coherence
from rankbound_study.cli import main
from rankbound_study.report.abstract import related_sections
from rankbound_study.report.content import Paragraph
from rankbound_study.report.tables.table_5_1 import COLUMNS
from rankbound_study.vocabulary import AFFINE, BOUNDED, LOSSES

STUDY = Study(
    topics=30, ratios=(2,), losses=("nDCG", "nRBP"), boundings=("none", "min-max"), controls=False, noise=0.0005
)


def evidence_of(folder: Path, plant=lambda lists: 0.0, **changes) -> Evidence:  # type: ignore[no-untyped-def]
    return replace(STUDY, plant=plant, **changes).evidence(folder)


def towards_small_floors(lists: Lists) -> np.ndarray | float:
    """One system gains where the unit of min-max bounding is small, and loses a little more elsewhere."""
    if (lists.loss, lists.bounding) != ("nDCG", "min-max"):
        return 0.0
    unit = 1 - rb.minimum("nDCG", lists.n, lists.p)
    order = np.argsort(np.argsort(unit))
    signs = np.where(order < len(unit) / 2, 1.0, -1.02)
    return 0.02 * signs


def test_systems_that_differ_on_every_list_keep_their_order(tmp_path: Path) -> None:
    """Whatever the weights of lists are: a system that is better on all of them is better on average."""
    shifts = {("nDCG", "none"): 0.0, ("nDCG", "min-max"): 0.05, ("nRBP", "none"): 0.1, ("nRBP", "min-max"): 0.15}
    made = evidence_of(tmp_path, lambda lists: shifts[lists.loss, lists.bounding] - lists.base + 0.5)
    found = related.orders_table(made)
    keys = set(product(("movielens", "mq2008-label1"), METRICS, AFFINE))
    assert set(found.select("dataset", "metric", "bound").rows()) == keys
    assert found.drop("dataset", "nsr", "metric", "bound").unique().rows() == [(4, 6, 1.0, 0, 0, 6, 6, 0, 0)]


def test_a_gain_where_units_are_small_inverts_the_order_unless_all_lists_have_one_size(tmp_path: Path) -> None:
    ours = related.orders_table(evidence_of(tmp_path, towards_small_floors)).filter(metric="nDCG", bound="min-max")
    assert (ours["inverted"] > 0).all()
    assert (ours["tau"] < 1).all()
    alike = evidence_of(tmp_path, towards_small_floors, relevant=lambda topic: 5 + 0 * topic)
    found = related.orders_table(alike).select("tau", "inverted", "exchanged", "gained", "lost")
    assert found.unique().rows() == [(1.0, 0, 0, 0, 0)]


@pytest.mark.parametrize("loss", LOSSES)
def test_bounds_change_no_direction_of_a_gradient(loss: str) -> None:
    pairs, incoherent = coherence(loss, "none")
    assert pairs == 50 * (3 * 5 + 4 * 8 + 5 * 15)
    assert (incoherent > 0) == (loss != "nRBP"), "a sum of ranks pushes every relevant item up"
    assert {coherence(loss, bound) for bound in BOUNDED} == {(pairs, incoherent)}


def test_a_loss_of_ranks_is_compared_with_the_metrics_own(tmp_path: Path) -> None:
    planted = evidence_of(tmp_path, lambda lists: 0.03 * (lists.loss == "nRBP") - lists.base + 0.5)
    found = related.ranks_table(planted)
    assert found.select("dataset", "nsr", "metric").rows() == [
        ("movielens", 2, "nDCG"),
        ("mq2008-label1", None, "nDCG"),
    ]
    assert found["difference"].to_list() == pytest.approx([0.03, 0.03], abs=0.001)


def test_the_section_quotes_the_tables(tmp_path: Path) -> None:
    made = evidence_of(tmp_path, towards_small_floors)
    tables = tmp_path / "tables"
    files = [f"--{name}={getattr(made, name)}" for name in ("runs", "epochs")]
    assert main(["table", "table_related", *files, "--out-dir", str(tables)]) == 0
    rows = [("nDCG", "none", 5, 0), ("nDCG", "min-max", 10, 1), ("nDCG", "distribution", 5, 2)]
    honest = pl.DataFrame(
        [
            {"loss": loss, "bounding": bounding, "n_trainings": every, "n_untrained": untrained, "as_printed": True}
            for loss, bounding, every, untrained in rows
        ],
        schema=COLUMNS,
    )
    (section,) = related_sections(tables, honest)
    texts = {block.title: block.text for block in section.blocks if isinstance(block, Paragraph)}
    assert len(texts) == 6
    orders = pl.read_csv(tables / "table_related.csv", schema=related.COLUMNS)
    inverted, pairs = orders["inverted"].sum(), orders["pairs"].sum()
    assert f"invert {inverted} of {pairs} pairs of systems" in texts["Jeunen, Potapov and Ustimenko 2024"]
    assert (
        "1 of 10 with affine bounds, 2 of 5 with distribution bounding, 0 of 5 with no bounding did not train."
        in (texts["XGBoost's normalisation of LambdaRank"])
    )
    assert "0 combinations of a loss and a bound have another share" in texts["Marcuzzi, Lucchese and Orlando 2023"]
    assert " in nDCG (significantly higher on 0 of 2 data sets" in texts["Gomez, Wang and Fu 2023"]
    assert texts["Gomez, Wang and Fu 2023"].endswith(" (without correction).")
    for title in ("Karmaker Santu and Feng 2022", "Gienapp et al. 2020"):
        assert "(at 5 %, without correction; pairs share systems and topics)" in texts[title]
    assert list(related_sections(tmp_path, honest)) == []
