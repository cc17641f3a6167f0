"""Write the abstract: the question, the law, and the findings that follow from it, as far as their tables were made."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from rankbound.texts import quantity
from rankbound_study.claims import effects, law
from rankbound_study.claims.law import ALL, BOUNDS, MISMATCH, WEIGHTS
from rankbound_study.claims.rules import FLAT
from rankbound_study.claims.verdict import NOT_RUN
from rankbound_study.config.list_weights import ListWeights
from rankbound_study.report.blocks import Finding, ReportSection
from rankbound_study.report.bounded_section import Bounded
from rankbound_study.report.claims_section import GENERATED, Claims
from rankbound_study.report.columns import signed
from rankbound_study.report.law_section import law_findings
from rankbound_study.report.table_files import read_table
from rankbound_study.vocabulary import LOSSES

_QUESTION = (
    "The labels of a list limit the values that a ranking metric can reach on it. Bounding maps these values onto a "
    "common range, list by list, before a loss is averaged. Does it train better rankers?"
)
_LAW = (
    "Affine bounds (min-max, expectation, expectation-max) multiply a list's gradient by a weight and do nothing else. "
    "So they should gain where their weights make the influence of lists more equal, relative to the metric that "
    "judges, and lose where they make it less equal."
)
_MOST_RISE, _AS_WELL, _VANISHING = "T46", "T23", "T27"
"""The claims that bounding raises most means, that bounded losses do as well, and that a vanishing gradient explains
the collapse of nDCG under distribution bounding."""

_CHANGE = f"change_{WEIGHTS}"


def abstract(tables: Path, bounded: Bounded, claims: Claims) -> Iterator[ReportSection]:
    """Yield the section; nothing if the tables that it quotes were not made.

    Args:
        tables: the folder of the tables.
        bounded: Table 5.1, with the tests of the effect of bounding.
        claims: the claims with their verdicts.
    """
    law, means = _law_cells(tables), _means(tables)
    found = (
        *_where_weights_hardly_vary(law),
        *_affine(means, law),
        *_without_a_bound(law),
        *_distribution(means, claims),
        *_verdicts(bounded, claims),
    )
    if found:
        generated = [GENERATED] if bounded.summary["synthetic"] else []
        text = " ".join([*generated, _QUESTION, _LAW, *_slope(tables)])
        yield ReportSection("abstract", "Abstract", text, findings=found)


def _law_cells(tables: Path) -> pl.DataFrame:
    """Read the cells of the law that count; no rows if the table was not made."""
    table = _read(tables, law.NAME, law.COLUMNS)
    return table.filter(pl.col("same_as").fill_null("") == "")


def _means(tables: Path) -> pl.DataFrame:
    return _read(tables, effects.MEANS, effects.MEAN_COLUMNS)


def _read(tables: Path, name: str, columns: dict[str, pl.DataType]) -> pl.DataFrame:
    path = tables / f"{name}.csv"
    return read_table(path, columns) if path.exists() else pl.DataFrame(schema=columns)


def _slope(tables: Path) -> Iterator[str]:
    """Yield the slope of the law, and the verdict on it."""
    lines = _read(tables, law.LINES, law.LINE_COLUMNS)
    for line in lines.filter(predictor=MISMATCH, cells=ALL).iter_rows(named=True):
        slope, low, high = (signed(line[name]) for name in ("slope", "slope_low", "slope_high"))
        yield (
            f"Over {line['n']} cells, the effect on the mean score changes by {slope} ({low} to {high}) for each unit "
            "by which weights raise this mismatch (a coefficient of variation)."
        )
        yield from (finding.headline for finding in law_findings(tables))


def _where_weights_hardly_vary(law: pl.DataFrame) -> Iterator[Finding]:
    flat = law.filter(pl.col(_CHANGE) < FLAT)
    if len(flat):
        size: float = flat.select(pl.col("effect").abs().mean()).item()
        yield Finding(
            f"Weights that vary by less than {100 * FLAT:.0f} % change the mean score by {size:.4f} on average.",
            f"Mean absolute effect of {quantity(len(flat), 'cell')}, whatever is bounded.",
        )


def _affine(means: pl.DataFrame, law: pl.DataFrame) -> Iterator[Finding]:
    """Yield the mean effects of affine bounds by loss, beside the variation of their weights."""
    rows = _by_loss(means, "affine")
    if not rows:
        return
    variation = {loss: _variation(law, loss) for loss in rows}
    known = [f"{value:.2f} ({loss})" for loss, value in variation.items() if value is not None]
    of_weights = f" Their weights have mean coefficients of variation of {', '.join(known)}." if known else ""
    yield Finding(
        f"Affine bounds change mean scores by {', '.join(f'{_mean(row)} ({loss})' for loss, row in rows.items())}.",
        f"Means over data sets and bounds, with 95 % intervals.{of_weights}",
    )


def _variation(law: pl.DataFrame, loss: str) -> float | None:
    """Return the mean coefficient of variation of the bounds' weights."""
    found: float | None = law.filter(origin=BOUNDS, loss=loss).select(pl.col(_CHANGE).mean()).item()
    return found


