"""Write the report's methods: data, losses, bounds, training, protocols, statistics, from the configuration."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rankbound.texts import quantity
from rankbound_study.config.data_sets import GRADED, DataSet
from rankbound_study.config.samplings import FULL, OWN, POPULARITY, samplings_of
from rankbound_study.config.score_distributions import SAMPLED, method_of
from rankbound_study.data.contracts import DATASET_KEY, LEFT_OUT_KEY, read_metadata
from rankbound_study.figures.style import bounding_title
from rankbound_study.report.blocks import Cell, Paragraph, ReportSection, TableBlock
from rankbound_study.results.neural_names import data_set_title
from rankbound_study.vocabulary import HONEST, PUBLISHED

_BOUNDED = {
    "none": ("M", "the metric itself"),
    "min-max": ("(M − min) / (max − min)", "0 for the smallest value over all orderings, 1 for the largest"),
    "expectation": ("M / E", "1 for a random ordering of the list"),
    "expectation-max": ("(M − E) / (max − E)", "0 for a random ordering, 1 for the largest value"),
    "distribution": ("F(M)", "the share of random orderings that score at most M, smoothed"),
}
"""Bounding -> the bounded value of a metric M of one list (thesis, chapter 3), as a formula and in words."""

_LOSSES = (
    "A list of N items with scores s has smooth ranks Rᵢ = 1 + Σ σ((sⱼ − sᵢ) / τ), summed over all other items j, with "
    "the logistic function σ and the temperature τ = {temperature:g}. Replacing ranks by smooth ranks makes nDCG and "
    "AP differentiable; their losses are −nDCG and −AP. The nRBP loss is Σ (Rᵢ − 1) over the P relevant items minus "
    "P(P − 1)/2, a smooth count of the pairs with an irrelevant item above a relevant one. A loss is bounded list by "
    "list and then averaged over the lists of a batch. nDCG and AP are bounded first and then negated; the nRBP loss "
    "is bounded without negation, and its largest value is that of the worst ordering, P(N − P)."
)
_TRAINING = (
    "Within a protocol, all losses and boundings of a data set and a model share {shared}the number of epochs, the "
    "folds, the negatives and the random seeds, so every comparison is paired. `docs/report.md` describes how learning "
    "rates and numbers of epochs were chosen; the last section lists them."
)
_ONE_RATE = "the learning rate, "
_GRIDS = (
    " Every loss and bounding has its own learning rate{where}: each fold is trained once with every rate of a grid, "
    "and the part that selects its epoch selects the rate, too."
)
_PROTOCOLS = {
    PUBLISHED: (
        "The published protocol picks the epoch on the test part. This is an assumption about the printed scores: the "
        "thesis states neither a number of epochs nor a validation part, and the code of the paper that it builds on "
        "(Li, Urbano and Hanjalic, SIGIR 2021) picks the epoch on the test part. Such scores are biased upwards and "
        "serve only for comparison with the printed ones."
    ),
    HONEST: (
        "The honest protocol picks the epoch on a validation part, which is used neither for training nor for the "
        "reported scores."
    ),
}
_DECIDING = " Its runs decide the claims, except those about the published protocol or about formulas."
_OF_CLAIMS = "table_claims"
_CONTROLS = {
    "random": "a random ordering (its exact mean)",
    "oracle": "the oracle, which knows the labels",
    "best-feature": "the single feature, ascending or descending, with the highest nDCG on the training part of a fold",
    "popularity": "popularity, the number of times that an item is relevant in training, where topics share items",
}
_STATISTICS = (
    "Units are topics: whole users, with all their folds, and queries, each in one fold. The 95 % interval of a mean "
    "covers the variation over topics and, with several seeds, over trainings (a t interval of crossed or nested "
    "means). Differences are paired by topic. P-values of a family, such as all distinct bounded cells of a table, "
    "are adjusted by Holm's method. “Alike” and “no worse” are tests against a margin (two one-sided tests, and one), "
    "never the absence of a significant difference. Intervals of the bias of a test-picked epoch, of Kendall's tau "
    "and of scores over queries in the second study are bootstrap intervals over topics; those over pairs of faces "
    "account for faces that occur in several pairs."
)


def methods_section(config: Mapping[str, Any] | None, left_out: Iterable[TableBlock] = ()) -> ReportSection:
    """Return the section for a configuration; without one, only what holds for every configuration.

    `left_out` are tables of the data that are not used.
    """
    known = config or {}
    protocols = known.get("protocols", list(_PROTOCOLS))
    return ReportSection(
        "methods",
        "Methods",
        "",
        (
            *_data(known),
            *left_out,
            Paragraph("Losses", _LOSSES.format(temperature=float(known.get("temperature", 1.0)))),
            _bounds(known.get("boundings", list(_BOUNDED)), _estimates(known)),
            Paragraph("Training", _training(known)),
            Paragraph("Protocols", _text_of(protocols, claims=_OF_CLAIMS in known.get("tables", [_OF_CLAIMS]))),
            *_controls(known.get("controls", list(_CONTROLS))),
            Paragraph("Statistics", _STATISTICS),
        ),
    )


def _text_of(protocols: Sequence[str], *, claims: bool) -> str:
    texts = " ".join(_PROTOCOLS[name] for name in protocols)
    return texts + _DECIDING if claims and HONEST in protocols else texts


def _data(config: Mapping[str, Any]) -> Iterator[Paragraph]:
    trained = set(config.get("datasets", ()))
    comparisons = config.get("comparisons", {})
    # Without the key, all comparisons run.
    run = config.get("compare", comparisons)
    compared = [name for comparison in run for name in comparisons.get(comparison, {}).get("datasets", ())]
    ratings, lists, images = (config.get(kind, {}) for kind in ("interactions", "lists", "images"))
    paragraphs = [
        *(_of_ratings(name, ratings[name]) for name in ratings if name in trained),
        *(_of_lists(name, lists[name]) for name in lists if name in trained or _read_by(compared, name)),
        *(_of_images(name, images[name]) for name in images if _read_by(compared, name)),
    ]
    if paragraphs:
        yield Paragraph("Data", " ".join(paragraphs))


def _training(config: Mapping[str, Any]) -> str:
    """Return what trainings share, and where each selects its learning rate from a grid."""
    protocols = config.get("protocols", [])
    sections = [config.get("training", {}).get(name, {}) for name in config.get("datasets", ())]
    tuned = {
        protocol: sum(isinstance(one.get("learning_rate", {}).get(protocol), list) for one in sections)
        for protocol in protocols
    }
    if not any(tuned.values()):
        return _TRAINING.format(shared=_ONE_RATE)
    everywhere = all(count == len(sections) for count in tuned.values())
    named = " and ".join(f"under the {protocol} protocol" for protocol, count in tuned.items() if count)
    return _TRAINING.format(shared="") + _GRIDS.format(where="" if everywhere else f" {named}")


def _read_by(compared: list[str], name: str) -> bool:
    """Return True if a comparison reads the data set or one derived from it: `mq2008-label1`, `aaf-vgg16`."""
    return any(dataset == name or dataset.startswith(f"{name}-") for dataset in compared)


def _controls(names: list[str]) -> Iterator[Paragraph]:
    if controls := [_CONTROLS[name] for name in names]:
        yield Paragraph("Controls", f"Models without training serve as controls: {'; '.join(controls)}.")


def _of_ratings(name: str, options: Mapping[str, Any]) -> str:
    return " ".join(
        (
            f"{DataSet(name, None).label}: a topic is a user, an item with a rating of at least {options['threshold']} "
            f"is relevant, and users with fewer than {options['min_relevant']} relevant items are left out.",
            *_of_negatives(options),
        )
    )


def _of_negatives(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield how the irrelevant items of ratings are chosen, a sentence or two for each way that the study uses."""
    readings = list(samplings_of(options))
    ratios = sorted({nsr for _, nsr in readings if isinstance(nsr, int) and nsr != OWN})
    mixed = sorted({nsr for _, nsr in readings if isinstance(nsr, tuple)})
    comes = "Every relevant item comes with" if not mixed else "Relevant items come with"
    each = [f"{_listed(list(several))} negatives by a ratio drawn for each user" for several in mixed]
    numbers = ", or ".join([*([f"{_listed(ratios)} negatives"] if ratios else []), *each])
    drawn = {sampling for sampling, nsr in readings if sampling.draws and nsr != OWN}
    if drawn:
        alike = all(sampling.train == sampling.test for sampling in drawn)
        yield (
            f"{comes} {numbers} (the negative sampling ratio, NSR), drawn without replacement from all rated items "
            f"except the user's relevant ones; {'parts' if alike else 'drawn parts'} have no negatives in common."
        )
    if any(POPULARITY in sampling for sampling in drawn):
        yield "By popularity, every draw takes an item with a probability proportional to the number of its ratings."
    if any(nsr == OWN for _, nsr in readings):
        yield (
            "Own negatives are the user's ratings below the threshold; users, and lists of a part, without any are "
            "left out."
        )
    if any(FULL in sampling for sampling, _ in readings):
        yield "A full catalogue is all rated items, without those that are relevant to the user in another part."


