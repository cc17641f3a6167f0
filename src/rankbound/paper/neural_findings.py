"""What the neural-ranking study's tables say about the paper's headline claims, in sentences computed from them.

Claims that do not hold come first, what has not run comes last.
"""

from collections.abc import Iterator, Sequence

import polars as pl

from rankbound.paper.findings import Finding
from rankbound.paper.neural_face_findings import face_findings
from rankbound.paper.neural_feature_findings import feature_findings
from rankbound.paper.neural_results import Results, data_of, four
from rankbound.paper.neural_verdicts import FACT, LEVEL, Item, judged_by, tested
from rankbound.paper.plain_table import signed
from rankbound.results import neural_runs
from rankbound.results.neural_features import FeatureResults
from rankbound.results.neural_names import AS_PRINTED, CONTROL, FAMILIES, what_is_missing
from rankbound.results.number_texts import probability

NETWORKS = ("RankNet", "DirectRanker", "RankCNN", "Reg-NN", "Class-NN", "Class-CNN")
TRAINED_BOTH_WAYS = (("RankNet", "Class-NN"), ("Rank-LR", "Class-LR"), ("LambdaMART", "Class-Boost"))
"""The same model trained to rank and to classify."""


def neural_findings(results: Sequence[Results], by_features: FeatureResults | None = None) -> list[Item]:
    """All findings with what they say of a claim: what does not hold first, what has not run last.

    Generated data say nothing about a claim: they only get a line that says so.
    """
    ran = [one for one in results if one.scores["ours"].count() and not one.synthetic]
    found: list[Item] = []
    for one in ran:
        if not one.about.of_faces:
            found += [*_ranking_against_classification(one), *_above_chance(one)]
        found += [*_networks(one), *_as_printed(one), *_twins(one)]
    found += face_findings([one for one in ran if one.about.of_faces])
    found += feature_findings(by_features)
    if any(one.synthetic for one in results):
        told = Finding("No claim is judged on generated data.", "The tables and figures below are of them.")
        found.append(Item(FACT, told))
    absent = [one for one in results if one not in ran and not one.synthetic]
    found += [
        Item(FACT, Finding(f"Table {one.about.number} has not run.", what_is_missing(one.about))) for one in absent
    ]
    return sorted(found, key=lambda item: item.verdict)


def _ranking_against_classification(web: Results) -> Iterator[Item]:
    """N01: the same models trained on pairs and on single documents."""
    rows = tested(web, TRAINED_BOTH_WAYS)
    if not rows:
        return
    best = {family: web.best(web.of_family(family)) for family in ("rank", "classification")}
    means = {name: web.mean(name) for name in best.values() if name}
    first = " and ".join(f"{name} with {means[name]:.4f}" for name in best.values() if name)
    yield judged_by(
        rows,
        web,
        f"“ranking methods perform worse than classification methods” on {data_of(web)}",
        f"The best ones of the two families are {first}. The same models trained both ways, NDCG@10 of ranking "
        "minus that of classification:",
        sign=-1,
    )


def _above_chance(web: Results) -> Iterator[Item]:
    """N19: how far from a random order the printed and our scores are."""
    random, lambdamart, printed = web.mean("random"), web.mean("LambdaMART"), web.printed("LambdaMART")
    trained = [method for family in FAMILIES for method in web.of_family(family)]
    if random is None or lambdamart is None or printed is None:
        return
    ranked = sorted(trained, key=lambda method: -(web.mean(method) or 0))
    above = sum((web.mean(method) or 0) > random for method in trained)
    place = ranked.index("LambdaMART") + 1
    all_printed = neural_runs.printed_scores(web.about)["printed"].to_list()
    printed_place = 1 + sum(score > printed for score in all_printed)
    yield Item(
        FACT,
        Finding(
            f"LambdaMART scores {lambdamart:.4f} on {data_of(web)}, place {place} of {len(trained)}; a random order "
            f"scores {random:.4f}.",
            f"{above} of {len(trained)} methods are above random order. The paper prints {printed:.4f} for it on "
            f"{web.about.dataset}, place {printed_place} of {len(all_printed)}, without a random order beside it. "
            f"{_skipped(web)}",
        ),
    )


def _networks(results: Results) -> Iterator[Item]:
    """N02, N10: the best network of each family against the best other model."""
    pairs = []
    for family in FAMILIES:
        methods = results.of_family(family)
        network = results.best([method for method in methods if method.removesuffix(AS_PRINTED) in NETWORKS])
        other = results.best([method for method in methods if method.removesuffix(AS_PRINTED) not in NETWORKS])
        if network and other:
            pairs.append((network, other))
    rows = tested(results, pairs)
    if not rows:
        return
    if results.about.of_faces:
        text = "networks perform better than linear models and trees"
    else:
        text = "“neural networks perform worse than logistic regression and tree-based methods”"
    yield judged_by(
        rows,
        results,
        f"{text} on {data_of(results)}",
        "The best network of each family minus the best other model of it (best by these scores):",
        sign=1 if results.about.of_faces else -1,
    )


def _as_printed(results: Results) -> Iterator[Item]:
    """N06: what the paper's optimiser, learning rate and unscaled features cost."""
    methods = [name for family in FAMILIES for name in results.of_family(family) if name.endswith(AS_PRINTED)]
    rows = tested(results, [(name, name.removesuffix(AS_PRINTED)) for name in methods])
    if not rows:
        return
    random = 0.5 if results.about.of_faces else results.mean("random")
    worse = sum(row["difference"] < 0 and row["p_holm"] < LEVEL for row in rows)
    yield Item(
        FACT,
        Finding(
            f"With the paper's optimiser, learning rate and batches, {worse} of {len(rows)} methods score less on "
            f"{data_of(results)} than with ours.",
            f"Significantly, by paired tests with Holm's correction over them. A random order scores {four(random)}.",
            ("method", "as printed", "ours", "difference", "p (Holm)"),
            tuple(
                (
                    row["other"],
                    four(results.mean(row["method"])),
                    four(results.mean(row["other"])),
                    signed(row["difference"]),
                    probability(row["p_holm"]),
                )
                for row in rows
            ),
        ),
    )


def _twins(results: Results) -> Iterator[Item]:
    """N03: DirectRanker beside RankNet."""
    row = results.compared("DirectRanker", "RankNet")
    if row is not None:
        yield Item(
            FACT,
            Finding(
                f"DirectRanker differs from RankNet by {signed(row['difference'])} on {data_of(results)} (95 % "
                f"interval {signed(row['low'])} to {signed(row['high'])}).",
                "They are one model with two links of the score difference: the order of items by score is all that "
                "either can say.",
            ),
        )


def _skipped(results: Results) -> str:
    row = results.scores.filter(pl.col("ours").is_not_null(), pl.col("family") != CONTROL).row(0, named=True)
    return (
        f"{row['n_skipped']} of {row['n'] + row['n_skipped']} test queries have no relevant document and are left out."
    )
