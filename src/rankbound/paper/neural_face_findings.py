"""What the face tables say of the paper's claims: families of methods, readings of a classifier, variance explained."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import polars as pl

from rankbound.claims.face_ages import PRINTED_R_SQUARED
from rankbound.paper.findings import Finding
from rankbound.paper.neural_results import Results, data_of, four
from rankbound.paper.neural_tables import R_SQUARED
from rankbound.paper.neural_verdicts import FACT, FAILS, HOLDS, OPEN, Item, judged, judged_by, tested
from rankbound.paper.plain_table import signed
from rankbound.results.neural_names import FAMILIES
from rankbound.results.neural_pairs import READINGS

TRAINED_BOTH_WAYS = (
    ("RankNet", "Reg-NN"),
    ("RankNet", "Class-NN"),
    ("Reg-NN", "Class-NN"),
    ("RankCNN", "Class-CNN"),
    ("Rank-LR", "Class-LR"),
)
"""The same model on the same features, trained in two of the three ways, in the claimed order."""


def face_findings(faces: Sequence[Results]) -> Iterator[Item]:
    """The findings of the face tables that have run."""
    for one in faces:
        yield from _families(one)
        yield from _same_models(one)
        yield from _below_guessing(one)
        yield from _explained(one)
        yield from _by_gap(one)
        yield from _convolution(one)
    yield from _features(faces)


def _families(faces: Results) -> Iterator[Item]:
    """N07: ranking, then regression, then classification."""
    best = [faces.best(faces.of_family(family)) for family in FAMILIES]
    names = [name for name in best if name is not None]
    if len(names) < len(FAMILIES):
        return
    means = ", ".join(f"{family} {faces.mean(name):.4f} ({name})" for family, name in zip(FAMILIES, names, strict=True))
    yield judged_by(
        tested(faces, list(pairwise(names))),
        faces,
        f"“ranking methods perform the best, regression models come second, and classification methods perform "
        f"worst” on {data_of(faces)}",
        f"The best of each family by pair accuracy: {means}. Differences of neighbours in the claimed order:",
    )


def _same_models(faces: Results) -> Iterator[Item]:
    """N07 at equal features and equal models: what the question alone changes."""
    rows = tested(faces, TRAINED_BOTH_WAYS)
    if rows:
        yield judged_by(
            rows,
            faces,
            f"ranking beats regression, and both beat classification, with the same model on the same features of "
            f"{data_of(faces)}",
            "Pair accuracy of the same model trained in two ways, on the same pairs:",
        )


def _below_guessing(faces: Results) -> Iterator[Item]:
    """N18: the printed classifiers below 0.5, by the fair reading and by the one that gives such numbers."""
    names = faces.of_family("classification")
    fair = [value for name in names if (value := faces.mean(name)) is not None]
    both = [value for name in names if (value := faces.mean(name, READINGS[0])) is not None]
    printed = [value for name in names if (value := faces.printed(name)) is not None]
    if not fair or not both or not printed:
        return
    nearer = sum(
        abs((faces.mean(name, READINGS[0]) or 0) - value) < abs((faces.mean(name) or 0) - value)
        for name in names
        if (value := faces.printed(name)) is not None
    )
    yield Item(
        FAILS if min(fair) > 0.5 else FACT,
        Finding(
            f"Counted like the other methods, the classifiers of {data_of(faces)} order {_span(fair)} of the pairs "
            f"rightly, not {_span(printed)} as printed.",
            "The printed values lie below the 0.5 of guessing. Such values come out if a pair counts only where the "
            f"older face is called older and the younger one younger: {_span(both)} here, nearer to print for {nearer} "
            f"of {len(printed)} classifiers.",
            ("method", "by score", "both labels right", "one label for both", "both wrong", "printed"),
            tuple(
                (
                    name,
                    *(four(faces.mean(name, metric)) for metric in (None, *READINGS[:3])),
                    four(faces.printed(name)),
                )
                for name in names
            ),
        ),
    )


def _explained(faces: Results) -> Iterator[Item]:
    """N13: the variance of ages that regression explains."""
    found = faces.scores.filter(pl.col("metric") == R_SQUARED, pl.col("ours").is_not_null()).sort("ours")
    if not len(found):
        return
    best = found.row(-1, named=True)
    outside = not best["low"] <= PRINTED_R_SQUARED <= best["high"]
    yield judged(
        FAILS if outside else HOLDS,
        f"“even the most effective regression model achieves an R² of only 28%” on {data_of(faces)}",
        f"{best['method']} explains {best['ours']:.1%} of the variance of age (95 % interval {best['low']:.1%} to "
        f"{best['high']:.1%}, {best['n']} test faces).",
    )


def _by_gap(faces: Results) -> Iterator[Item]:
    """N14: wrongly ranked pairs look close in age."""
    best = faces.best([method for family in FAMILIES for method in faces.of_family(family)])
    own = faces.gaps.filter(pl.col("method") == best).sort("from_years")
    if len(own) < 2:
        return
    near, far = own.row(0, named=True), own.row(-1, named=True)
    apart = far["low"] > near["high"]
    yield judged(
        HOLDS if apart else FAILS if far["accuracy"] < near["accuracy"] else OPEN,
        f"pairs of about the same age are those that are ordered wrongly ({data_of(faces)})",
        f"{best} orders {near['accuracy']:.1%} of the pairs {near['from_years']} to {near['to_years']} years apart "
        f"rightly, and {far['accuracy']:.1%} of those more than {far['from_years'] - 1} apart.",
    )


def _convolution(faces: Results) -> Iterator[Item]:
    """N09: convolution against fully connected layers."""
    rows = tested(faces, [("RankCNN", "RankNet")])
    if rows:
        text = f"convolution improves ranking on {data_of(faces)}"
        yield judged_by(rows, faces, text, "Pair accuracy, on the same pairs:")


def _features(faces: Sequence[Results]) -> Iterator[Item]:
    """N08: VGG16's features against pixels."""
    by_number = {one.about.number: one for one in faces}
    if not {2, 3} <= set(by_number):
        return
    pixels, features = by_number[2], by_number[3]
    shared = [name for family in FAMILIES for name in pixels.of_family(family) if name in _all(features)]
    changes = {name: (features.mean(name) or 0) - (pixels.mean(name) or 0) for name in shared}
    if changes:
        better = sum(change > 0 for change in changes.values())
        told = ", ".join(f"{name} {signed(value)}" for name, value in changes.items())
        yield judged(
            HOLDS if better == len(changes) else FAILS if better == 0 else OPEN,
            f"the features of VGG16 improve every method over pixels ({better} of {len(changes)} here)",
            f"Change of the pair accuracy: {told}.",
        )


def _all(results: Results) -> set[str]:
    return {name for family in FAMILIES for name in results.of_family(family)}


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.4f} to {max(values):.4f}" if len(values) > 1 else f"{values[0]:.4f}"
