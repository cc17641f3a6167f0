"""The abstract quotes the tables, and says nothing of those that were not made."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from rankbound_study.claims import effects, law, verdict_table
from rankbound_study.claims.registry import claims
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, NOT_RUN, REFUTED, Verdict
from rankbound_study.report.abstract import abstract
from rankbound_study.report.claims_section import Claims
from rankbound_study.report.content import ReportSection
from rankbound_study.report.findings import Bounded
from rankbound_study.report.tables.table_5_1 import COLUMNS

VERDICTS = {"T46": REFUTED, "T23": CONFIRMED, "T27": INCONCLUSIVE}


def write_law(tables: Path) -> None:
    """Two bounds and three weightings of AP; the weights of min-max hardly vary."""
    cells = [
        ("min-max", "bounds", "", 0.02, 0.0002),
        ("expectation", "bounds", "", 0.8, -0.003),
        ("expectation-max", "bounds", "expectation", 0.8, -0.4),
        ("pairs^0.5", "experiment", "", 1.1, 0.005),
        ("pairs^-1", "experiment", "", 0.05, -0.0004),
        ("permuted(pairs^-1)", "experiment", "", 1.1, 0.3),
    ]
    names = ("weights", "origin", "same_as", "change_weights", "effect")
    about = {"dataset": "movielens", "nsr": 2, "loss": "AP", "metric": "AP"}
    rows = [about | dict(zip(names, cell, strict=True)) for cell in cells]
    pl.DataFrame(rows, schema=law.COLUMNS).write_csv(tables / f"{law.NAME}.csv")
    line = {"predictor": "mismatch", "cells": "all cells", "n": 5, "slope": -0.004, "slope_low": -0.006}
    line |= {"slope_high": -0.002, "r_squared": 0.5}
    pl.DataFrame([line], schema=law.LINE_COLUMNS).write_csv(tables / f"{law.LINES}.csv")
    verdicts = [("direction", CONFIRMED, "a"), ("fit", REFUTED, "b")]
    predictions = pl.DataFrame(verdicts, schema=law.PREDICTION_COLUMNS, orient="row")
    predictions.write_csv(tables / f"{law.PREDICTIONS}.csv")


def write_means(tables: Path) -> None:
    rows = [
        ("affine", "all", 9, 0.002, 0.001, 0.003, 0.0, 0.0, 0.0),
        ("affine", "AP", 9, -0.0014, -0.002, 0.001, 0.0, 0.0, 0.0),
        ("distribution", "nDCG", 3, -0.05, -0.06, -0.04, 0.0, 0.0, 0.0),
    ]
    pl.DataFrame(rows, schema=effects.MEAN_COLUMNS, orient="row").write_csv(tables / f"{effects.MEANS}.csv")


def claims_with(verdicts: dict[str, str]) -> Claims:
    decided = ((claim, Verdict(verdicts.get(claim.id, NOT_RUN), "Because.")) for claim in claims())
    return Claims(verdict_table.frame(decided))


def section_of(tables: Path, of: Claims = Claims(None), *, synthetic: bool = False) -> ReportSection | None:  # noqa: B008
    nothing = pl.DataFrame(schema=COLUMNS)
    bounded = Bounded(tables, nothing, {"synthetic": synthetic, "protocol": "published"}, nothing, None)
    return next(abstract(tables, bounded, of), None)


def test_every_sentence_has_the_numbers_of_its_table(tmp_path: Path) -> None:
    write_law(tmp_path)
    write_means(tmp_path)
    section = section_of(tmp_path, claims_with(VERDICTS))
    assert section is not None
    assert "changes by −0.0040 (−0.0060 to −0.0020) for each unit" in section.text
    assert "and mismatch alone does not predict it." in section.text
    flat, affine, powers, distribution, verdicts = section.findings
    assert flat.headline == "Weights that vary by less than 10 % change the mean score by 0.0003 on average."
    assert flat.detail.startswith("Mean absolute effect of 2 cells")
    assert affine.headline == "Affine bounds change mean scores by −0.0014 [−0.0020, +0.0010] (AP)."
    assert "0.41 (AP)" in affine.detail, "a cell that repeats another one does not count"
    assert "in 1 of 1 cases" in powers.headline
    assert "The largest lead is +0.0048" in powers.detail, "permuted weights are not those of a list"
    assert "by −0.0500 [−0.0600, −0.0400] (nDCG)" in distribution.headline
    assert distribution.detail.endswith("explains its collapse is inconclusive.")
    assert verdicts.headline.startswith("That bounding raises most mean scores is refuted;")
    assert verdicts.headline.endswith("is confirmed.")


@pytest.mark.parametrize("write", [write_law, write_means])
def test_tables_that_were_not_made_are_not_quoted(write: Callable[[Path], None], tmp_path: Path) -> None:
    assert section_of(tmp_path) is section_of(tmp_path, claims_with({"T46": REFUTED})) is None
    write(tmp_path)
    section, generated = section_of(tmp_path), section_of(tmp_path, synthetic=True)
    assert section is not None
    assert len(section.findings) == 2
    assert ("for each unit" in section.text) == (write is write_law)
    assert not any("is inconclusive" in finding.detail for finding in section.findings)
    assert generated is not None
    assert generated.text.startswith("Generated data decide no claim about the literature")
