"""Table 5.1: mean scores by loss, bounding and data set beside the printed scores, and the signs under both protocols.

The table is in long form, with one row per data set, loss, bounding and metric. A test list counts once per fold (its
seeds are averaged first); lists on which a metric is undefined are skipped and counted. `ours` is the mean of the
folds' means, `ours_pooled` the mean over all lists. Both readings of MQ2008 have the same printed score, and nRBP is
scored at three persistences (`as_printed` marks the one that the thesis names). Synthetic data have no printed scores.
`margin` is half of the 95 % interval of a mean; `change` is a bounded loss minus the unbounded one, with half of its
interval and the p-value of no change, adjusted over the printed cells. `n_untrained` of the `n_trainings` of a cell did
not train (see `rankbound_study.results.scores`); a difference with such a cell is not tested.

For people, it has a row per loss and bounding and a column per data set, as in the thesis. Each mean has a note: the
printed mean (published protocol) or its margin (honest protocol).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.compare.comparison import LEVEL, TIE
from rankbound_study.claims.evidence import SIGNIFICANT, certainty, holm_adjusted, is_distinct, significance
from rankbound_study.data.contracts import RATES
from rankbound_study.figures import FIRST, Catalogue
from rankbound_study.figures.style import bounding_title
from rankbound_study.report import blocks
from rankbound_study.report.blocks import Across, Cell, Layout, Row, TableBlock, TableFiles
from rankbound_study.report.numbers import DASH
from rankbound_study.report.tables import TableSpec
from rankbound_study.results import scores
from rankbound_study.results.scores import MARK, UNTRAINED, RunsChoice, untrained_counts
from rankbound_study.results.study_files import StudyFiles, read_frame, schema
from rankbound_study.templates import text
from rankbound_study.vocabulary import BOUNDINGS, HONEST, JUDGED_BY, LOSSES, PUBLISHED, UNBOUNDED

FILE = "table_5_1.md"
TABLES = Catalogue(TableSpec, FILE)

TOLERANCE = 0.015
"""Largest difference between our score and the printed one for a cell to count as reproduced."""

METRICS = {"nDCG": ("nDCG",), "AP": ("AP",), "nRBP": ("nRBP(p=0.95)", "nRBP(p=0.9)", "nRBP(p=0.8)")}
"""Loss -> the metrics reported for it, the printed one first."""

COLUMNS = schema(
    "text: protocol dataset; int8: nsr; text: model loss bounding metric; float: published ours "
    "ours_pooled difference; flag: within_0.015 as_printed; float: margin change change_margin "
    "p_holm; int: n_lists n_skipped n_folds n_seeds n_trainings n_untrained"
)

_TRAINED = ["dataset", "nsr", "model", "loss", "bounding"]


def table_5_1(runs: Path, choice: RunsChoice, epochs: Path | None = None) -> pl.DataFrame:
    """Return the table in long form: trained cells first, then the controls; columns as in `COLUMNS`.

    `epochs` has the gradients by which some trainings are known not to have trained.
    """
    every = [metric for names in METRICS.values() for metric in names]
    trained, controls = (scores.read_scores(runs, every, choice, controls=one) for one in (False, True))
    means = [_means(trained.filter(pl.col("loss") == loss), METRICS[loss]) for loss in METRICS]
    table = pl.concat([*means, *(_means(controls, names) for names in METRICS.values())])
    table = table.join(printed_scores(), on=["dataset", "nsr", "loss", "bounding"], how="left", nulls_equal=True)
    trainings = scores.read_trainings((runs, epochs), choice=choice).rename({"nsr_test": "nsr"})
    table = table.join(untrained_counts(trainings, _TRAINED), on=_TRAINED, how="left", nulls_equal=True)
    difference = pl.col("ours") - pl.col("published")
    # Neither those that did not train are tested, nor those whose unbounded loss did not.
    unbounded = (UNTRAINED & (pl.col("bounding") == UNBOUNDED)).any().over("dataset", "nsr", "model", "loss", "metric")
    table = table.with_columns(
        pl.lit(choice.protocol).alias("protocol"),
        difference.alias("difference"),
        # Slack for rounding errors: 0.955 - 0.940 counts as 0.015.
        (difference.abs() <= TOLERANCE + 1e-12).alias("within_0.015"),
        pl.col("metric").is_in(list(JUDGED_BY.values())).alias("as_printed"),
        pl.when(~(UNTRAINED | unbounded)).then("p_value").alias("p_value"),
    )
    table = table.with_columns(holm_adjusted(table)).select(list(COLUMNS))
    sets = [tuple(data_set) for data_set in scores.data_sets(table.rename({"nsr": "nsr_test"}))]

    def position(row: Row) -> tuple[Any, ...]:
        """Sort trained cells before controls, then by data set, loss, metric and bounding in the thesis' order."""
        of_set, control = sets.index((row["dataset"], row["nsr"])), row["loss"] == "none"
        loss, metric = [*METRICS, "none"].index(row["loss"]), every.index(row["metric"])
        return control, of_set, loss, metric, scores.place(row["bounding"], BOUNDINGS), str(row["model"])

    return pl.DataFrame(sorted(table.to_dicts(), key=position), schema=COLUMNS, orient="row")


