"""What related work predicts and reports: orders by bounded metrics, coherent gradients, a loss of ranks, CiteULike-a.

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
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.resources import files
from itertools import combinations, pairwise

import numpy as np
import polars as pl

import rankbound as rb
from rankbound.compare import PairedScores
from rankbound.compare.margins import LEVEL
from rankbound.compare.scores import mean_of_known, per_unit
from rankbound_study.claims.cells import contrast, estimate, is_distinct
from rankbound_study.claims.comparisons import compared
from rankbound_study.claims.evidence import KEY, Evidence
from rankbound_study.claims.rules import adjusted
from rankbound_study.claims.varied import Training, p_exchanged, picked_by_validation, picked_rows, trainings
from rankbound_study.claims.verdict import MissingEvidence
from rankbound_study.config.data_sets import GRADED, DataSet
from rankbound_study.results.scores import scores_of_runs
from rankbound_study.results.study_files import scan_runs, schema
from rankbound_study.vocabulary import AFFINE, BOUNDINGS, JUDGED_BY, LOSSES, UNBOUNDED, VARIANT

NAME, GRADIENTS, RANKS = "table_related", "table_related_gradients", "table_related_ranks"

METRICS = ("nDCG", "AP")
"""Metrics whose smallest and mean values differ between lists, which have losses of their name."""

_FEWEST = 3  # systems whose order says something
_DECIMALS = 12  # means that agree to so many decimals are tied

COLUMNS = schema(
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
    for column, rows in _by_data_set(evidence, (one for one in evidence.data_sets if not one.dataset.endswith(GRADED))):
        mixed = rows.filter(pl.col("loss").is_in(LOSSES), pl.col("p") > 0, pl.col("p") < pl.col("n"))
        known = mixed.select(*KEY, *METRICS).collect()
        kept = known.filter([is_distinct(*row) for row in known.select("loss", "bounding").rows()])
        if kept.select("loss", "bounding").n_unique() < _FEWEST:
            continue
        n, p = (kept[name].cast(pl.Int64).to_numpy(writable=True) for name in ("n", "p"))
        for metric in METRICS:
            plain = scores_of_runs(kept, metric, by=("loss", "bounding"))
            for bound in AFFINE:
                values = rb.bounded(metric, bound).from_value(kept[metric].to_numpy(writable=True), n, p)
                bounded = scores_of_runs(kept.with_columns(pl.Series(metric, values)), metric, by=("loss", "bounding"))
                found.append((*column, metric, bound, *_compared(plain, bounded)))
    return pl.DataFrame(found, schema=COLUMNS, orient="row")


def _compared(plain: PairedScores, bounded: PairedScores) -> tuple[object, ...]:
    """Return the numbers of a row: systems, pairs, tau and counts of pairs."""
    from scipy import stats

    pairs = list(combinations(plain.systems, 2))
    means = [np.asarray(np.nanmean(of.matrix, axis=0)).round(_DECIMALS) for of in (plain, bounded)]
    both = [
        [estimate(one.a - one.b, one.drawings) for one in (plain.pair(*names), bounded.pair(*names))] for names in pairs
    ]
    differ, differ_bounded = np.array([[one.p_value() <= LEVEL for one in each] for each in both]).T
    first, second = np.triu_indices(len(plain.systems), 1)
    inverted = np.prod([of[first] - of[second] for of in means], axis=0) < 0
    exchanged = adjusted({pair: p_exchanged(each) for pair, each in zip(pairs, both, strict=True)})
    changed = np.array(list(exchanged.values())) <= LEVEL
    counts = inverted, changed, differ, differ_bounded, differ_bounded & ~differ, differ & ~differ_bounded
    tau = float(stats.kendalltau(*means).statistic)
    return len(plain.systems), len(pairs), tau, *(int(of_pairs.sum()) for of_pairs in counts)


RANK_LOSS = "nRBP"

RANK_COLUMNS = schema("text: dataset; int8: nsr; text: metric; float: difference low high p_value")


def ranks_table(evidence: Evidence) -> pl.DataFrame:
    """Return a row per data set and metric: the loss of ranks minus the metric's own loss."""
    found = []
    for column, rows in _by_data_set(evidence, evidence.data_sets):
        for metric in METRICS:
            own = rows.filter(pl.col("loss").is_in([RANK_LOSS, metric]), bounding=UNBOUNDED).select(*KEY, metric)
            row = compared(scores_of_runs(own.collect(), metric, by=("loss",)), RANK_LOSS, metric)
            if "difference" in row:
                found.append({**column._asdict(), "metric": metric, **row})
    return pl.DataFrame(found, schema=RANK_COLUMNS)


