"""Tables of losses beside a reference, and what related work predicts of them.

Losses are compared on other metrics, at other ratios, with popularity, and with variants of the distribution bound:

- The metric trained and the metric judged: every loss on every metric, against the loss that is trained for it. Losses
  are compared as they are, and each with its best bounding, which the validation part picks by the metric that judges
  the loss. No loss is trained for RR and P@k: there, all are compared with that of nDCG.
- The ratio of negatives trained and the ratio tested: every training on the test lists of every ratio. Test negatives
  that a training at another ratio has seen are removed from its lists, so that differences are over the lists that lost
  none. The experiment is `ratios`, whose variants test at other ratios (`test_nsr`).
- Popularity against trained models. The answer depends on the test lists: uniform negatives are mostly items that few
  users rated, which a count tells apart from relevant ones at once. Draws by popularity take that advantage away; whole
  catalogues do not draw.
- Variants of the distribution bound against no bound, and against the best affine one. Variants are the study's own, in
  the thesis' gain, and those with parameters of the experiments `gains` and `tilts`, over the folds and seeds that both
  trainings have.

Related work asks of orders by bounded metrics, coherent gradients, a loss of ranks, and CiteULike-a:

- Do bounds of the metric that evaluates invert systems? A system is a loss under a bounding. The bounded metric of a
  test list is an affine function of the metric, but its coefficients differ between lists, so that means over lists may
  order systems differently. Lists whose items are all relevant, or all irrelevant, have no bounded value and are left
  out of both.
- Is a relevant item pushed up at least as strongly as an irrelevant one? Marcuzzi, Lucchese and Orlando (CIKM 2023,
  "LambdaRank gradients are incoherent") call a gradient incoherent if a more relevant item gets the smaller push. Here
  the smooth losses are examined, with and without bounds, on random lists.
- Does a loss of ranks score below a metric's own loss? The unbounded nRBP loss, a sum of smooth ranks, is judged by
  nDCG and AP.
- Do RBP losses beat nDCG and AP losses on CiteULike-a? Li, Urbano and Hanjalic (SIGIR 2021) report a grid of losses,
  ratios, folds and learning rates; the test part picks both rate and epoch. Their loss `dcg` is nDCG's, and their
  losses `rbp*` are one rank-sum loss, nRBP's of thesis eq. 2.12, which weighs a user by P(N - P); its min-max bounding
  weighs all users alike. As published, their code (listMF.py, utils.py, list_loss.py) calls this loss with the scale
  factor 0.01, meant for ranks, in the place of the sigmoid's: its smooth ranks have the temperature 100, those of the
  other losses 1. Here, every loss and bounding has its own rate at each ratio and temperature: picked, like the epoch,
  by the validation part, or by the test part for a comparison at the published level.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.resources import files
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
import polars as pl

import rankbound as rb
from rankbound.compare import PairedScores
from rankbound.compare.comparison import LEVEL
from rankbound.compare.scores import mean_of_known, per_unit
from rankbound_study.claims import varied
from rankbound_study.claims.evidence import KEY, Contrast, Evidence, adjusted_p_values, is_distinct, judge
from rankbound_study.claims.rules import adjusted
from rankbound_study.claims.verdicts import MissingEvidence, Untrained
from rankbound_study.config.data_sets import GRADED, DataSet
from rankbound_study.results.scores import place, scores_of_runs
from rankbound_study.results.study_files import scan_runs, schema
from rankbound_study.vocabulary import AFFINE, BOUNDINGS, JUDGED_BY, LOSSES, POPULARITY, UNBOUNDED, VARIANT

JUDGED = ("nDCG", "nDCG@10", "AP", JUDGED_BY["nRBP"], "RR", "P@5", "P@10")
"""The metrics that judge, in the order of the table's columns."""

TRAINED_FOR = {**{metric: loss for loss, metric in JUDGED_BY.items()}, "nDCG@10": "nDCG"}
"""Metric -> the loss that is trained for it."""

COMMON = "nDCG"  # the loss that others are compared with on metrics without a loss of their own

DIFFERENCE = schema("float: score difference low high p_value p_holm; int: n_topics")
"""A mean score, and its difference from that of a reference: null for the reference itself, or without one. Intervals
are of 95 % over topics and trainings; `p_holm` is corrected over all differences of the table."""