def _means(frame: pl.DataFrame, metrics: Sequence[str]) -> pl.DataFrame:
    cell = [*_TRAINED, "metric"]
    long = frame.rename({"nsr_test": "nsr"}).unpivot(
        on=list(metrics), index=[*_TRAINED, "fold", "seed", "topic"], variable_name="metric", value_name="score"
    )
    score = pl.col("score")
    lists = long.group_by(*cell, "fold", "topic", maintain_order=True).agg(score.mean())
    folds = lists.group_by(*cell, "fold", maintain_order=True).agg(score.mean())
    table = lists.group_by(cell, maintain_order=True).agg(
        score.mean().alias("ours_pooled"),
        score.count().cast(pl.Int64).alias("n_lists"),
        score.null_count().cast(pl.Int64).alias("n_skipped"),
    )
    for other in (
        folds.group_by(cell).agg(score.mean().alias("ours"), pl.len().cast(pl.Int64).alias("n_folds")),
        long.group_by(cell).agg(pl.col("seed").n_unique().cast(pl.Int64).alias("n_seeds")),
        pl.concat([certainty(frame, metric) for metric in metrics]),
    ):
        table = table.join(other, on=cell, how="left", nulls_equal=True, maintain_order="left")
    return table


def printed_scores() -> pl.DataFrame:
    """Return the 60 printed cells of Table 5.1; those of MQ2008 twice, once per reading of its labels."""
    resource = resources("rankbound_study.reference").joinpath("thesis_table_5_1.csv")
    readings = {"mq2008": ["mq2008-label1", "mq2008-label2"]}
    printed = pl.read_csv(resource.read_bytes(), schema_overrides={"nsr": pl.Int8, "score": pl.Float64})
    return (
        printed.with_columns(
            pl.col("loss").replace_strict({"ndcg": "nDCG", "ap": "AP", "nrbp": "nRBP"}),
            pl.col("dataset").map_elements(lambda name: readings.get(name, [name]), pl.List(pl.String)),
        )
        .explode("dataset")
        .select("dataset", "nsr", "loss", "bounding", pl.col("score").alias("published"))
    )


def metrics(table: pl.DataFrame) -> dict[str, Any]:
    """Return every mean as nested numbers, for `dvc metrics`: data set -> loss -> metric -> bounding -> score."""
    nested: dict[str, Any] = {}
    for control in (False, True):
        for row in table.filter((pl.col("loss") == "none") == control).iter_rows(named=True):
            # As in the names of instances files: movielens-nsr1, mq2008-label2.
            name = row["dataset"] if row["nsr"] is None else f"{row['dataset']}-nsr{row['nsr']}"
            of_loss = nested.setdefault(name, {}).setdefault("controls" if control else row["loss"], {})
            of_loss.setdefault(row["metric"], {})[row["model" if control else "bounding"]] = round(row["ours"], 6)
    return nested


DIGITS = 4
"""Decimals of a score, as in the thesis."""

UP, DOWN = "▲", "▼"


def _is_honest(table: pl.DataFrame) -> bool:
    """Return True if the table is of the honest protocol, whose means have margins instead of printed scores."""
    return bool(len(table)) and table["protocol"][0] == HONEST


def _on_untrained(table: pl.DataFrame) -> str:
    """Explain the mark of cells that did not train; empty if there are none."""
    return "" if table.filter(UNTRAINED).is_empty() else text(FILE, "untrained", mark=MARK)