def _by_data_set(evidence: Evidence, columns: Iterable[DataSet]) -> Iterator[tuple[DataSet, pl.LazyFrame]]:
    for column in columns:
        with suppress(MissingEvidence):
            yield column, evidence.cell(column.dataset, column.nsr)


SIZES = ((8, 3), (12, 4), (20, 5))  # items and relevant items of the random lists
LISTS = 50  # of each size
SPREAD = 4.0  # standard deviation of the scores, in temperatures: close scores alone have coherent gradients

GRADIENT_COLUMNS = schema("text: loss bound; int: pairs incoherent")


def gradients_table() -> pl.DataFrame:
    """Return a row per loss and bound."""
    rows = [(loss, bound, *coherence(loss, bound)) for loss in LOSSES for bound in BOUNDINGS]
    return pl.DataFrame(rows, schema=GRADIENT_COLUMNS, orient="row")


def coherence(loss: str, bound: str) -> tuple[int, int]:
    """Count pairs of a relevant and an irrelevant item, and those of them with a smaller push of the relevant one."""
    import torch  # which reading the table does not need

    random = np.random.default_rng(0)
    counts = [size for size in SIZES for _ in range(LISTS)]
    relevance = np.concatenate([np.arange(n) < p for n, p in counts])
    offsets = np.concatenate([[0], np.cumsum([n for n, _ in counts])])
    scores = torch.tensor(random.normal(0, SPREAD, len(relevance)), dtype=torch.float64, requires_grad=True)
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
EXPERIMENTS = ("rates", "flat")
"""The experiments whose variants are learning rates: at the usual temperature, and at a high one."""

WINNER: Training = ("nRBP", UNBOUNDED)
_PUBLISHED_TEMPERATURES = {"nRBP": 100.0}
"""Temperatures of the published losses other than 1."""

_PUBLISHED_LOSSES = {"dcg": "nDCG", "ap": "AP", **dict.fromkeys(("rbp", "rbp_80", "rbp_90", "rbp_95"), "nRBP")}

_TRAINED: dict[str, pl.DataType] = {
    **schema("int8: nsr; float: temperature; text: loss bounding; float: rate; flag: at_edge"),
    **{f"{picked}{metric}": pl.Float64() for picked in ("", "test_picked_") for metric in METRICS},
    **{f"{metric}_{name}": pl.Float64() for metric in METRICS for name in ("behind", "low", "high")},
    "n_trainings": pl.Int64(),
}
CITEULIKE_COLUMNS = _TRAINED | {f"published_{metric}": pl.Float64() for metric in METRICS}
"""Columns of the table. `at_edge` marks a picked rate that is the lowest or highest of those trained; `behind` is the
unbounded nRBP loss at the same temperature minus the row's, with a 95 % interval over users and trainings.
"""


def citeulike(evidence: Evidence) -> pl.DataFrame:
    """Return a row per ratio, loss and bounding; none if the experiment did not run."""
    ran = [(name, nsr) for name in EXPERIMENTS for nsr in _ratios(evidence, name)]
    rows = [row for name, nsr in ran for row in _of_ratio(evidence, name, nsr)]
    table = pl.DataFrame(rows, schema=_TRAINED).sort("nsr", "temperature", maintain_order=True)
    key = ["nsr", "temperature", "loss", "bounding"]
    return table.join(published_scores(), on=key, how="left", maintain_order="left").select(list(CITEULIKE_COLUMNS))


