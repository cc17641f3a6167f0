"""Claims about web queries: classification and ranking, networks and other models, and the optimisers of networks.

They are about MSLR-WEB10K. Without its archive, the same test on MQ2008 is reported, but decides nothing.
"""

from collections.abc import Callable
from dataclasses import replace

from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.methods import CLASSIFICATION, QUERIES, RANK, GapFamily, Methods, read_methods
from rankbound_study.claims.registry import Decider
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


def _of_web10k(judge: Callable[[Methods], Verdict], *, on_training: bool = False) -> Decider:
    """Return what decides a claim on MSLR-WEB10K if it has run; else it reports the same test on MQ2008.

    A claim `on_training` includes the models that did not train.
    """

    def decide(evidence: Evidence) -> Verdict:
        evidence = evidence.of_all_trainings() if on_training else evidence
        try:
            methods = read_methods(evidence, WEB10K)
        except MissingEvidence:
            return _of_other_queries(evidence, judge)
        return judge(methods)

    return decide


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
    """Compare the same network and the same linear model, trained both ways."""
    found = GapFamily.between(methods, [pair for pair in TRAINED_BOTH_WAYS if methods.has(*pair)])
    if not found:
        raise MissingEvidence(f"no model was trained both ways on {methods.title}")
    of_random = f"; a random order scores {score(methods.mean(RANDOM))}" if methods.has(RANDOM) else ""
    return found.decided(
        f"The difference in mean nDCG@10 between the same model as a classifier and as a pairwise ranker is {found}, "
        f"{found.over('queries')}{of_random}.",
        "mean nDCG@10, classifier minus ranker",
        SHOWN,
    )


def _others_against_networks(methods: Methods) -> Verdict:
    """Compare every linear and every tree model with the best network of its family."""
    pairs = [
        (other, methods.best(networks))
        for family in (RANK, CLASSIFICATION)
        if (networks := methods.of(family, network=True))
        for other in methods.of(family, network=False)
    ]
    if not pairs:
        raise MissingEvidence(f"no network beside other models on {methods.title}")
    found = GapFamily.between(methods, pairs)
    return found.decided(
        f"{found.better} of {len(found)} other models rank significantly better than the best network of their family, "
        f"and {found.worse} significantly worse or alike, {found.over('queries')} ({found}).",
        "mean nDCG@10, other model minus network",
        SHOWN,
    )


def _optimisers(methods: Methods) -> Verdict:
    """Decide by whether networks rank better than at random with either optimiser.

    Confirmed if plain gradients train all networks and Adam none, refuted if Adam trains one or plain gradients none.
    """
    methods.needs(RANDOM)
    names = [name for name in NETWORKS if methods.has(name, f"{name}{AS_PRINTED}")]
    if not names:
        raise MissingEvidence(f"no network was trained with both optimisers on {methods.title}")
    found = GapFamily.between(methods, [(f"{name}{ending}", RANDOM) for ending in ("", AS_PRINTED) for name in names])
    by_adam, by_sgd = GapFamily(found.each[: len(names)]), GapFamily(found.each[len(names) :])
    confirmed = by_adam.worse == len(names) == by_sgd.better
    refuted = by_adam.better or by_sgd.worse == len(names)
    return by_adam.decided(
        f"{by_adam.better} of {len(names)} networks rank better than at random when trained with Adam on scaled "
        f"features, and {by_sgd.better} with plain gradients as printed, {found.over('queries')} ({found}).",
        "mean nDCG@10, network trained with Adam minus random order",
        SHOWN,
        REFUTED if refuted else CONFIRMED if confirmed else INCONCLUSIVE,
    )


DECLARED = {
    "N01": _of_web10k(_classification_against_ranking),
    "N02": _of_web10k(_others_against_networks),
    "N06": _of_web10k(_optimisers, on_training=True),
}
