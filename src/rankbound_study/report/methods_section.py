"""Write the report's methods: data, losses, bounds, training, protocols, statistics, from the configuration."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rankbound.texts import quantity
from rankbound_study.config.data_sets import FULL, GRADED, OWN, POPULARITY, DataSet, samplings_of
from rankbound_study.data.contracts import DATASET_KEY, LEFT_OUT_KEY, read_metadata
from rankbound_study.figures.style import bounding_title
from rankbound_study.report.columns import Layout, TableBlock
from rankbound_study.report.content import Paragraph, ReportSection
from rankbound_study.results.neural import data_set_title
from rankbound_study.templates import text
from rankbound_study.vocabulary import HONEST, PUBLISHED, SAMPLED, method_of

_BOUNDED = {
    "none": ("M", "the metric itself"),
    "min-max": ("(M − min) / (max − min)", "0 for the smallest value over all orderings, 1 for the largest"),
    "expectation": ("M / E", "1 for a random ordering of the list"),
    "expectation-max": ("(M − E) / (max − E)", "0 for a random ordering, 1 for the largest value"),
    "distribution": ("F(M)", "the share of random orderings that score at most M, smoothed"),
}
"""Bounding -> the bounded value of a metric M of one list (thesis, chapter 3), as a formula and in words."""

FILE = "methods.md"
_OF_CLAIMS = "table_claims"
_CONTROLS = ("random", "oracle", "best-feature", "popularity")


def methods_section(config: Mapping[str, Any] | None, left_out: Iterable[TableBlock] = ()) -> ReportSection:
    """Return the section for a configuration; without one, only what holds for every configuration.

    `left_out` are tables of the data that are not used.
    """
    known = config or {}
    protocols = known.get("protocols", [PUBLISHED, HONEST])
    deciding = _OF_CLAIMS in known.get("tables", [_OF_CLAIMS]) and HONEST in protocols
    data = " ".join(_data(known))
    controls = known.get("controls", _CONTROLS)
    boundings = [name for name in known.get("boundings", _BOUNDED) if name in _BOUNDED]
    estimates = _estimates(known) if "distribution" in boundings else ""
    bounds = Layout.of(FILE, "bounds", estimates=estimates).of_texts(
        (bounding_title(name), *_BOUNDED[name]) for name in boundings
    )
    paragraphs = {
        "Training": _training(known),
        "Protocols": " ".join(text(FILE, name) for name in (*protocols, *["deciding"] * deciding)),
        "Controls": text(FILE, "controls", controls=controls) if controls else "",
        "Statistics": text(FILE, "statistics"),
    }
    blocks: tuple[TableBlock | Paragraph, ...] = (
        *([Paragraph("Data", data)] if data else []),
        *left_out,
        Paragraph("Losses", text(FILE, "losses", temperature=known.get("temperature"))),
        bounds,
        *(Paragraph(title, words) for title, words in paragraphs.items() if words),
    )
    return ReportSection("methods", "Methods", "", blocks)


def _data(config: Mapping[str, Any]) -> Iterator[str]:
    """Describe the data sets that are trained on, or that a comparison reads or one derived from them."""
    comparisons = config.get("comparisons", {})
    # Without the key, all comparisons run.
    run = config.get("compare", comparisons)
    compared = [name for comparison in run for name in comparisons.get(comparison, {}).get("datasets", ())]

    def is_read(name: str) -> bool:
        return any(dataset == name or dataset.startswith(f"{name}-") for dataset in compared)

    trained = set(config.get("datasets", ()))
    for name, options in config.get("interactions", {}).items():
        if name in trained:
            yield _of_ratings(name, options)
    for name, options in config.get("lists", {}).items():
        if name in trained or is_read(name):
            levels = [threshold for threshold in options["thresholds"] if threshold != GRADED]
            readings = [f"a label of at least {_listed(levels)} is relevant"] if levels else []
            readings += ["labels are graded relevance"] if GRADED in options["thresholds"] else []
            label, several = DataSet(name, None).label, len(options["thresholds"]) > 1
            yield text(FILE, "lists", label=label, readings=readings, several=several)
    for name, options in config.get("images", {}).items():
        if is_read(name):
            yield text(FILE, "images", label=data_set_title(name), above=options["above"])


def _training(config: Mapping[str, Any]) -> str:
    """Return what trainings share, and where each selects its learning rate from a grid."""
    sections = [config.get("training", {}).get(name, {}) for name in config.get("datasets", ())]
    tuned = {
        protocol: sum(isinstance(one.get("learning_rate", {}).get(protocol), list) for one in sections)
        for protocol in config.get("protocols", [])
    }
    everywhere = all(count == len(sections) for count in tuned.values())
    stated = any("learning_rate" in one for one in sections)
    selecting = [name for name, count in tuned.items() if count]
    return text(FILE, "training", tuned=selecting, everywhere=everywhere, shared=stated and not selecting)


def _of_ratings(name: str, options: Mapping[str, Any]) -> str:
    """Describe ratings, and how their irrelevant items are chosen in each way that the study uses."""
    readings = list(samplings_of(options.get("sampling"), options.get("nsr")))
    ratios = sorted({nsr for _, nsr in readings if isinstance(nsr, int) and nsr != OWN})
    mixed = sorted({nsr for _, nsr in readings if isinstance(nsr, tuple)})
    each = [f"{_listed(list(several))} negatives by a ratio drawn for each user" for several in mixed]
    drawn = {sampling for sampling, nsr in readings if sampling.draws and nsr != OWN}
    return text(
        FILE,
        "ratings",
        label=DataSet(name, None).label,
        drawn=drawn,
        mixed=mixed,
        numbers=", or ".join([*([f"{_listed(ratios)} negatives"] if ratios else []), *each]),
        alike=all(sampling.train == sampling.test for sampling in drawn),
        popularity=any(POPULARITY in sampling for sampling in drawn),
        own=any(nsr == OWN for _, nsr in readings),
        full=any(FULL in sampling for sampling, _ in readings),
        **{key: options[key] for key in ("threshold", "min_relevant")},
    )


def _listed(values: list[int]) -> str:
    *most, last = map(str, sorted(values))
    return f"{', '.join(most)} or {last}" if most else last


def _estimates(config: Mapping[str, Any]) -> str:
    """Return a sentence on the distributions that are estimated, if there are any."""
    sets = config.get("datasets", [])
    protocols = config.get("protocols", []) if "distributions" in config else []
    section = config.get("distributions", {})
    methods = (section.get("method", ""), section.get("datasets", {}))
    found = {one: [name for name in sets if method_of(*methods, one, name) == SAMPLED] for one in protocols}
    if not any(found.values()):
        return ""
    places = {
        protocol: [] if names == sets else [DataSet(name, None).label for name in names]
        for protocol, names in found.items()
        if names
    }
    everywhere = all(names == sets for names in found.values())
    samples = config["distributions"]["samples"]
    return text(FILE, "estimates", samples=samples, everywhere=everywhere, places=places)


_REASONS = {
    "users": ("user", "rated no item below the threshold"),
    "lists": ("list", "of other users, in a part of a fold that got none of their ratings below the threshold"),
}
"""What the step `sample` counts -> the thing, and why it is left out."""


def left_out_blocks(instances: Sequence[Path]) -> Iterator[TableBlock]:
    """Yield the table for these files of instances, unless they have everybody; DataError for a damaged file."""
    rows = []
    for path in instances:
        metadata = read_metadata(path, "instances")
        counts = json.loads(metadata.get(LEFT_OUT_KEY, "{}"))
        for counted, (what, reason) in _REASONS.items():
            if number := counts.get(counted):
                rows.append((DataSet(metadata[DATASET_KEY], OWN).label, quantity(number, what), reason))
    if rows:
        yield Layout.of(FILE, "left-out").of_texts(rows)