def block(table: pl.DataFrame, protocol: str) -> TableBlock:
    """Return the table for the report; bold and italic type are computed from our numbers."""
    honest = _is_honest(table)
    layout = Layout.of(
        FILE,
        "block",
        across=Across(
            ("loss", "name", "metric"),
            ("dataset", "nsr"),
            {tuple(one): one.label for one in scores.data_sets(table.rename({"nsr": "nsr_test"}))},
            _cell,
        ),
        formats={"loss": lambda loss: Cell("control", emphasis=True) if loss == "none" else loss},
        protocol=protocol,
        printed=table["published"].count() and not honest,
        significant=SIGNIFICANT if honest else "",
        untrained=_on_untrained(table),
    )
    losses = [loss for loss in METRICS if loss in table["loss"]] or METRICS
    block = layout([row for loss in losses for metric in METRICS[loss] for row in _rows(table, loss, metric)])
    return replace(block, rules=block.rules | {0})


def texts(table: pl.DataFrame) -> dict[str, str]:
    """Return the table's files."""
    protocol = table["protocol"][0] if len(table) else None
    beside = text(FILE, "beside-honest", up=UP, down=DOWN) if _is_honest(table) else "(printed)"
    report = block(table, "")
    in_markdown, in_latex = (
        [replace(report, header=(*titles, *report.header[3:]))]
        for titles in (("loss", "bounding or control", "metric"), ("Loss", "Bounding", "Metric"))
    )
    described = scores.PROTOCOLS[protocol] if protocol else "no runs"
    heading = text(FILE, "heading", protocol=described, beside=beside, untrained=_on_untrained(table))
    comment = f"Table 5.1, {protocol or 'no'} protocol: ours {beside}"
    return blocks.texts(heading, in_markdown, comment, in_latex=in_latex)


