r"""Experiments: scores of variants beside the study's own runs, and losses that exchange places between two choices.

Variants are compared in the same folds and under the same seeds. The order of losses whose means hardly differ is
chance, whatever the choice (the number of factors, the optimiser), and Kendall's tau mixes such pairs with those that
matter. So each pair of losses is tested: with $d_c$ their difference under choice $c$, they exchange places if
$d_c > 0$ under one choice and $d_c < 0$ under another.

- refuted: a pair is shown to exchange places, both differences being significant (Holm over all pairs);
- confirmed: of every pair it is shown that it does not exchange places by $\delta$, the smallest effect of the metric,
  or more on both sides: all its $d_c$ are below $\delta$, or all are above $-\delta$. All tests must be significant (an
  intersection-union test).

If no pair exchanges places, at most 5 % of all studies refute; if one does by $\delta$, at most 5 % confirm.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import combinations

import numpy as np
import polars as pl

from rankbound.compare import Pair, PairedScores
from rankbound.compare.scores import SYSTEM, scores_of_frame
from rankbound.compare.statistics import Estimate
from rankbound_study.claims.evidence import MOVIELENS, READ, Contrast, Evidence, is_distinct, judge
from rankbound_study.claims.rules import adjusted, by_p
from rankbound_study.claims.verdicts import INCONCLUSIVE, MissingEvidence, Ruling, enough
from rankbound_study.config.data_sets import DataSet
from rankbound_study.results.scores import best_of, scores_of_runs, validation_scores

SYSTEMS = ("a", "b")  # the names of two systems whose difference is taken, a minus b
Training = tuple[str, str]  # a loss and its bounding


def usual_beside(evidence: Evidence, column: DataSet, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the study's own runs with the folds, seeds, losses and boundings of some rows.

    Those of all variants are better than those of one alone, under which some losses may not have trained.

    Raises:
        MissingEvidence: there are no such runs.
    """
    usual = evidence.cell(column).select(READ).collect()
    for key in (["fold", "seed"], ["loss", "bounding"]):
        usual = usual.join(rows.select(key).unique(), on=key, how="semi")
    if usual.is_empty():
        raise MissingEvidence(f"no run of the study on {column} has the folds, seeds and losses of an experiment")
    return usual


def columns_of(evidence: Evidence, experiment: str, *datasets: str) -> list[DataSet]:
    """Return the columns of some data sets on which an experiment ran; MissingEvidence if there are none."""
    found = []
    for dataset in datasets:
        with suppress(MissingEvidence):
            found += [column for column in evidence.columns(dataset) if evidence.variants(experiment, column)]
    if not found:
        where = " on MovieLens" if datasets == (MOVIELENS,) else ""
        raise MissingEvidence(f"the experiment {experiment} did not run{where}: see experiments in config.yaml")
    return found


def trainings(rows: pl.DataFrame) -> list[Training]:
    """Return the losses and boundings that were trained."""
    return sorted(rows.select("loss", "bounding").unique().rows())


def paired(rows: pl.DataFrame, other: pl.DataFrame, training: Training) -> Contrast:
    """Return a loss and bounding in some rows minus the same in others, on the loss' own metric."""
    return Contrast.of(side_by_side(rows, other, training).pair(*SYSTEMS))


def side_by_side(
    rows: pl.DataFrame, other: pl.DataFrame, training: Training, against: Training | None = None
) -> PairedScores:
    """Return the scores of a loss and bounding in some rows, and of the same (or `against`) in others, as `SYSTEMS`."""
    metric = judge(training[0])
    parts = [
        frame.filter(loss=loss, bounding=bounding).select(
            pl.lit(name).alias(SYSTEM), "topic", "fold", "seed", "drawing", metric
        )
        for name, frame, (loss, bounding) in zip(SYSTEMS, (rows, other), (training, against or training), strict=True)
    ]
    if any(part.is_empty() for part in parts):
        raise MissingEvidence(f"no runs of {' with bounding '.join(training)} in an experiment and beside it")
    return scores_of_frame(pl.concat(parts), metric)


