"""The step `sample`: the lists that training reads."""

import json
from pathlib import Path
from typing import Any

from rankbound.errors import ConfigError
from rankbound_study.config.samplings import EVERY, PLAIN, Sampling
from rankbound_study.data.contracts import SPLITS, contract_of
from rankbound_study.data.negatives import Drawing
from rankbound_study.data.sampling import (
    label_dataset,
    sample_interactions,
    sample_lists,
    sample_pairs,
)
from rankbound_study.options import parse_options, read_options

INTERACTION_OPTIONS: dict[str, Any] = {
    "min_relevant": 25,
    "nsr": 1,
    "seed": 0,
    "threshold": 4.0,
    "validation_share": 0.1,
}
IMAGE_OPTIONS: dict[str, Any] = {
    "above": 5,
    "seed": 0,
    "test_pairs": 2400,
    "train_pairs": 7200,
    "validation_pairs": 2400,
}
LIST_OPTIONS: dict[str, Any] = {"graded": False, "threshold": 1}


def sample(dataset: str, data: Path, folds: Path, out: Path, options: str) -> None:
    """Write the instances."""
    files = (data, folds, out)
    contract = contract_of(data, ("interactions", "lists", "images"))
    if contract == "images":
        chosen = read_options(options, IMAGE_OPTIONS)
        pairs = {split: chosen.pop(f"{split}_pairs") for split in SPLITS}
        sample_pairs(*files, dataset, pairs=pairs, **chosen)
        return
    if contract == "lists":
        threshold = _threshold(options)
        sample_lists(*files, dataset=label_dataset(dataset, threshold), threshold=threshold)
        return
    drawing, checked = _drawing(dataset, options)
    left_out = sample_interactions(*files, drawing=drawing, checked=checked)
    if any(left_out.values()):
        print(
            f"left out, having no irrelevant items: {left_out['users']} users, and {left_out['lists']} lists of others"
        )


def _drawing(dataset: str, text: str) -> tuple[Drawing, dict[str, float]]:
    """Return how to draw, and the options that the folds were made with."""
    given, defaults = parse_options(text), {**INTERACTION_OPTIONS, "sampling": PLAIN._asdict()}
    several = given.pop("nsr") if isinstance(given.get("nsr", 1), list | None) else ()
    options = read_options(json.dumps(given), defaults)
    single = options.pop("nsr")
    nsr = single if several == () else several
    ratios = nsr if isinstance(nsr, list) else [nsr]
    if nsr is not None and not (ratios and all(type(ratio) is int and ratio >= 0 for ratio in ratios)):
        raise ConfigError(f"--options: 'nsr' is {json.dumps(nsr)}, expected a value like 1, or a list of such ratios")
    if (parts := options.pop("sampling")) not in [one._asdict() for one in EVERY]:
        raise ConfigError(f"--options: 'sampling' is {json.dumps(parts)}, expected a value like {defaults['sampling']}")
    sampling = Sampling(**parts)
    if sampling.draws == (nsr is None):
        expected = "a number of negatives" if sampling.draws else "null, because the whole catalogue is not drawn"
        raise ConfigError(f"--options: 'nsr' is {json.dumps(nsr)}, expected {expected}")
    checked = {key: options.pop(key) for key in ("min_relevant", "threshold")}
    ratio = tuple(nsr) if isinstance(nsr, list) else nsr
    return Drawing(dataset, ratio, **options, sampling=sampling), checked


def _threshold(text: str) -> int | None:
    """Return the smallest relevant label; None if the labels are the relevance."""
    options = read_options(text, LIST_OPTIONS)
    if not options["graded"]:
        return int(options["threshold"])
    if "threshold" in parse_options(text):
        raise ConfigError(f"--options has both a threshold and graded labels: {text}; use only one of them")
    return None
