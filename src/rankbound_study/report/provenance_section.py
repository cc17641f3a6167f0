"""Build the report's last section: the runs, their settings, code, software, machines, data and costs."""

import json
import platform
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from rankbound.texts import quantity
from rankbound_study.config.data_sets import DataSet
from rankbound_study.provenance.checksums import MANIFEST
from rankbound_study.provenance.manifest import Manifest, config_digest, seeds_of
from rankbound_study.provenance.records import Record
from rankbound_study.report.columns import DASH, Cell, Layout, TableBlock
from rankbound_study.report.content import ReportSection
from rankbound_study.report.tables.sensitivity import option_text
from rankbound_study.results.neural import data_set_title
from rankbound_study.results.study_files import scan_runs
from rankbound_study.templates import text
from rankbound_study.vocabulary import OF_FEATURES, STUDY

FILE = "provenance.md"
K = TypeVar("K", bound=Hashable)

PACKAGES = ("rankbound", "torch", "numpy", "scipy", "polars", "pyarrow", "matplotlib", "typst")
_CODE = Layout.of(FILE, "code")
CODE = _CODE.name
"""Name of the table of the code that made the results."""
SHORT = 12
"""Digits of a commit's short name."""


def provenance_section(results: Path, table: pl.DataFrame, manifest: Manifest | None) -> ReportSection:
    """Return the section; `table` is Table 5.1. Without a manifest, the software is only that of this report."""
    sizes = table.filter(pl.col("loss") != "none", pl.col("as_printed"))
    runs = Layout.of(FILE, "runs")(sizes.group_by("dataset", "nsr", "model", maintain_order=True).first())
    blocks = [runs, *settings_table(results / "runs.parquet")]
    if manifest is None:
        versions = [("python", platform.python_version()), *((name, _version(name)) for name in PACKAGES)]
        blocks.append(Layout.of(FILE, "own-versions").of_texts(versions))
    else:
        blocks += [_made_by(manifest), _machines(manifest), _versions(manifest), _costs(manifest), _data(manifest)]
    opening = text(FILE, "without-records" if manifest is None else "opening")
    return ReportSection("provenance", "Provenance", opening, tuple(block for block in blocks if block.rows))


def _made_by(manifest: Manifest) -> TableBlock:
    """Return the table of the steps' code and the configuration."""
    steps = manifest.steps
    last = max((step.ended for step in steps), default=None)
    ended = "" if last is None else last.isoformat(timespec="seconds")[:19]
    rows = [
        ("study", str(manifest.config.get("study", DASH))),
        ("configuration, SHA-256", config_digest(manifest.config)),
        ("seeds", ", ".join(map(str, seeds_of(steps))) or DASH),
        ("steps", f"{len(steps)}, from {steps[0].started[:19]} to {ended} (UTC)" if steps else "no records"),
        ("files without a record", str(len(manifest.unrecorded))),
    ]
    for code, ran in _grouped(steps, lambda step: replace(step.code, sha256="")):
        modified = f", {quantity(len(code.modified), 'file')} modified since" if code.modified else ""
        commit = f"commit {code.commit[:SHORT]}{modified}" if code.commit else "outside a git checkout"
        rows.append((f"code of {quantity(len(ran), 'step')}", f"rankbound {code.version}, {commit}"))
    loaded = {pair for files in manifest.files_of_code.values() for pair in files.items()}
    rows.append(("files of the code that steps loaded", f"{len(loaded):,}, each with its SHA-256 in {MANIFEST}"))
    return _CODE.of_texts(rows)


def _machines(manifest: Manifest) -> TableBlock:
    def key(step: Record) -> tuple[str, ...]:
        machine, gpus = step.machine, ", ".join(sorted(set(step.machine.gpus))) or DASH
        return machine.processor, gpus, machine.system, f"{machine.cores}", f"{machine.memory_gib:.0f} GiB"

    rows = [
        (*machine, f"{len(ran)}", _clock(step.seconds for step in ran))
        for machine, ran in _grouped(manifest.steps, key)
    ]
    instructions = sorted({step.machine.instructions for step in manifest.steps} - {""})
    tried = sum(bool(step.attempts) for step in manifest.steps)
    return Layout.of(FILE, "machines", instructions=instructions, tried=tried).of_texts(rows)


def _versions(manifest: Manifest) -> TableBlock:
    versions: dict[str, set[str]] = {}
    for step in manifest.steps:
        for name, number in step.versions.items():
            versions.setdefault(name, set()).add(number)
    switches = sorted({f"{name}={value}" for step in manifest.steps for name, value in step.switches.items()})
    rows = [(name, ", ".join(sorted(numbers))) for name, numbers in sorted(versions.items())]
    return Layout.of(FILE, "versions", switches=switches).of_texts(rows)


def _costs(manifest: Manifest) -> TableBlock:
    """Return the table of the steps' time and memory, by subcommand."""
    rows = [
        (
            *(name, str(len(ran)), _clock(step.seconds for step in ran), _clock(step.cpu_seconds for step in ran)),
            *(f"{max(step.seconds for step in ran):.1f} s", f"{max(step.peak_mib or 0 for step in ran):.0f} MiB"),
        )
        for name, ran in _grouped(manifest.steps, lambda step: step.subcommand)
    ]
    return Layout.of(FILE, "costs").of_texts(rows)


def _data(manifest: Manifest) -> TableBlock:
    """Return the table of files outside the results that steps made or read: raw archives and derived data."""
    files = {path: checksum for step in manifest.steps for path, checksum in step.inputs.items()} | manifest.files()
    rows = [
        (path.replace("../", ""), file.sha256, f"{file.bytes:,}")
        for path, file in sorted(files.items())
        if path.startswith("../")
    ]
    return Layout.of(FILE, "data").of_texts(rows)


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
        yield replace(Layout.of(FILE, "settings").of_rows([]), rows=tuple(rows), rules=frozenset(rules))


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
        yield Cell(about + _group_name(line[0], [row["model"] for row in rows])), Cell(own), Cell(epochs)


def _group_name(stem: str, methods: list[str]) -> str:
    """Return a group's name: `RankNet`, or `RankNet; of 30, 300, 3000` with its variants on fewer features."""
    counts = sorted(int(method.removeprefix(stem + OF_FEATURES)) for method in methods if method != stem)
    if not counts:
        return stem
    return f"{stem}{';' if stem in methods else ''} of {', '.join(map(str, counts))}"