def on_the_same_lists(rows: pl.DataFrame, usual: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Keep test lists of equal length in both: none lost a negative because training had seen it."""
    key = ["fold", "topic", "n"]
    rows, usual = rows.join(usual, on=key, how="semi"), usual.join(rows, on=key, how="semi")
    if rows["topic"].n_unique() < 2:
        raise MissingEvidence("all test lists but one lost negatives that training at another ratio had seen")
    return rows, usual


def pair_in(rows: pl.DataFrame, metric: str, by: str, systems: tuple[str, str], where: str) -> Pair:
    """Pair the scores of two systems, which a column of the rows names.

    Raises:
        MissingEvidence: one of them did not run, or there are too few topics for a test.
    """
    for name in systems:
        if name not in rows[by]:
            raise MissingEvidence(f"no honest runs of {name} {where}")
    both = scores_of_runs(rows, metric, by=(by,)).pair(*systems)
    enough(len(both.units), where)
    return both


def best_bounding(evidence: Evidence, column: DataSet, loss: str, names: Iterable[str]) -> str | None:
    """Return the bounding of a loss that scores highest on the validation part; None without validation scores."""
    epochs = evidence.epochs_of(column).filter(pl.col("loss") == loss)
    return best_of(list(names), validation_scores(epochs, judge(loss), "bounding"))


def picked_by_validation(evidence: Evidence, experiment: str, column: DataSet, metric: str = "") -> dict[Training, str]:
    """Return the variant whose best epoch scores highest on validation, for every loss and bounding.

    `metric` picks it; by default the metric that judges the loss.
    """
    scores: dict[Training, dict[str, float]] = {}
    for name, epochs in evidence.variants(experiment, column, of_epochs=True).items():
        for loss in epochs.select("loss").unique().sort("loss").collect()["loss"]:
            of_loss = epochs.filter(pl.col("loss") == loss)
            for bounding, score in validation_scores(of_loss, metric or judge(loss), "bounding").items():
                scores.setdefault((loss, bounding), {})[name] = score
    return {key: best for key, by_name in scores.items() if (best := best_of(list(by_name), by_name)) is not None}


def picked_rows(rows: Mapping[str, pl.DataFrame], picked: Mapping[Training, str]) -> pl.DataFrame:
    """Return the rows of every loss and bounding from its picked variant."""
    return pl.concat(rows[name].filter(loss=loss, bounding=bounding) for (loss, bounding), name in picked.items())


_SEPARATOR = " / "


def order_kept(choices: Sequence[pl.DataFrame], metric: str, untuned: Collection[Training] = ()) -> Ruling:
    """Rule on whether losses keep their places between choices, which have the same losses and boundings.

    Refuted if a pair of losses exchanges places, confirmed if none does by the margin. The value is the smallest
    Kendall's tau between the orders of two choices by means over all seeds, and the facts are the pairs that are shown
    to exchange places, and the number of those that are neither shown to do so nor not to. With one seed, differences
    between trainings are unknown.

    Args:
        choices: the rows of each choice.
        metric: on which all losses are compared.
        untuned: losses whose place is unknown under some choice; their pairs stay open.

    Raises:
        MissingEvidence: there are fewer than two losses, or fewer than two topics.
    """
    names = [_SEPARATOR.join(one) for one in trainings(choices[0]) if is_distinct(*one)]
    if len(names) < 2:
        raise MissingEvidence(f"an order needs two losses, and the experiment has {len(names)}: add others to it")
    scores = [scores_of_runs(rows, metric, by=("loss", "bounding")) for rows in choices]
    unknown = {_SEPARATOR.join(one) for one in untuned}
    kept: dict[str, float] = {}
    exchanged: dict[str, float] = {}
    has_seeds = True
    for both in combinations(names, 2):
        pairs = [each.pair(*both) for each in scores]
        for one in pairs:
            enough(len(one.units), f"with a score of {both[0]} and {both[1]}")
        found, key = list(map(Contrast.of, pairs)), " and ".join(both)
        margin, has_seeds = found[0].margin, has_seeds and all(one.seeds > 1 for one in found)
        tested = [] if unknown & set(both) else found
        exchanged[key] = p_exchanged(tested) if tested else 1.0
        # All differences are below the margin, or all above minus the margin.
        below = max((one.p_below(margin) for one in tested), default=1.0)
        above = max((one.p_above(-margin) for one in tested), default=1.0)
        kept[key] = min(1.0, 2 * min(below, above))
    exchanged = adjusted(exchanged)
    shown = sorted((key for key in kept if by_p(1.0, exchanged[key]) != INCONCLUSIVE), key=lambda key: exchanged[key])
    undecided = sum(by_p(kept[key], exchanged[key]) == INCONCLUSIVE for key in kept)
    verdict = by_p(max(kept.values()), min(exchanged.values())) if has_seeds else INCONCLUSIVE
    tau, first = least_tau(choices, metric), f" ({shown[0]})" if shown else ""
    reason = f"a Kendall's tau of {tau:.2f} (with one seed, the effect of chance is unknown)"
    if has_seeds:
        reason = (
            f"{len(shown)} of {len(kept)} pairs of losses exchange places significantly{first}, {undecided} may do so "
            f"by {margin:g} or more, and Kendall's tau is {tau:.2f}"
        )
    return Ruling(verdict, {"exchanged": shown, "open": undecided}, tau, n=len(kept), reason=reason)


def p_exchanged(of_choices: Sequence[Estimate]) -> float:
    """Return the p-value that is small if one difference is above zero and another below."""
    above = min(one.p_above(0.0) for one in of_choices)
    below = min(one.p_below(0.0) for one in of_choices)
    return min(1.0, len(of_choices) * max(above, below))


_TRAINING = ("loss", "bounding")


def least_tau(choices: Sequence[pl.DataFrame], metric: str) -> float:
    """Return the smallest tau between two choices, over the topics that all have scores of; NaN without such topics.

    All choices have the same losses and boundings. Equal orders without any difference count as 1.
    """
    (means,) = _means([choices], metric)
    return min((kendalls_tau(*pair) for pair in combinations(means, 2)), default=float("nan"))


def least_tau_of_seeds(choices: Sequence[pl.DataFrame], metric: str) -> float | None:
    """Return the smallest tau between two seeds of one choice; None if each has one seed."""
    of_seeds = [rows.partition_by("seed", maintain_order=True) for rows in choices]
    taus = [kendalls_tau(*pair) for means in _means(of_seeds, metric) for pair in combinations(means, 2)]
    return min(taus, default=None)


def _means(groups: Sequence[Sequence[pl.DataFrame]], metric: str) -> list[list[np.ndarray]]:
    """Return the mean of every loss and bounding, in one order, for every frame of every group."""
    flat = [rows for group in groups for rows in group]
    read = ("topic", *_TRAINING, metric)
    named = pl.concat(rows.select(*read).with_columns(part=pl.lit(place)) for place, rows in enumerate(flat))
    of_topics = named.with_columns(pl.col(metric).fill_nan(None)).group_by("part", "topic", *_TRAINING)
    means = of_topics.agg(pl.col(metric).mean()).with_columns(known=pl.col(metric).is_not_null().all().over("topic"))
    table = means.filter("known").group_by("part", *_TRAINING).agg(pl.col(metric).mean()).sort("part", *_TRAINING)
    found = iter(table.partition_by("part", maintain_order=True))
    return [[one[metric].to_numpy() for _, one in zip(group, found, strict=False)] for group in groups]


def kendalls_tau(one: np.ndarray, other: np.ndarray) -> float:
    """Return Kendall's tau of two orders by means, whose rounding errors are ties; 1 if none differ."""
    rounded = [np.round(values, 12) for values in (one, other)]
    if all(np.ptp(values) == 0 for values in rounded):
        return 1.0
    from scipy import stats

    return float(stats.kendalltau(*rounded).statistic)
