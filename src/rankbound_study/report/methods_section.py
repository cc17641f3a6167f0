"""The report's methods: data, losses, bounds, training, protocols, statistics; numbers come from the configuration."""

from collections.abc import Iterator, Mapping
from typing import Any

from rankbound_study.figures.style import bounding_title
from rankbound_study.report.blocks import Cell, Paragraph, Section, TableBlock
from rankbound_study.results.neural_names import data_set_title
from rankbound_study.results.scores import DataSet
from rankbound_study.vocabulary import HONEST, PUBLISHED

_BOUNDED = {
    "none": ("M", "the metric itself"),
    "min-max": ("(M − min) / (max − min)", "the least value over all orders counts 0, the largest 1"),
    "expectation": ("M / E", "a random order of the list counts 1"),
    "expectation-max": ("(M − E) / (max − E)", "a random order counts 0, the largest value 1"),
    "distribution": ("F(M)", "the share of random orders that score at most M, made smooth"),
}
"""What each bounding makes of a metric M of one list (thesis, chapter 3)."""

_LOSSES = (
    "A list of N items with scores s has smooth ranks Rᵢ = 1 + Σ σ((sⱼ − sᵢ) / τ), summed over all other items j, with "
    "the logistic function σ and the temperature τ = {temperature:g}. Put in the place of ranks they make nDCG and AP "
    "differentiable; their losses are −nDCG and −AP. The nRBP loss is Σ (Rᵢ − 1) over the P relevant items minus "
    "P(P − 1)/2: how many irrelevant items stand above relevant ones. A loss is bounded list by list and then averaged "
    "over the lists of a batch. nDCG and AP are bounded first and negated after; the nRBP loss is bounded as it is, "
    "with the worst order, P(N − P), as its largest value."
)
_TRAINING = (
    "Within a protocol all losses and boundings of a data set and a model share one learning rate, one budget of "
    "epochs, the folds, the negatives and the random seeds: every comparison is a paired one. `docs/report.md` tells "
    "how rates and budgets were chosen; the last section has them all."
)
_PROTOCOLS = {
    PUBLISHED: (
        "The published protocol picks the epoch by the test part, as the printed scores were made: it flatters every "
        "loss, and is for comparing with print."
    ),
    HONEST: (
        "The honest protocol picks the epoch by a validation part, which is neither trained on nor scored. Claims are "
        "decided by its runs, unless one is about the published protocol or follows from formulas."
    ),
}
_CONTROLS = {
    "random": "a random order (its exact mean)",
    "oracle": "the oracle, which knows the labels",
    "popularity": "popularity, which counts how often an item is relevant in training, where topics share items",
}
_STATISTICS = (
    "Units are topics: whole users, with all their folds, and queries, each in one fold. A mean's 95 % interval has "
    "the errors over topics and, with several seeds, over trainings (a t interval of crossed or nested means). "
    "Differences are paired topic by topic. P-values of a family, such as all bounded cells of a table, are adjusted "
    "by Holm's method. “Alike” and “no worse” are tests against a margin (two one-sided tests, and one), never the "
    "absence of a finding. Intervals of what a test-picked epoch flatters, of Kendall's tau and of scores over queries "
    "in the second study are bootstrap intervals over topics; those over pairs of faces allow for faces that several "
    "pairs share."
)


def methods_section(config: Mapping[str, Any] | None) -> Section:
    """The section for a configuration; without one, what holds for all."""
    known = config or {}
    protocols = known.get("protocols", list(_PROTOCOLS))
    return Section(
        "methods",
        "Methods",
        "",
        (
            *_data(known),
            Paragraph("Losses", _LOSSES.format(temperature=float(known.get("temperature", 1.0)))),
            _bounds(known.get("bounds", list(_BOUNDED))),
            Paragraph("Training", _TRAINING),
            Paragraph("Protocols", " ".join(_PROTOCOLS[name] for name in protocols)),
            *_controls(known.get("controls", list(_CONTROLS))),
            Paragraph("Statistics", _STATISTICS),
        ),
    )


def _data(config: Mapping[str, Any]) -> Iterator[Paragraph]:
    trained = set(config.get("datasets", ()))
    comparisons = config.get("comparisons", {})
    # All of them run where none is named.
    run = config.get("compare", comparisons)
    compared = [name for one in run for name in comparisons.get(one, {}).get("datasets", ())]
    ratings, lists, images = (config.get(kind, {}) for kind in ("interactions", "lists", "images"))
    told = [
        *(_of_ratings(name, ratings[name]) for name in ratings if name in trained),
        *(_of_lists(name, lists[name]) for name in lists if name in trained or _read_by(compared, name)),
        *(_of_images(name, images[name]) for name in images if _read_by(compared, name)),
    ]
    if told:
        yield Paragraph("Data", " ".join(told))


def _read_by(compared: list[str], name: str) -> bool:
    """Whether a comparison reads the data set, or what is made of it: `mq2008-label1`, `aaf-vgg16`."""
    return any(one == name or one.startswith(f"{name}-") for one in compared)


def _controls(names: list[str]) -> Iterator[Paragraph]:
    if told := [_CONTROLS[name] for name in names]:
        yield Paragraph("Controls", f"Models without training stand beside the others: {'; '.join(told)}.")


def _of_ratings(name: str, options: Mapping[str, Any]) -> str:
    return (
        f"{DataSet.of(name, None).label}: a topic is a user, an item with a rating of at least {options['threshold']} "
        f"is relevant, and users with fewer than {options['min_relevant']} relevant items are left out. Every relevant "
        f"item comes with {_listed(options['nsr'])} negatives (the negative sampling ratio, NSR), drawn without "
        "replacement from all items that have ratings but this user's relevant ones; parts share none of them."
    )


def _of_lists(name: str, options: Mapping[str, Any]) -> str:
    readings = f"label of at least {_listed(options['thresholds'])} is relevant"
    several = " (each reading is a data set of its own)" if len(options["thresholds"]) > 1 else ""
    return f"{DataSet.of(name, None).label}: a topic is a query with its judged documents, and a {readings}{several}."


def _of_images(name: str, options: Mapping[str, Any]) -> str:
    return (
        f"{data_set_title(name)}: pairs of faces whose ages differ by more than {options['above']} years. Exact "
        "duplicates are dropped, near duplicates stay in one part of the split, and pairs are drawn within parts."
    )


def _listed(values: list[int]) -> str:
    *most, last = map(str, sorted(values))
    return f"{', '.join(most)} or {last}" if most else last


def _bounds(names: list[str]) -> TableBlock:
    rows = tuple((Cell(bounding_title(name)), *map(Cell, _BOUNDED[name])) for name in names if name in _BOUNDED)
    caption = (
        "What a bounding makes of the value M of a metric on one list of N items with P relevant ones: min, max and E "
        "are the least, the largest and the mean value over all orders of that list, F their cumulative distribution."
    )
    return TableBlock("Boundings", caption, ("bounding", "value", "in words"), rows, labels=3)