def _of_lists(name: str, options: Mapping[str, Any]) -> str:
    levels = [threshold for threshold in options["thresholds"] if threshold != GRADED]
    readings = [f"a label of at least {_listed(levels)} is relevant"] if levels else []
    readings += ["labels are graded relevance"] if GRADED in options["thresholds"] else []
    several = " (each reading is a data set of its own)" if len(options["thresholds"]) > 1 else ""
    reading = ", or ".join(readings)
    return f"{DataSet(name, None).label}: a topic is a query with its judged documents, and {reading}{several}."


def _of_images(name: str, options: Mapping[str, Any]) -> str:
    return (
        f"{data_set_title(name)}: pairs of faces whose ages differ by more than {options['above']} years. Exact "
        "duplicates are dropped, near duplicates are kept in one part of the split, and pairs are drawn within parts."
    )


def _listed(values: list[int]) -> str:
    *most, last = map(str, sorted(values))
    return f"{', '.join(most)} or {last}" if most else last


def _estimates(config: Mapping[str, Any]) -> str:
    """Return a sentence on the distributions that are estimated, if there are any."""
    sets = config.get("datasets", [])
    protocols = config.get("protocols", []) if "distributions" in config else []
    found = {one: [name for name in sets if method_of(config, one, name) == SAMPLED] for one in protocols}
    if not any(found.values()):
        return ""
    text = f" F is estimated from {config['distributions']['samples']:,} random orderings"
    if all(names == sets for names in found.values()):
        return f"{text}."
    places = [
        f"under the {protocol} protocol"
        + ("" if names == sets else f" on {' and '.join(DataSet(name, None).label for name in names)}")
        for protocol, names in found.items()
        if names
    ]
    return f"{text} {' and '.join(places)}, and exact elsewhere."


