"""Claims about web queries: classification and ranking, networks and other models, and the optimisers of networks.

They are about MSLR-WEB10K. Without its archive, the same test on MQ2008 is reported, but decides nothing.
"""

from collections.abc import Callable
from dataclasses import replace

from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.methods import (
    CLASSIFICATION,
    QUERIES,
    RANK,
    Gap,
    Methods,
    deciding,
    gaps,
    listed,
    over,
    read_methods,
    verdict_of,
)
from rankbound_study.claims.registry import decides
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, NOT_TESTABLE, REFUTED, MissingEvidence, Verdict
from rankbound_study.results.neural_names import AS_PRINTED
from rankbound_study.results.number_texts import score

WEB10K = "mslr-web10k-label2"
"""The paper's data set in its reading: labels of 2 and more are relevant."""

NO_ARCHIVE = "The archive of MSLR-WEB10K is not available here"

SHOWN = "table_neural_1"

RANDOM = "random"

TRAINED_BOTH_WAYS = (("Class-NN", "RankNet"), ("Class-LR", "Rank-LR"))
"""The same model as a classifier and as a ranker."""

NETWORKS = ("RankNet", "DirectRanker", "Class-NN")


@decides("N01")
def classifiers_rank_queries_better_than_pairwise_rankers(evidence: Evidence) -> Verdict:
    """Compare the same network and the same linear model, trained both ways."""
    return _of_web10k(evidence, _classification_against_ranking)


@decides("N02")
def networks_rank_queries_worse_than_linear_models_and_trees(evidence: Evidence) -> Verdict:
    """Compare every linear and every tree model with the best network of its family."""
    return _of_web10k(evidence, _others_against_networks)


@decides("N06")
def networks_train_with_plain_gradients_alone(evidence: Evidence) -> Verdict:
    """Decide by whether networks rank better than at random with either optimiser."""
    return _of_web10k(evidence, _optimisers)


def _of_web10k(evidence: Evidence, judge: Callable[[Methods], Verdict]) -> Verdict:
    """Return the verdict on MSLR-WEB10K if it has run, else the result of the same test on MQ2008."""
    try:
        methods = read_methods(evidence, WEB10K)
    except MissingEvidence:
        return _of_other_queries(evidence, judge)
    return judge(methods)


def _of_other_queries(evidence: Evidence, judge: Callable[[Methods], Verdict]) -> Verdict:
    try:
        methods = read_methods(evidence, QUERIES)
        found = judge(methods)
    except MissingEvidence as missing:
        return Verdict(NOT_TESTABLE, f"{NO_ARCHIVE}, nor can other queries be tested: {missing}.")
    reason = f"{found.reason[0].lower()}{found.reason[1:]}"
    return replace(
        found,
        verdict=NOT_TESTABLE,
        reason=f"{NO_ARCHIVE}; on {methods.title} the same claim would be {found.verdict}: {reason}",
        statistic=f"on {methods.title}: {found.statistic}",
    )


def _classification_against_ranking(methods: Methods) -> Verdict:
    found = gaps(methods, [pair for pair in TRAINED_BOTH_WAYS if methods.has(*pair)])
    if not found:
        raise MissingEvidence(f"no model was trained both ways on {methods.title}")
    return Verdict(
        verdict_of([one.side for one in found]),
        f"The same model as a classifier and as a pairwise ranker differs in mean nDCG@10 by {listed(found)}, "
        f"{over(found, 'queries')}{_of_random(methods)}.",
        statistic="mean nDCG@10, classifier minus ranker",
        shown_in=SHOWN,
        **deciding(found),
    )


def _others_against_networks(methods: Methods) -> Verdict:
    pairs = [
        (other, methods.best(networks))
        for family in (RANK, CLASSIFICATION)
        if (networks := methods.of(family, network=True))
        for other in methods.of(family, network=False)
    ]
    if not pairs:
        raise MissingEvidence(f"no network beside other models on {methods.title}")
    found = gaps(methods, pairs)
    better, worse = (sum(one.side == side for one in found) for side in (1, -1))
    return Verdict(
        verdict_of([one.side for one in found]),
        f"{better} of {len(found)} other models rank significantly better than the best network of their family, and "
        f"{worse} significantly worse or alike, {over(found, 'queries')} ({listed(found)}).",
        statistic="mean nDCG@10, other model minus network",
        shown_in=SHOWN,
        **deciding(found),
    )


def _optimisers(methods: Methods) -> Verdict:
    methods.needs(RANDOM)
    names = [name for name in NETWORKS if methods.has(name, f"{name}{AS_PRINTED}")]
    if not names:
        raise MissingEvidence(f"no network was trained with both optimisers on {methods.title}")
    found = gaps(methods, [(f"{name}{ending}", RANDOM) for ending in ("", AS_PRINTED) for name in names])
    by_adam, by_sgd = found[: len(names)], found[len(names) :]
    return Verdict(
        _verdict_of_optimisers(by_adam, by_sgd),
        f"{_learnt(by_adam)} of {len(names)} networks rank better than at random when trained with Adam on scaled "
        f"features, and {_learnt(by_sgd)} with plain gradients as printed, {over(found, 'queries')} "
        f"({listed(found)}).",
        statistic="mean nDCG@10, network trained with Adam minus random order",
        shown_in=SHOWN,
        **deciding(by_adam),
    )


def _verdict_of_optimisers(by_adam: list[Gap], by_sgd: list[Gap]) -> str:
    """Return confirmed if plain gradients train all networks and Adam none, refuted if Adam trains one or SGD none."""
    if _learnt(by_adam) or all(one.side < 0 for one in by_sgd):
        return REFUTED
    none_by_adam = all(one.side < 0 for one in by_adam)
    return CONFIRMED if none_by_adam and _learnt(by_sgd) == len(by_sgd) else INCONCLUSIVE


def _learnt(found: list[Gap]) -> int:
    return sum(one.side > 0 for one in found)


def _of_random(methods: Methods) -> str:
    return f"; a random order scores {score(methods.mean(RANDOM))}" if methods.has(RANDOM) else ""