def published_scores() -> pl.DataFrame:
    """Return the published means over folds, each at the best rate for the metric; equal losses are averaged."""
    resource = files("rankbound_study.reference").joinpath("sigir21_citeulike.csv")
    grid = pl.read_csv(resource.read_bytes(), schema_overrides={"nsr": pl.Int8})
    known = grid.filter(pl.col("loss").is_in(list(_PUBLISHED_LOSSES)))
    best = known.group_by("loss", "nsr", "fold").agg(pl.col(METRICS).max())
    means = best.group_by(pl.col("loss").replace_strict(_PUBLISHED_LOSSES), "nsr").agg(pl.col(METRICS).mean())
    named = means.rename({metric: f"published_{metric}" for metric in METRICS})
    temperature = pl.col("loss").replace_strict(_PUBLISHED_TEMPERATURES, default=1.0).alias("temperature")
    return named.with_columns(temperature, pl.lit(UNBOUNDED).alias("bounding"))


def _ratios(evidence: Evidence, experiment: str) -> list[int]:
    """Return the ratios at which an experiment ran."""
    if evidence.experiments is None:
        return []
    study = f"{evidence.study}{VARIANT}{experiment}-"
    rows = scan_runs(evidence.experiments).filter(
        pl.col("study").str.starts_with(study), pl.col("dataset") == DATASET, pl.col("nsr_test").is_not_null()
    )
    found: list[int] = rows.select("nsr_test").unique().sort("nsr_test").collect()["nsr_test"].to_list()
    return found


def _of_ratio(evidence: Evidence, experiment: str, nsr: int) -> Iterator[dict[str, object]]:
    variants = {
        name: rows.select("options", "selection", *KEY, *JUDGED_BY.values()).collect()
        for name, rows in evidence.variants(experiment, DATASET, nsr).items()
    }
    picked = picked_by_validation(evidence, experiment, DataSet(DATASET, nsr))
    if not picked:
        return
    by = {
        part: {name: rows.filter(selection=part) for name, rows in variants.items()} for part in ("validation", "test")
    }
    chosen = picked_rows(by["validation"], picked)
    for training in trainings(chosen):
        of = dict(zip(("loss", "bounding"), training, strict=True))
        own, winner = chosen.filter(**of), chosen.filter(loss=WINNER[0], bounding=WINNER[1])
        ran = {name: part for name, rows in variants.items() if len(part := rows.filter(**of))}
        rates = {name: _option(part, "learning_rate") for name, part in ran.items()}
        rate = rates[picked[training]]
        row: dict[str, object] = {"nsr": nsr, "temperature": _option(own, "temperature"), **of, "rate": rate}
        row["at_edge"] = len(rates) > 1 and rate in (min(rates.values()), max(rates.values()))
        row["n_trainings"] = own.select("fold", "seed").n_unique()
        for metric in METRICS:
            row[metric] = _mean(own, metric)
            row[f"test_picked_{metric}"] = max(_mean(by["test"][name].filter(**of), metric) for name in rates)
            if training != WINNER and len(winner):
                scores = scores_of_runs(pl.concat([winner, own]), metric, by=("loss", "bounding"))
                measured = contrast(scores.pair(*map(" / ".join, (WINNER, training)))).measured
                row |= zip((f"{metric}_{name}" for name in ("behind", "low", "high")), measured, strict=True)
        yield row


def _option(rows: pl.DataFrame, name: str) -> float:
    return float(json.loads(rows["options"][0])[name])


def _mean(rows: pl.DataFrame, metric: str) -> float:
    """Return the mean over users of their means over folds and seeds."""
    return float(mean_of_known(per_unit(scores_of_runs(rows, metric, by=("loss", "bounding")).values[0])))
