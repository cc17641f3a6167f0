"""The steps on data: raw files are fetched and converted, stand-ins generated, lists split, sampled and tabulated."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankbound.errors import ConfigError, DataError
from rankbound_study.options import parse_options, read_options

if TYPE_CHECKING:
    from rankbound_study.data.sampling import Drawing
    from rankbound_study.data.sources import RawSource

# A step's digest has the imports of its own functions: every function imports what it needs.


def download(source: str, out: Path, mirror: str | None, description: str) -> None:
    """Fetch a raw archive, check its content, and state its terms."""
    raw = _described(source, description)
    path = fetched(raw, out, mirror)
    print(f"{path}: {raw.title}, {'content as expected' if raw.is_checked else 'whose content has no checksums'}")
    for what, text in {"terms": raw.described.terms, "cite": raw.described.citation}.items():
        print(f"{what}: {text or 'not stated in the description'}")
    if raw.described.remark:
        print(f"note: {raw.described.remark}")


def fetched(raw: "RawSource", out: Path, mirror: str | None = None) -> Path:
    """Make sure that `out` is the file of a source with the right content, and return it, as `rankbound.io.fetch`.

    A description without names of its archive has that of `out`, which the configuration gives. Another address changes
    no data: the source says which content is right.
    """
    from functools import partial

    from rankbound.io.fetch import Archive, fetch
    from rankbound_study.data.sources import check_content

    described = raw.described
    archive = Archive(
        raw.title,
        names=described.archives or (out.name,),
        addresses=described.addresses or (),
        homepage=described.homepage or "",
        check=partial(check_content, raw),
        is_checked=raw.is_checked,
    )
    return fetch(archive, out, mirror)


def convert(source: str, raw: list[Path], out: Path, description: str) -> None:
    """Convert raw files to parquet if their content is that of their source."""
    from rankbound_study.config.sections.description import CONVERTED, LISTS, RATINGS
    from rankbound_study.data.sources import RawFiles

    origin = _described(source, description)
    kind = origin.described.format
    if kind not in CONVERTED:
        raise ConfigError(f"{origin.name} is not converted: its format is {kind}")
    if origin.described.remark:
        print(f"note: {origin.described.remark}")
    files = RawFiles(origin, raw)
    if kind in LISTS:
        from rankbound_study.data import judged_files

        judged_files.convert(files, out)
    elif kind == RATINGS:
        from rankbound_study.data import ratings

        ratings.convert(files, out)
    elif files.are_plain:
        raise DataError(f"{files.path}: pictures are read from an archive, .zip or .rar: pack the folder")
    else:
        from rankbound_study.data import faces

        faces.convert(files, out)


def _described(name: str, text: str) -> "RawSource":
    """Return the source of a data set by its description; ConfigError for an unknown one, or one that is wrong."""
    from rankbound_study.config.sections.base import of_flag
    from rankbound_study.config.sections.description import DescriptionKeys
    from rankbound_study.data import sources

    if not text:
        return sources.find_source(name)
    if name in sources.SOURCES:
        raise ConfigError(f"{name} is a data set that the project knows: give data of your own another name")
    return sources.RawSource(name, of_flag(DescriptionKeys, text, "--description"))


def generate(dataset: str, out: Path, seed: int, size: str, planted: str | None) -> None:
    """Generate a synthetic stand-in for a data set."""
    from rankbound_study.config.sections.base import of_flag
    from rankbound_study.config.sections.data import PlantedKeys
    from rankbound_study.data import synthetic

    parameters = None if planted is None else of_flag(PlantedKeys, planted, "--planted")
    synthetic.generate(dataset, out, seed, size, parameters)


KINDS = ("interactions", "lists", "images")
OF_FOLDS: dict[str, dict[str, Any]] = {
    "interactions": {
        "by_time": {},
        "folds": [],
        "min_relevant": 25,
        "repeats": 1,
        "seed": 0,
        "threshold": 4.0,
        "validation_share": 0.1,
    },
    "lists": {"folds": [], "random_parts": 0, "seed": 0, "validation_share": 0.2},
    "images": {"folds": 5, "seed": 0, "test_share": 0.2, "validation_share": 0.2},
}
"""Kind of data -> the options of its folds, with their defaults."""


def split(dataset: str, data: Path, out: Path, options: str) -> None:
    """Assign every topic or relevant item to the test part of a fold."""
    from rankbound_study.data.contracts import contract_of
    from rankbound_study.data.splits import fold_images, split_lists, split_ratings

    kind = contract_of(data, KINDS)
    chosen = read_options(options, OF_FOLDS[kind])
    if kind == "lists":
        split_lists(data, out, dataset, **chosen)
    elif kind == "images":
        fold_images(data, out, dataset, **chosen)
    else:
        for note in split_ratings(data, out, dataset, **chosen):
            print(f"note: {note}")


OF_LISTS: dict[str, dict[str, Any]] = {
    "interactions": {"min_relevant": 25, "nsr": 1, "seed": 0, "threshold": 4.0, "validation_share": 0.1},
    "lists": {"graded": False, "threshold": 1},
    "images": {"above": 5, "seed": 0, "test_pairs": 2400, "train_pairs": 7200, "validation_pairs": 2400},
}
"""Kind of data -> the options of its lists, with their defaults."""


def sample(dataset: str, data: Path, folds: Path, out: Path, options: str) -> None:
    """Write the lists that training reads."""
    from rankbound_study.data.contracts import SPLITS, contract_of
    from rankbound_study.data.sampling import sample_interactions, sample_lists, sample_pairs

    files, kind = (data, folds, out), contract_of(data, KINDS)
    if kind == "interactions":
        drawing, checked = _drawing(dataset, options)
        left_out = sample_interactions(*files, drawing=drawing, checked=checked)
        if any(left_out.values()):
            counts = f"{left_out['users']} users, and {left_out['lists']} lists of others"
            print(f"left out, having no irrelevant items: {counts}")
        return
    chosen = read_options(options, OF_LISTS[kind])
    if kind == "images":
        pairs = {part: chosen.pop(f"{part}_pairs") for part in SPLITS}
        sample_pairs(*files, dataset, pairs=pairs, **chosen)
        return
    if chosen["graded"] and "threshold" in parse_options(options):
        raise ConfigError(f"--options has both a threshold and graded labels: {options}; use only one of them")
    threshold = None if chosen["graded"] else int(chosen["threshold"])
    sample_lists(*files, dataset=dataset, threshold=threshold)


def _drawing(dataset: str, text: str) -> tuple["Drawing", dict[str, float]]:
    """Return how to draw, and the options that the folds were made with."""
    from rankbound_study.config.data_sets import EVERY, PLAIN, Sampling
    from rankbound_study.data.sampling import Drawing

    given, defaults = parse_options(text), {**OF_LISTS["interactions"], "sampling": PLAIN._asdict()}
    nsr = given.pop("nsr", defaults["nsr"])
    options = read_options(json.dumps(given), defaults)
    del options["nsr"]
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


OF_DISTRIBUTIONS: dict[str, Any] = {"method": "exact", "samples": 300_000, "seed": 0, "tilt": 1.0}


def distributions(metric: str, instances: list[Path], out: Path, options: str) -> None:
    """Tabulate the score distributions that the distribution bound looks up, for all list sizes of the instances."""
    from tqdm import tqdm

    from rankbound.bounds.score_distribution import score_distributions
    from rankbound.bounds.tables import DistributionTables
    from rankbound_study.data.reader import list_sizes, write_distributions

    chosen, pairs = read_options(options, OF_DISTRIBUTIONS), list_sizes(instances)
    if not pairs:
        raise DataError(
            f"{', '.join(map(str, instances))}: no list has both relevant and irrelevant items, so there is nothing "
            "to tabulate; check the relevance threshold of these instances"
        )
    # disable=None: no bar unless standard error is a terminal.
    with tqdm(total=len(pairs), desc=metric, unit="table", disable=None) as bar:
        try:
            found = score_distributions(metric, pairs, done=bar.update, **chosen)
            tables = DistributionTables.collect(distribution.binned() for distribution in found)
        except ValueError as error:
            raise ConfigError(str(error)) from error
    write_distributions(tables, out)