def _bounds(names: list[str], estimates: str) -> TableBlock:
    rows = tuple((Cell(bounding_title(name)), *map(Cell, _BOUNDED[name])) for name in names if name in _BOUNDED)
    caption = (
        "The bounded value of a metric M on one list of N items, P of them relevant. Here min, max and E are the "
        "smallest, largest and mean value over all orderings of that list, and F is their cumulative distribution."
        f"{estimates if 'distribution' in names else ''}"
    )
    return TableBlock("Boundings", caption, ("bounding", "value", "in words"), rows, labels=3)


_LEFT_OUT = (
    "A list without irrelevant items has one order, which tells nothing of a model. Only lists with a user's own "
    "negatives can lack them: at other sampling ratios, nobody is left out for that reason."
)
_REASONS = {
    "users": ("user", "rated no item below the threshold"),
    "lists": ("list", "of other users, in a part of a fold that got none of their ratings below the threshold"),
}
"""What the step `sample` counts -> the thing, and why it is left out."""


def left_out_blocks(instances: Sequence[Path]) -> Iterator[TableBlock]:
    """Yield the table for these files of instances, unless they have everybody; DataError for a damaged file."""
    rows = tuple(row for path in instances for row in _left_out_rows(path))
    if rows:
        yield TableBlock("Left out", _LEFT_OUT, ("data set", "left out", "because"), rows, labels=3)


def _left_out_rows(path: Path) -> Iterator[tuple[Cell, ...]]:
    metadata = read_metadata(path, "instances")
    counts = json.loads(metadata.get(LEFT_OUT_KEY, "{}"))
    for counted, (what, reason) in _REASONS.items():
        if number := counts.get(counted):
            label = DataSet(metadata[DATASET_KEY], OWN).label
            yield Cell(label), Cell(quantity(number, what)), Cell(reason)