def _without_a_bound(law: pl.DataFrame) -> Iterator[Finding]:
    """Count the losses and data sets for which other weights score higher than those of every bound."""
    leads = []
    for _, own in law.group_by("dataset", "nsr", "loss", maintain_order=True):
        kinds = own["origin"] == BOUNDS, _by_size(own)
        of_bounds, of_sizes = (own.filter(kind)["effect"].to_list() for kind in kinds)
        if of_bounds and of_sizes:
            leads.append(max(of_sizes) - max(0.0, *of_bounds))
    if leads:
        yield Finding(
            "Weights by the size of a list score higher than the unbounded loss and every affine bound in "
            f"{sum(lead > 0 for lead in leads)} of {len(leads)} cases.",
            "A case is a loss on a data set; the weights are powers of the number of pairs or of relevant items. The "
            f"largest lead is {signed(max(leads))}. The best weights are picked by the scores shown, without a test.",
        )


def _by_size(law: pl.DataFrame) -> pl.Series:
    """Return True for weights of the experiment that are those of the lists themselves, not permuted ones."""
    return pl.Series(
        [
            origin != BOUNDS and not ListWeights.of(weights).permuted
            for origin, weights in law.select("origin", "weights").rows()
        ],
        dtype=pl.Boolean,
    )


def _distribution(means: pl.DataFrame, claims: Claims) -> Iterator[Finding]:
    if rows := _by_loss(means, "distribution"):
        verdict = claims.verdict(_VANISHING)
        known = "" if verdict in ("", NOT_RUN) else f" That a vanishing gradient explains its collapse is {verdict}."
        yield Finding(
            "Distribution bounding, which is not affine, changes mean scores by "
            f"{', '.join(f'{_mean(row)} ({loss})' for loss, row in rows.items())}.",
            f"Means over data sets, with 95 % intervals.{known}",
        )


def _verdicts(bounded: Bounded, claims: Claims) -> Iterator[Finding]:
    """Yield the verdicts on the two main claims, with the number of cells that differ significantly."""
    most_rise, as_well = claims.verdict(_MOST_RISE), claims.verdict(_AS_WELL)
    if {most_rise, as_well} & {"", NOT_RUN}:
        return
    tested = " ".join(finding.headline for finding in bounded.first_findings())
    yield Finding(
        f"That bounding raises most mean scores is {most_rise}; that bounded losses perform about as well as unbounded "
        f"ones is {as_well}.",
        tested,
    )


def _by_loss(means: pl.DataFrame, bounds: str) -> dict[str, dict[str, float]]:
    rows = means.filter(pl.col("bounds") == bounds, pl.col("loss").is_in(LOSSES))
    return {row["loss"]: row for row in rows.iter_rows(named=True)}


def _mean(row: dict[str, float]) -> str:
    return f"{signed(row['mean'])} [{signed(row['low'])}, {signed(row['high'])}]"
