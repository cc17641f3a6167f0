"""How results were made: the methods, from the configuration, and code, machines and costs, from the records."""

import json
import platform
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from rankbound.texts import quantity
from rankbound_study.config.data_sets import FULL, GRADED, OWN, POPULARITY, DataSet, samplings_of
from rankbound_study.data.contracts import DATASET_KEY, LEFT_OUT_KEY, read_metadata
from rankbound_study.figures.style import bounding_title
from rankbound_study.provenance.checksums import MANIFEST
from rankbound_study.provenance.manifest import Manifest
from rankbound_study.provenance.records import Record
from rankbound_study.report.blocks import Cell, Layout, Paragraph, ReportSection, TableBlock
from rankbound_study.report.numbers import DASH
from rankbound_study.report.tables.protocols import option_text
from rankbound_study.results.neural import data_set_title
from rankbound_study.results.study_files import scan_runs
from rankbound_study.templates import text, titled
from rankbound_study.vocabulary import BOUNDINGS, HONEST, OF_FEATURES, PUBLISHED, SAMPLED, STUDY, method_of

FILE = "methods.md"


def methods_section(config: Mapping[str, Any] | None, left_out: Iterable[TableBlock] = ()) -> ReportSection:
    """Return the section for a configuration; without one, only what holds for every configuration.

    `left_out` are tables of the data that are not used.
    """
    known = config or {}
    protocols = known.get("protocols", [PUBLISHED, HONEST])
    deciding = "table_claims" in known.get("tables", ["table_claims"]) and HONEST in protocols
    data = " ".join(_data(known))
    controls = known.get("controls", ("random", "oracle", "best-feature", "popularity"))
    boundings = [name for name in known.get("boundings", BOUNDINGS) if name in BOUNDINGS]
    estimates = _estimates(known) if "distribution" in boundings else ""
    bounds = Layout.of(FILE, "bounds", estimates=estimates).of_texts(
        (bounding_title(name), *titled(FILE, f"value-{name}")) for name in boundings
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
    if "distributions" not in config:
        return ""
    sets, section = config.get("datasets", []), config["distributions"]
    methods = section["method"], section.get("datasets", {})
    protocols = config.get("protocols", [])
    found = {one: [name for name in sets if method_of(*methods, one, name) == SAMPLED] for one in protocols}
    if not any(found.values()):
        return ""
    places = {
        protocol: [] if names == sets else [DataSet(name, None).label for name in names]
        for protocol, names in found.items()
        if names
    }
    everywhere = all(names == sets for names in found.values())
    return text(FILE, "estimates", samples=section["samples"], everywhere=everywhere, places=places)


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


K = TypeVar("K", bound=Hashable)

PACKAGES = ("rankbound", "torch", "numpy", "scipy", "polars", "pyarrow", "matplotlib", "typst")
_CODE = Layout.of(FILE, "code")
CODE = _CODE.name
"""Name of the table of the code that made the results."""


def provenance_section(results: Path, table: pl.DataFrame, manifest: Manifest | None) -> ReportSection:
    """Return the section; `table` is Table 5.1. Without a manifest, the software is only that of this report."""
    sizes = table.filter(pl.col("loss") != "none", pl.col("as_printed"))
    runs = Layout.of(FILE, "runs")(sizes.group_by("dataset", "nsr", "model", maintain_order=True).first())
    blocks = [runs, *settings_table(results / "runs.parquet")]
    if manifest is None:
        versions = [("python", platform.python_version()), *((name, _version(name)) for name in PACKAGES)]
        blocks.append(Layout.of(FILE, "own-versions").of_texts(versions))
    else:
        blocks += _recorded(manifest)
    opening = text(FILE, "without-records" if manifest is None else "opening")
    return ReportSection("provenance", "Provenance", opening, tuple(block for block in blocks if block.rows))


def _recorded(manifest: Manifest) -> Iterator[TableBlock]:
    """Yield the tables of what the records say: code and configuration, machines, versions, costs, and data."""
    steps = manifest.steps
    yield _CODE.of_texts(_code_rows(manifest))

    def machine(step: Record) -> tuple[str, ...]:
        of, gpus = step.machine, ", ".join(sorted(set(step.machine.gpus))) or DASH
        return of.processor, gpus, of.system, f"{of.cores}", f"{of.memory_gib:.0f} GiB"

    rows = [(*key, f"{len(ran)}", _clock(step.seconds for step in ran)) for key, ran in _grouped(steps, machine)]
    instructions = sorted({step.machine.instructions for step in steps} - {""})
    yield Layout.of(FILE, "machines", instructions=instructions).of_texts(rows)
    versions: dict[str, set[str]] = {}
    for name, number in (pair for step in steps for pair in step.versions.items()):
        versions.setdefault(name, set()).add(number)
    switches = sorted({f"{name}={value}" for step in steps for name, value in step.switches.items()})
    used = [(name, ", ".join(sorted(numbers))) for name, numbers in sorted(versions.items())]
    yield Layout.of(FILE, "versions", switches=switches).of_texts(used)
    costs = [
        (
            *(name, str(len(ran)), _clock(step.seconds for step in ran), _clock(step.cpu_seconds for step in ran)),
            *(f"{max(step.seconds for step in ran):.1f} s", f"{max(step.peak_mib or 0 for step in ran):.0f} MiB"),
        )
        for name, ran in _grouped(steps, lambda step: step.subcommand)
    ]
    yield Layout.of(FILE, "costs").of_texts(costs)
    # Files outside the results that steps made or read: raw archives and derived data.
    files = {path: checksum for step in steps for path, checksum in step.inputs.items()} | manifest.files()
    outside = sorted((path, file) for path, file in files.items() if path.startswith("../"))
    data = [(path.replace("../", ""), file.sha256, f"{file.bytes:,}") for path, file in outside]
    yield Layout.of(FILE, "data").of_texts(data)


def _code_rows(manifest: Manifest) -> Iterator[tuple[str, str]]:
    steps = manifest.steps
    last = max((step.ended for step in steps), default=None)
    ended = "" if last is None else last.isoformat(timespec="seconds")[:19]
    yield "study", str(manifest.config.get("study", DASH))
    # Of its values, whatever the order of keys.
    yield "configuration, SHA-256", sha256(json.dumps(manifest.config, sort_keys=True).encode()).hexdigest()
    yield "seeds", ", ".join(map(str, sorted({seed for step in steps for seed in step.seeds}))) or DASH
    yield "steps", f"{len(steps)}, from {steps[0].started[:19]} to {ended} (UTC)" if steps else "no records"
    yield "files without a record", str(len(manifest.unrecorded))
    for code, ran in _grouped(steps, lambda step: replace(step.code, sha256="")):
        modified = f", {quantity(len(code.modified), 'file')} modified since" if code.modified else ""
        commit = f"commit {code.commit[:12]}{modified}" if code.commit else "outside a git checkout"
        yield f"code of {quantity(len(ran), 'step')}", f"rankbound {code.version}, {commit}"
    loaded = {pair for files in manifest.files_of_code.values() for pair in files.items()}
    yield "files of the code that steps loaded", f"{len(loaded):,}, each with its SHA-256 in {MANIFEST}"


def _grouped(steps: Sequence[Record], key: Callable[[Record], K]) -> list[tuple[K, list[Record]]]:
    """Group steps by key, the largest group first."""
    groups: dict[K, list[Record]] = {}
    for step in steps:
        groups.setdefault(key(step), []).append(step)
    return sorted(groups.items(), key=lambda group: -len(group[1]))


def _clock(durations: Iterable[float]) -> str:
    seconds = round(sum(durations))
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


_GROUP = ("protocol", "study", "dataset")


def settings_table(runs: Path) -> Iterator[TableBlock]:
    """Yield the table of training options; nothing if there are no runs.

    Methods that differ only in their number of features share a row. A study on a data set has a row in bold with the
    options that all its methods share, unless they are all in one row.
    """
    if not runs.exists():
        return
    key = [*_GROUP, "model", "options"]
    frame = scan_runs(runs).filter(pl.col("loss") != "none").select(*key, "epoch").unique().collect()
    picked = frame.group_by(key).agg(pl.col("epoch").min().alias("low"), pl.col("epoch").max().alias("high")).sort(key)
    rows: list[tuple[Cell, ...]] = []
    rules = set()
    for own in picked.partition_by(_GROUP, maintain_order=True):
        rules.add(len(rows))
        rows += _settings(own)
    if rows:
        yield replace(Layout.of(FILE, "settings")([]), rows=tuple(rows), rules=frozenset(rules))


def _settings(picked: pl.DataFrame) -> Iterator[tuple[Cell, ...]]:
    protocol, study, dataset = picked.row(0)[: len(_GROUP)]
    lines: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in picked.iter_rows(named=True):
        options = json.loads(row["options"])
        stem, of_features, _ = row["model"].partition(OF_FEATURES)
        if of_features:
            options.pop("features", None)
        lines.setdefault((stem, json.dumps(options)), []).append(row)
    options = {line: [option_text(*item) for item in json.loads(line[1]).items()] for line in lines}
    shared = set.intersection(*map(set, options.values()))
    about = f"{data_set_title(dataset) if study == STUDY else DataSet(dataset, None).label}, {study}, {protocol}"
    if len(lines) == 1:
        about, shared = f"{about}: ", set()
    else:
        yield Cell(about, strong=True), Cell(", ".join(sorted(shared)), strong=True), Cell("")
        about = ""
    for line, rows in lines.items():
        low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
        own = ", ".join(one for one in options[line] if one not in shared)
        epochs = str(low) if low == high else f"{low}–{high}"
        # `RankNet`, or `RankNet; of 30, 300, 3000` with its variants on fewer features.
        name, methods = line[0], [row["model"] for row in rows]
        if counts := sorted(int(method.removeprefix(name + OF_FEATURES)) for method in methods if method != name):
            name += f"{';' if name in methods else ''} of {', '.join(map(str, counts))}"
        yield Cell(about + name), Cell(own), Cell(epochs)