def _second(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Name what belongs to a second difference of a row, which has one score alone."""
    return {f"{prefix}{name}": value for name, value in values.items() if name != "score"}


METRIC_COLUMNS = schema("text: dataset; int8: nsr; flag: bounded; text: loss bounding metric reference") | DIFFERENCE
"""Columns of the table; `reference` is the loss with which others are compared, bounded if they are."""


def metrics_crossed(evidence: Evidence) -> pl.DataFrame:
    """Return a row per data set, loss (unbounded, then bounded) and judging metric."""
    found: list[dict[str, object]] = []
    for column in evidence.data_sets:
        rows = _of_losses(evidence.cell(column), metrics=JUDGED)
        losses = [loss for loss in LOSSES if loss in rows["loss"]]
        bounded = rows.filter(pl.col("bounding") != UNBOUNDED)
        names = {loss: bounded.filter(loss=loss)["bounding"] for loss in losses}
        picked = {loss: varied.best_bounding(evidence, column, loss, of_loss) for loss, of_loss in names.items()}
        for is_bounded, boundings in ((False, dict.fromkeys(losses, UNBOUNDED)), (True, picked)):
            of_loss = pl.col("loss").replace_strict(boundings, default=None, return_dtype=pl.String)
            own = rows.filter(pl.col("bounding") == of_loss)
            for metric in JUDGED:
                scores, reference = scores_of_runs(own, metric, by=("loss",)), TRAINED_FOR.get(metric, COMMON)
                where = {**column._asdict(), "bounded": is_bounded, "metric": metric, "reference": reference}
                for loss in [loss for loss in losses if loss in scores.systems]:
                    row = {**where, "loss": loss, "bounding": boundings[loss], **compared(scores, loss, reference)}
                    found.append(row)
    return _table(found, METRIC_COLUMNS)


def _table(rows: Iterable[Mapping[str, object]], columns: Mapping[str, pl.DataType], second: str = "") -> pl.DataFrame:
    """Return the rows with p-values corrected over all differences; those with a prefix are a second family."""
    table = pl.DataFrame(list(rows), schema=columns)
    for prefix in dict.fromkeys(("", second)):
        family = table.select(pl.col(f"{prefix}p_value").alias("p_value"))
        table = table.with_columns(adjusted_p_values(family).alias(f"{prefix}p_holm"))
    return table


def compared(scores: PairedScores, system: str, reference: str) -> dict[str, object]:
    """Return a system's mean score and its difference from a reference, without `p_holm`."""
    own = per_unit(scores.values[list(scores.systems).index(system)])
    row: dict[str, object] = {"score": float(mean_of_known(own)), "n_topics": int(np.isfinite(own).sum())}
    if reference in (system, "") or reference not in scores.systems:
        return row
    pair = scores.pair(system, reference)
    if len(pair.units) < 2:
        return row
    found = Contrast.of(pair)
    row |= zip(("difference", "low", "high", "p_value"), (*found.measured, found.p_value()), strict=True)
    return row


def _of_losses(rows: pl.LazyFrame, *more: str, metrics: Iterable[str] = JUDGED_BY.values()) -> pl.DataFrame:
    return rows.filter(pl.col("loss").is_in(LOSSES)).select(*more, *KEY, *metrics).collect()


RATIOS_EXPERIMENT = "ratios"

EFFECT = "effect_"  # prefix of the columns on bounded minus unbounded, both trained at one ratio

RATIO_COLUMNS = (
    schema("text: dataset; int8: nsr_test nsr_train; text: loss bounding") | DIFFERENCE | _second(EFFECT, DIFFERENCE)
)
"""Columns of the table. Differences are from the same loss and bounding, trained at the ratio of the test."""


def ratios_crossed(evidence: Evidence) -> pl.DataFrame:
    """Return a row per tested ratio, loss, bounding and trained ratio; none if the experiment did not run.

    Rows of trainings that did not train have no numbers.
    """
    table: list[dict[str, object]] = []
    order = (*LOSSES, *BOUNDINGS)
    for column in [column for column in evidence.data_sets if column.nsr]:
        rows, every = _rows_at(evidence, column), _rows_at(evidence.of_all_trainings(), column)
        for training in sorted(varied.trainings(every), key=lambda names: [place(name, order) for name in names]):
            loss, bounding = training
            trained = rows.filter(loss=loss, bounding=bounding)
            usual = trained.filter(pl.col("nsr_train") == pl.col("nsr_test"))
            for trained_at in every.filter(loss=loss, bounding=bounding)["nsr_train"].unique().sort():
                row = {"dataset": column.dataset, "nsr_test": column.nsr, "nsr_train": trained_at}
                row |= {"loss": loss, "bounding": bounding}
                both = other = trained.filter(nsr_train=trained_at)
                if len(other):
                    with suppress(MissingEvidence):
                        both = other if other.equals(usual) else pl.concat(varied.on_the_same_lists(other, usual))
                    scores = scores_of_runs(both, judge(loss), by=("nsr_train",))
                    row |= compared(scores, str(trained_at), str(column.nsr))
                    scores = scores_of_runs(rows.filter(loss=loss, nsr_train=trained_at), judge(loss), by=("bounding",))
                    row |= _second(EFFECT, compared(scores, bounding, UNBOUNDED))
                table.append(row)
    return _table(table, RATIO_COLUMNS, EFFECT)


def _rows_at(evidence: Evidence, column: DataSet) -> pl.DataFrame:
    """Return the runs on the test lists of a ratio: the study's own, and those trained at any ratio."""
    read = [_of_losses(evidence.cell(column), "nsr_train")]
    try:
        found = evidence.varied(RATIOS_EXPERIMENT, column, "nsr_train")
        read += [_of_losses(rows.lazy(), "nsr_train") for rows in found.values()]
    except Untrained:
        pass
    except MissingEvidence:
        return read[0].clear()
    # An experiment may also repeat the study's own training, tested at its own ratio.
    key = ["nsr_train", "loss", "bounding", "fold", "seed", "topic"]
    return pl.concat(read).unique(key, keep="first", maintain_order=True)


POPULARITY_COLUMNS = schema("text: dataset; int8: nsr; text: metric model loss bounding; flag: picked") | DIFFERENCE
"""Columns of the table: differences from popularity; `picked` is the best bounding of its loss by validation."""

COUNT = f"{POPULARITY} / none / none"  # the system of popularity among the scores


def against_popularity(evidence: Evidence) -> pl.DataFrame:
    """Return a row per data set, metric and model: popularity, the other controls, every loss and bounding."""

    def place_of(system: str) -> tuple[bool, bool, int, str]:
        _, loss, bounding = system.split(" / ")
        return loss != "none", system != COUNT, place(bounding, BOUNDINGS)[0], system

    found: list[dict[str, object]] = []
    for column in [column for column in evidence.data_sets if column.sampled]:
        for loss, (scores, picked) in beside_popularity(evidence, column).items():
            for system in sorted(scores.systems, key=place_of):
                names = dict(zip(("model", "loss", "bounding"), system.split(" / "), strict=True))
                where = {**column._asdict(), "metric": judge(loss), **names, "picked": picked == system}
                found.append({**where, **compared(scores, system, COUNT)})
    return _table(found, POPULARITY_COLUMNS)


def beside_popularity(evidence: Evidence, column: DataSet) -> Mapping[str, tuple[PairedScores, str | None]]:
    """Return, by loss, the scores of controls and all boundings, and the system that the validation part prefers.

    Nothing without popularity, and no system without validation scores.
    """
    rows = evidence.cell(column).select(*KEY, *JUDGED_BY.values()).collect()
    found = {}
    for loss in LOSSES if POPULARITY in rows["model"] else ():
        if loss in rows["loss"]:
            scores = scores_of_runs(rows.filter(pl.col("loss").is_in([loss, "none"])), judge(loss))
            systems = {name.split(" / ")[2]: name for name in scores.systems if name.split(" / ")[1] == loss}
            best = varied.best_bounding(evidence, column, loss, systems)
            found[loss] = scores, None if best is None else systems[best]
    return found


_WITH_PARAMETERS = "distribution("

AFFINE_PREFIX = "affine_"
"""Prefix of the columns on the difference from the best affine bounding, by the validation part."""

VARIANT_COLUMNS = (
    schema("text: dataset; int8: nsr; text: loss bounding affine; flag: trained")
    | DIFFERENCE
    | _second(AFFINE_PREFIX, DIFFERENCE)
)
"""Columns of the table; differences are from the unbounded loss, null for variants that did not train."""


def distribution_variants(evidence: Evidence) -> pl.DataFrame:
    """Return a row per data set, loss and variant; none without the experiments."""
    found: list[dict[str, object]] = []
    for column in evidence.data_sets:
        every = _variants(evidence.of_all_trainings(), column)
        if every.is_empty():
            continue
        both = (evidence, evidence.of_all_trainings())
        rows, of_all = (_of_losses(one.cell(column)) for one in both)
        rows, ran = pl.concat([rows, _variants(evidence, column)]), pl.concat([of_all, every])
        for loss in [loss for loss in LOSSES if loss in ran["loss"]]:
            scores = scores_of_runs(rows.filter(loss=loss), judge(loss), by=("bounding",))
            ran_affine = [name for name in AFFINE if name in scores.systems]
            affine = None if evidence.epochs is None else varied.best_bounding(evidence, column, loss, ran_affine)
            for bounding in ran.filter(loss=loss)["bounding"].unique().sort():
                if bounding != "distribution" and not bounding.startswith(_WITH_PARAMETERS):
                    continue
                trained = bounding in scores.systems
                row = {**column._asdict(), "loss": loss, "bounding": bounding, "affine": affine, "trained": trained}
                if trained:
                    row |= compared(scores, bounding, UNBOUNDED)
                    row |= _second(AFFINE_PREFIX, compared(scores, bounding, affine or ""))
                found.append(row)
    return _table(found, VARIANT_COLUMNS, AFFINE_PREFIX)


def _variants(evidence: Evidence, column: DataSet) -> pl.DataFrame:
    """Return the runs with parameters of the bound; no rows if the experiments did not run on these data."""
    experiments = ("gains", "tilts") if evidence.experiments is not None else ()
    with_parameters = pl.col("bounding").str.starts_with(_WITH_PARAMETERS), pl.col("selection") == "validation"
    found = [
        _of_losses(rows.filter(*with_parameters))
        for experiment in experiments
        for rows in evidence.variants(experiment, column).values()
    ]
    return pl.concat(found) if found else _of_losses(evidence.cell(column)).clear()


RELATED, GRADIENTS, RANKS = "table_related", "table_related_gradients", "table_related_ranks"

OWN_METRICS = ("nDCG", "AP")
"""Metrics whose smallest and mean values differ between lists, which have losses of their name."""

ORDER_COLUMNS = schema(
    "text: dataset; int8: nsr; text: metric bound; int: systems pairs; float: tau; int: inverted "
    "exchanged significant significant_bounded gained lost"
)
"""The systems of a data set by a metric and by its bounded form, on the same lists: the numbers of systems and of pairs
of them, Kendall's tau between both orders of means, and these pairs: `inverted` ones have means in the other order,
`exchanged` ones are shown to be in the other order (significantly so by both forms, Holm), `significant` and
`significant_bounded` ones differ significantly by each form (without correction), `gained` and `lost` ones by the
bounded form alone and by the metric alone.
"""


def orders_table(evidence: Evidence) -> pl.DataFrame:
    """Return a row per data set with binary labels, metric and affine bound of the metric."""
    found: list[tuple[object, ...]] = []
    for column in [one for one in evidence.data_sets if not one.dataset.endswith(GRADED)]:
        rows = evidence.cell(column)
        mixed = rows.filter(pl.col("loss").is_in(LOSSES), pl.col("p") > 0, pl.col("p") < pl.col("n"))
        known = mixed.select(*KEY, *OWN_METRICS).collect()
        kept = known.filter([is_distinct(*row) for row in known.select("loss", "bounding").rows()])
        if kept.select("loss", "bounding").n_unique() < 3:  # the order of two says nothing
            continue
        n, p = (kept[name].cast(pl.Int64).to_numpy(writable=True) for name in ("n", "p"))
        for metric in OWN_METRICS:
            plain = scores_of_runs(kept, metric, by=("loss", "bounding"))
            for bound in AFFINE:
                values = rb.bounded(metric, bound).from_value(kept[metric].to_numpy(writable=True), n, p)
                bounded = scores_of_runs(kept.with_columns(pl.Series(metric, values)), metric, by=("loss", "bounding"))
                pairs = list(combinations(plain.systems, 2))
                # Means that agree to twelve decimals are tied.
                means = [np.asarray(np.nanmean(of.matrix, axis=0)).round(12) for of in (plain, bounded)]
                first, second = np.triu_indices(len(plain.systems), 1)
                inverted = np.prod([of[first] - of[second] for of in means], axis=0) < 0
                tests = [[Contrast.of(of.pair(*two)) for of in (plain, bounded)] for two in pairs]
                exchanged = adjusted({two: varied.p_exchanged(both) for two, both in zip(pairs, tests, strict=True)})
                changed = np.array(list(exchanged.values())) <= LEVEL
                differ, differ_bounded = np.array([[one.p_value() <= LEVEL for one in both] for both in tests]).T
                counts = inverted, changed, differ, differ_bounded, differ_bounded & ~differ, differ & ~differ_bounded
                numbers = len(plain.systems), len(pairs), varied.kendalls_tau(*means), *(int(of.sum()) for of in counts)
                found.append((*column, metric, bound, *numbers))
    return pl.DataFrame(found, schema=ORDER_COLUMNS, orient="row")


RANK_LOSS = "nRBP"
RANK_COLUMNS = schema("text: dataset; int8: nsr; text: metric; float: difference low high p_value")


def ranks_table(evidence: Evidence) -> pl.DataFrame:
    """Return a row per data set and metric: the loss of ranks minus the metric's own loss."""
    found = []
    for column, metric in product(evidence.data_sets, OWN_METRICS):
        losses = pl.col("loss").is_in([RANK_LOSS, metric])
        own = evidence.cell(column).filter(losses, bounding=UNBOUNDED).select(*KEY, metric).collect()
        row = compared(scores_of_runs(own, metric, by=("loss",)), RANK_LOSS, metric)
        if "difference" in row:
            found.append({**column._asdict(), "metric": metric, **row})
    return pl.DataFrame(found, schema=RANK_COLUMNS)


GRADIENT_COLUMNS = schema("text: loss bound; int: pairs incoherent")


def gradients_table() -> pl.DataFrame:
    """Return a row per loss and bound."""
    rows = [(*both, *coherence(*both)) for both in product(LOSSES, BOUNDINGS)]
    return pl.DataFrame(rows, schema=GRADIENT_COLUMNS, orient="row")


def coherence(loss: str, bound: str) -> tuple[int, int]:
    """Count pairs of a relevant and an irrelevant item, and those of them with a smaller push of the relevant one.

    Scores of random lists have a standard deviation of four temperatures: close ones alone have coherent gradients.
    """
    import torch  # which reading the table does not need

    random = np.random.default_rng(0)
    counts = [size for size in ((8, 3), (12, 4), (20, 5)) for _ in range(50)]
    relevance = np.concatenate([np.arange(n) < p for n, p in counts])
    offsets = np.concatenate([[0], np.cumsum([n for n, _ in counts])])
    scores = torch.tensor(random.normal(0, 4.0, len(relevance)), dtype=torch.float64, requires_grad=True)
    rb.SmoothLoss(loss, bound)(scores, relevance.astype(np.int64), offsets).sum().backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None
    push = -scores.grad.numpy()
    pairs = incoherent = 0
    for start, end in pairwise(offsets.tolist()):
        wanted = relevance[start:end]
        smaller = push[start:end][wanted][:, None] < push[start:end][~wanted][None, :]
        pairs, incoherent = pairs + smaller.size, incoherent + int(smaller.sum())
    return pairs, incoherent


DATASET = "citeulike-a"
WINNER: varied.Training = (RANK_LOSS, UNBOUNDED)

_PUBLISHED_LOSSES = {"dcg": "nDCG", "ap": "AP", **dict.fromkeys(("rbp", "rbp_80", "rbp_90", "rbp_95"), "nRBP")}

_TRAINED = schema(
    "int8: nsr; float: temperature; text: loss bounding; float: rate; flag: at_edge; float: nDCG AP test_picked_nDCG "
    "test_picked_AP nDCG_behind nDCG_low nDCG_high AP_behind AP_low AP_high; int: n_trainings"
)
CITEULIKE_COLUMNS = _TRAINED | schema("float: published_nDCG published_AP")
"""Columns of the table. `at_edge` marks a picked rate that is the lowest or highest of those trained; `behind` is the
unbounded nRBP loss at the same temperature minus the row's, with a 95 % interval over users and trainings.
"""


def citeulike(evidence: Evidence) -> pl.DataFrame:
    """Return a row per ratio, loss and bounding; none if the experiments did not run.

    Their variants are learning rates: at the usual temperature (`rates`), and at a high one (`flat`).
    """
    if evidence.experiments is None:
        return pl.DataFrame(schema=CITEULIKE_COLUMNS)
    rows: list[dict[str, object]] = []
    for experiment in ("rates", "flat"):
        start = f"{evidence.study}{VARIANT}{experiment}-"
        runs = scan_runs(evidence.experiments).filter(pl.col("study").str.starts_with(start), dataset=DATASET)
        for nsr in runs.select("nsr_test").unique().drop_nulls().sort("nsr_test").collect()["nsr_test"]:
            rows += _of_ratio(evidence, experiment, nsr)
    table = pl.DataFrame(rows, schema=_TRAINED).sort("nsr", "temperature", maintain_order=True)
    key = ["nsr", "temperature", "loss", "bounding"]
    return table.join(published_scores(), on=key, how="left", maintain_order="left").select(list(CITEULIKE_COLUMNS))


def published_scores() -> pl.DataFrame:
    """Return the published means over folds, each at the best rate for the metric; equal losses are averaged."""
    resource = files("rankbound_study.reference").joinpath("sigir21_citeulike.csv")
    grid = pl.read_csv(resource.read_bytes(), schema_overrides={"nsr": pl.Int8})
    known = grid.filter(pl.col("loss").is_in(list(_PUBLISHED_LOSSES)))
    best = known.group_by("loss", "nsr", "fold").agg(pl.col(OWN_METRICS).max())
    means = best.group_by(pl.col("loss").replace_strict(_PUBLISHED_LOSSES), "nsr").agg(pl.col(OWN_METRICS).mean())
    temperature = pl.when(pl.col("loss") == RANK_LOSS).then(100.0).otherwise(1.0).alias("temperature")
    named = means.rename({metric: f"published_{metric}" for metric in OWN_METRICS})
    return named.with_columns(temperature, pl.lit(UNBOUNDED).alias("bounding"))


def _of_ratio(evidence: Evidence, experiment: str, nsr: int) -> Iterator[dict[str, object]]:
    found = {
        name: rows.select("options", "selection", *KEY, *JUDGED_BY.values()).collect()
        for name, rows in evidence.variants(experiment, DataSet(DATASET, nsr)).items()
    }
    picked = varied.picked_by_validation(evidence, experiment, DataSet(DATASET, nsr))
    if not picked:
        return
    by = {part: {name: rows.filter(selection=part) for name, rows in found.items()} for part in ("validation", "test")}
    chosen = varied.picked_rows(by["validation"], picked)
    for training in varied.trainings(chosen):
        of = dict(zip(("loss", "bounding"), training, strict=True))
        own, winner = chosen.filter(**of), chosen.filter(loss=WINNER[0], bounding=WINNER[1])
        ran = {name: part for name, rows in found.items() if len(part := rows.filter(**of))}
        rates = {name: _option(part, "learning_rate") for name, part in ran.items()}
        rate = rates[picked[training]]
        row: dict[str, object] = {"nsr": nsr, "temperature": _option(own, "temperature"), **of, "rate": rate}
        row["at_edge"] = len(rates) > 1 and rate in (min(rates.values()), max(rates.values()))
        row["n_trainings"] = own.select("fold", "seed").n_unique()
        for metric in OWN_METRICS:
            row[metric] = _mean(own, metric)
            row[f"test_picked_{metric}"] = max(_mean(by["test"][name].filter(**of), metric) for name in rates)
            if training != WINNER and len(winner):
                scores = scores_of_runs(pl.concat([winner, own]), metric, by=("loss", "bounding"))
                measured = Contrast.of(scores.pair(*map(" / ".join, (WINNER, training)))).measured
                row |= zip((f"{metric}_{name}" for name in ("behind", "low", "high")), measured, strict=True)
        yield row


def _option(rows: pl.DataFrame, name: str) -> float:
    return float(json.loads(rows["options"][0])[name])


def _mean(rows: pl.DataFrame, metric: str) -> float:
    """Return the mean over users of their means over folds and seeds."""
    return float(mean_of_known(per_unit(scores_of_runs(rows, metric, by=("loss", "bounding")).values[0])))