def _rows(table: pl.DataFrame, loss: str, metric: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a loss and then the controls, each with the best and the unbounded score that compare with it.

    Scores of cells that did not train are not compared; with fewer than two others there is no best one.
    """
    of_metric = table.filter(pl.col("metric") == metric)
    cells = of_metric.filter(pl.col("loss") == loss).to_dicts()
    cells.sort(key=lambda row: scores.place(row["bounding"], BOUNDINGS))
    for row in cells:
        of_set = [one for one in cells if (one["dataset"], one["nsr"]) == (row["dataset"], row["nsr"])]
        known = {one["bounding"]: one["ours"] for one in of_set if one["ours"] is not None and not one["n_untrained"]}
        best = max(known.values()) if len(known) > 1 else None
        yield row | {"name": bounding_title(row["bounding"]), "best": best, "base": known.get("none")}
    for row in of_metric.filter(pl.col("loss") == "none").sort("model", maintain_order=True).iter_rows(named=True):
        yield row | {"name": row["model"], "best": None, "base": None}


def _cell(row: Row) -> Cell:
    """Return the mean, with the printed one or (honest protocol) its margin, and an arrow for a significant change."""
    ours, best, base, published, margin = (row[name] for name in ("ours", "best", "base", "published", "margin"))
    if ours is None:
        return Cell(DASH)
    note = ""
    if row["protocol"] == HONEST and margin is not None:
        note = f"±{margin:.{DIGITS}f}{('', UP, DOWN)[significance(row['change'], row['p_holm'])]}"
    elif row["protocol"] != HONEST and published is not None and row["as_printed"]:
        note = f"{published:.{DIGITS}f}"
    if row["n_untrained"]:
        return Cell(f"{ours:.{DIGITS}f}{MARK}", note)
    strong = best is not None and round(ours, DIGITS) == round(best, DIGITS)
    emphasis = base is not None and round(ours, DIGITS) > round(base, DIGITS)
    return Cell(f"{ours:.{DIGITS}f}", note, strong, emphasis)


_ABOUT: dict[str, Any] = {
    "needs": ("runs",),
    "uses": ("epochs",),
    "section": "",
}


@TABLES.add(
    "table_5_1_honest",
    text(FILE, "table_5_1"),
    arguments={"protocol": HONEST},
    part=HONEST,
    title="5.1, honest protocol",
    options=("study",),
    **_ABOUT,
)
@TABLES.add("table_5_1", title="5.1", part=FIRST, options=("protocol", "study"), metrics=True, **_ABOUT)
def make_table_5_1(name: str, files: StudyFiles, **options: str) -> TableFiles:
    """Return the table and its means."""
    table = table_5_1(files.needed("runs"), RunsChoice(**options), files.epochs)
    return TableFiles(table, texts(table), metrics(table))


_CELL = ("dataset", "nsr", "loss", "bounding")
_CHANGES = ("published", "lowest_rate", "honest")
SIGN_COLUMNS: dict[str, pl.DataType] = {
    **schema("text: dataset; int8: nsr; text: loss bounding"),
    **dict.fromkeys((*_CHANGES, "p_published", "p_honest"), pl.Float64()),
}


def signs(published: pl.DataFrame, honest: pl.DataFrame, rates: pl.DataFrame) -> pl.DataFrame:
    """Return a row per distinct cell of Table 5.1 that both protocols have.

    Args:
        published, honest: Table 5.1 by each protocol.
        rates: the scores of all rates of the honest protocol's grids.
    """
    columns = []
    for protocol, table in ((PUBLISHED, published), (HONEST, honest)):
        cells = table.filter(pl.col("as_printed"), pl.col("change").is_not_null())
        numbers = pl.col("change").alias(protocol), pl.col("p_holm").alias(f"p_{protocol}")
        columns.append(cells.select(*_CELL, *numbers))
    # Means over folds at the lowest rate of each data set's grid, bounded minus unbounded.
    named = rates.rename({"nsr_test": "nsr"})
    lowest = named.filter(pl.col("learning_rate") == pl.col("learning_rate").min().over("dataset", "nsr"))
    score = pl.col("test_score")
    usual = score.filter(pl.col("bounding") == UNBOUNDED).first().over(_CELL[:3])
    at_lowest = lowest.group_by(_CELL).agg(score.mean()).select(*_CELL, (score - usual).alias("lowest_rate"))
    table = columns[0].join(columns[1], on=_CELL, nulls_equal=True, maintain_order="left")
    table = table.join(at_lowest, on=_CELL, how="left", nulls_equal=True, maintain_order="left")
    distinct = [is_distinct(*row) for row in table.select("loss", "bounding").rows()]
    return table.filter(pl.Series(distinct, dtype=pl.Boolean)).select(*SIGN_COLUMNS).cast(SIGN_COLUMNS)  # type: ignore[arg-type]


def signs_block(table: pl.DataFrame) -> TableBlock:
    """Return the counts by loss, and of all cells."""
    groups = {loss: table.filter(pl.col("loss") == loss) for loss in LOSSES} | {"all": table}
    # Signs are -1, 0 or 1; differences due to rounding are 0.
    changes = [pl.col(name) for name in _CHANGES]
    published, lowest, honest = (pl.when(one.abs() > TIE).then(one.sign()).otherwise(0.0) for one in changes)
    rows = []
    for loss, own in groups.items():
        other = own.filter(published * honest < 0)
        steps = {
            "by protocol": other.filter(published * lowest < 0).height,
            "by rate": other.filter(lowest * honest < 0).height,
            "there and back": own.filter(published * lowest < 0, lowest * honest < 0).height,
        }
        known = steps if own["lowest_rate"].count() else dict.fromkeys(steps)
        significant = other.filter(pl.col("p_published") <= LEVEL, pl.col("p_honest") <= LEVEL).height
        counts = {"cells": len(own), "other sign": len(other), "significantly": significant}
        rows += [{"loss": loss, **counts, **known}] * bool(len(own))
    block = Layout.of(FILE, "signs")(rows)
    return replace(block, rules=frozenset({len(block.rows) - 1}))


@TABLES.add(
    "table_signs",
    needs=("runs", "rates"),
    uses=("epochs",),
    options=("study",),
    columns=SIGN_COLUMNS,
    layout=signs_block,
)
def make_signs(name: str, files: StudyFiles, *, study: str = "thesis") -> pl.DataFrame:
    """Return the table of a study; without runs of both protocols it has no rows."""
    runs = files.needed("runs")
    published, honest = (table_5_1(runs, RunsChoice(one, study), files.epochs) for one in (PUBLISHED, HONEST))
    rates = read_frame(files.needed("rates"), RATES).filter(pl.col("study") == study, pl.col("protocol") == HONEST)
    return signs(published, honest, rates)
