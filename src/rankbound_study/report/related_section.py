"""Write the section on related work: what each paper finds, what it predicts for this study, and our number."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from rankbound.compare.margins import LEVEL
from rankbound.texts import quantity
from rankbound_study.claims.related import COLUMNS, GRADIENT_COLUMNS, GRADIENTS, NAME, RANK_COLUMNS, RANKS
from rankbound_study.config.data_sets import DataSet
from rankbound_study.report.blocks import Paragraph, ReportSection
from rankbound_study.report.columns import signed, with_minus
from rankbound_study.report.made_blocks import table_blocks
from rankbound_study.report.table_files import read_table
from rankbound_study.vocabulary import AFFINE, LOSSES, UNBOUNDED

_TEXT = "Other work normalises metrics or gradients by list. Each paragraph ends with what it predicts, and our number."

_UPPER_LOWER = (
    "Joint Upper & Lower Bound Normalization for IR Evaluation (arXiv 2209.05007) normalises nDCG and MAP by an upper "
    "bound and by a lower one, which is estimated from random rankings. On two data sets and eight learning methods, "
    "some significant differences vanish and others appear, and more pairs of systems can be distinguished. This is "
    "expectation-max bounding of the metric that evaluates, not of the loss. It predicts that bounding the metric "
    "changes which of our systems differ significantly. "
)
_MIN_MAX = (
    "The Impact of Negative Relevance Judgments on NDCG (CIKM 2020) scales nDCG between its smallest and largest "
    "value, because negative labels leave it unbounded; compared with labels set to zero, this retains statistical "
    "power and improves reliability and stability. Our labels are not negative, so that only the floor of a list is "
    "removed. It predicts as many significant differences by min-max bounded nDCG as by nDCG. "
)
_INCONSISTENT = (
    "On (Normalised) Discounted Cumulative Gain as an Off-Policy Evaluation Metric for Top-n Recommendation (KDD 2024) "
    "shows that normalising DCG is inconsistent: it can invert the order of systems. Normalising gives lists other "
    "weights, and so does a bound of a normalised metric. It predicts inverted pairs of systems where these weights "
    "vary. "
)
_STALLED = (
    "XGBoost 2.0 normalises the gradients of its ranking objectives; its issue 9625 reports that the training loss of "
    "`rank:pairwise` falls much more slowly than in version 1.7. Since version 2.1 the option "
    "`lambdarank_normalization` turns the normalisation of leaves off, and the documentation says that it can stagnate "
    "training. That factor depends on the scores, as that of distribution bounding does; the factors of affine bounds "
    "are constants of a list. It predicts trainings that stall under distribution bounding and none under affine "
    "bounds. "
)
_INCOHERENT = (
    "LambdaRank Gradients are Incoherent (CIKM 2023) shows that a more relevant document may get a smaller push than a "
    "less relevant one, and that fewer such cases improve nDCG significantly. Every bound multiplies the gradient of a "
    "list by one number that is not negative, so that bounding can neither cause nor remove incoherence. "
)
_SOFT_RANKS = (
    "Metric-agnostic Learning-to-Rank via Boosting and Rank Approximation (ICDM 2023) presents SoftRankGBM, which fits "
    "smooth ranks by boosting with the squared error of each query, names no metric in the loss, and reports higher "
    "NDCG and MAP than LambdaMART on two data sets. Our nRBP loss is a sum of smooth ranks, too. It predicts that this "
    "loss, unbounded, ranks at least as well by nDCG and AP as the losses of these metrics. "
)


def related_sections(tables: Path, honest: pl.DataFrame) -> Iterator[ReportSection]:
    """Yield the section, if its table was made.

    Args:
        tables: the folder of the tables.
        honest: Table 5.1 of the honest protocol, which counts trainings.
    """
    if not (tables / f"{NAME}.csv").exists():
        return
    orders = read_table(tables / f"{NAME}.csv", COLUMNS)
    gradients = read_table(tables / f"{GRADIENTS}.csv", GRADIENT_COLUMNS)
    ranks = read_table(tables / f"{RANKS}.csv", RANK_COLUMNS)
    paragraphs = (
        *_significant("Karmaker Santu and Feng 2022", _UPPER_LOWER, orders.filter(bound="expectation-max")),
        *_significant("Gienapp et al. 2020", _MIN_MAX, orders.filter(bound="min-max", metric="nDCG")),
        *_inverted(orders),
        *_stalled(honest),
        *_incoherent(gradients),
        *_losses_of_ranks(ranks),
    )
    yield ReportSection(
        "related", "Related work and what it predicts here", _TEXT, (*paragraphs, *table_blocks("related", tables))
    )


def _significant(title: str, text: str, orders: pl.DataFrame) -> Iterator[Paragraph]:
    if orders.is_empty():
        return
    names = ("pairs", "significant", "significant_bounded", "gained", "lost")
    count = orders.select(names).sum().row(0, named=True)
    yield Paragraph(
        title,
        text
        + "Here, of {pairs} pairs of systems, {significant} differ significantly by the metric and "
        "{significant_bounded} by its bounded form (at 5 %, without correction; pairs share systems and topics); "
        "{gained} differ by the bounded form alone, {lost} by the metric alone.".format_map(count),
    )


def _inverted(orders: pl.DataFrame) -> Iterator[Paragraph]:
    known = orders.filter(pl.col("tau").is_not_null())
    if known.is_empty():
        return
    lowest = known.sort("tau").row(0, named=True)
    pairs, inverted, exchanged = known.select("pairs", "inverted", "exchanged").sum().row(0)
    where = DataSet(lowest["dataset"], lowest["nsr"]).label
    yield Paragraph(
        "Jeunen, Potapov and Ustimenko 2024",
        f"{_INCONSISTENT}Here, bounds of nDCG and AP invert {inverted} of {pairs} pairs of systems, {exchanged} of "
        "them significantly by both forms. The lowest Kendall's tau between both orders is "
        f"{with_minus(format(lowest['tau'], '.2f'))} ({lowest['metric']} with {lowest['bound']} bounding on {where}).",
    )


def _stalled(honest: pl.DataFrame) -> Iterator[Paragraph]:
    trained = honest.filter(pl.col("as_printed"), pl.col("loss") != "none", pl.col("n_trainings") > 0)
    if trained.is_empty():
        return
    kinds = {"affine bounds": AFFINE, "distribution bounding": ("distribution",), "no bounding": (UNBOUNDED,)}
    counts = {
        kind: trained.filter(pl.col("bounding").is_in(names)).select("n_untrained", "n_trainings").sum().row(0)
        for kind, names in kinds.items()
    }
    texts = [f"{untrained} of {every} with {kind}" for kind, (untrained, every) in counts.items() if every]
    yield Paragraph(
        "XGBoost's normalisation of LambdaRank", f"{_STALLED}Here, of all trainings, {', '.join(texts)} did not train."
    )


def _incoherent(gradients: pl.DataFrame) -> Iterator[Paragraph]:
    plain = {row["loss"]: row for row in gradients.filter(bound=UNBOUNDED).iter_rows(named=True)}
    if not plain:
        return
    texts = [
        f"{100 * plain[loss]['incoherent'] / plain[loss]['pairs']:.1f} % ({loss})" for loss in LOSSES if loss in plain
    ]
    differing = sum(row["incoherent"] != plain[row["loss"]]["incoherent"] for row in gradients.iter_rows(named=True))
    yield Paragraph(
        "Marcuzzi, Lucchese and Orlando 2023",
        f"{_INCOHERENT}Here, on random lists of spread scores, the irrelevant item of a pair gets the larger push in "
        f"{', '.join(texts)} of the pairs; {quantity(differing, 'combination')} of a loss and a bound "
        f"{'has' if differing == 1 else 'have'} another share than the unbounded loss.",
    )


def _losses_of_ranks(ranks: pl.DataFrame) -> Iterator[Paragraph]:
    if ranks.is_empty():
        return
    texts = [_spread(str(metric), own) for (metric,), own in ranks.group_by("metric", maintain_order=True)]
    text = f"{_SOFT_RANKS}Here, its difference from the metric's own loss is {'; '.join(texts)} (without correction)."
    yield Paragraph("Gomez, Wang and Fu 2023", text)


def _spread(metric: str, own: pl.DataFrame) -> str:
    differ, changes = own.filter(pl.col("p_value") <= LEVEL)["difference"], own["difference"].sort()
    return (
        f"{signed(changes[0])} to {signed(changes[-1])} in {metric} (significantly higher on {(differ > 0).sum()} of "
        f"{quantity(len(own), 'data set')}, lower on {(differ < 0).sum()})"
    )
