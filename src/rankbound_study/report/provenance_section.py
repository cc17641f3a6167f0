"""Build the report's last section: the runs, their code, software, machines, data and costs."""

import platform
from collections.abc import Callable, Hashable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeVar

import polars as pl

from rankbound.texts import quantity
from rankbound_study.provenance.manifest import Manifest, config_digest, seeds_of
from rankbound_study.provenance.records import Record
from rankbound_study.report.blocks import Cell, ReportSection, TableBlock, plain_rows
from rankbound_study.report.findings import data_set_label
from rankbound_study.report.settings_table import settings_table

K = TypeVar("K", bound=Hashable)

PACKAGES = ("rankbound", "torch", "numpy", "scipy", "polars", "pyarrow", "matplotlib", "typst")
CODE = "Code and configuration"
"""Name of the table of the code that made the results."""
SHORT = 12
"""Digits of a commit's short name."""


def provenance_section(results: Path, table: pl.DataFrame, manifest: Manifest | None) -> ReportSection:
    """Return the section; `table` is Table 5.1. Without a manifest, the software is only that of this report."""
    blocks = [*_runs(table), *settings_table(results / "runs.parquet")]
    if manifest is None:
        text = "These results have no provenance records; only the software of this report is known."
        return ReportSection("provenance", "Provenance", text, (*blocks, _own_versions()))
    blocks += [_made_by(manifest), _machines(manifest), _versions(manifest), _costs(manifest), _data(manifest)]
    text = (
        "`provenance.json` beside the tables lists every step with its options and seeds, and its inputs and outputs "
        "with their checksums; `python -m rankbound_study verify` checks a folder of results against it."
    )
    return ReportSection("provenance", "Provenance", text, tuple(block for block in blocks if block.rows))


def _runs(table: pl.DataFrame) -> Iterator[TableBlock]:
    sizes = table.filter(pl.col("loss") != "none", pl.col("as_printed"))
    rows = sizes.group_by("dataset", "nsr", "model", maintain_order=True).first()
    if len(rows):
        yield TableBlock(
            "Runs",
            "Data sets, models and sizes behind Table 5.1.",
            ("data set", "model", "folds", "seeds", "test lists", "left out"),
            tuple(
                (
                    Cell(data_set_label(row["dataset"] if row["nsr"] is None else f"{row['dataset']}-nsr{row['nsr']}")),
                    Cell(row["model"]),
                    *(Cell(str(row[key])) for key in ("n_folds", "n_seeds", "n_lists", "n_skipped")),
                )
                for row in rows.iter_rows(named=True)
            ),
            labels=2,
        )


def _own_versions() -> TableBlock:
    versions = [("python", platform.python_version()), *((name, _version(name)) for name in PACKAGES)]
    return _block("Versions", "Software that produced this report.", ("package", "version"), versions)


def _made_by(manifest: Manifest) -> TableBlock:
    """Return the table of the steps' code and the configuration."""
    steps = manifest.steps
    rows = [
        ("study", str(manifest.config.get("study", "–"))),
        ("configuration, SHA-256", config_digest(manifest.config)),
        ("seeds", ", ".join(map(str, seeds_of(steps))) or "–"),
        ("steps", f"{len(steps)}, from {steps[0].started[:19]} to {_last(steps)} (UTC)" if steps else "no records"),
        ("files without a record", str(len(manifest.unrecorded))),
    ]
    for code, ran in _grouped(steps, lambda step: step.code):
        modified = f", {quantity(len(code.modified), 'file')} modified since" if code.modified else ""
        commit = f"commit {code.commit[:SHORT]}{modified}" if code.commit else "outside a git checkout"
        rows.append((f"code of {_count(ran)}", f"rankbound {code.version}, {commit}"))
        rows.append(("its files, SHA-256", code.sha256))
    return _block(CODE, "Code and configuration that produced these results.", ("what", "value"), rows)


def _machines(manifest: Manifest) -> TableBlock:
    def key(step: Record) -> tuple[str, ...]:
        machine = step.machine
        return (
            machine.processor,
            ", ".join(sorted(set(machine.gpus))) or "–",
            machine.system,
            f"{machine.cores}",
            f"{machine.memory_gib:.0f} GiB",
        )

    rows = [(*machine, f"{len(ran)}", _duration(ran)) for machine, ran in _grouped(manifest.steps, key)]
    header = ("processor", "GPUs used", "system", "cores", "memory", "steps", "time")
    tried = sum(bool(step.attempts) for step in manifest.steps)
    retried = f" {tried} of the steps needed more than one attempt." if tried else ""
    instructions = sorted({step.machine.instructions for step in manifest.steps} - {""})
    vectors = f" Vector instructions of the numerical steps: {', '.join(instructions)}." if instructions else ""
    return _block("Machines", f"Where the steps ran.{vectors}{retried}", header, rows, labels=3)


def _versions(manifest: Manifest) -> TableBlock:
    versions: dict[str, set[str]] = {}
    for step in manifest.steps:
        for name, number in step.versions.items():
            versions.setdefault(name, set()).add(number)
    switches = sorted({f"{name}={value}" for step in manifest.steps for name, value in step.switches.items()})
    caption = "Software that produced these results." + (f" Set: {', '.join(switches)}." if switches else "")
    rows = [(name, ", ".join(sorted(numbers))) for name, numbers in sorted(versions.items())]
    return _block("Versions", caption, ("package", "version"), rows)


def _costs(manifest: Manifest) -> TableBlock:
    """Return the table of the steps' time and memory, by subcommand."""
    rows = [
        (
            name,
            str(len(ran)),
            _duration(ran),
            _clock(sum(step.cpu_seconds for step in ran)),
            f"{max(step.seconds for step in ran):.1f} s",
            f"{max(step.peak_mib or 0 for step in ran):.0f} MiB",
        )
        for name, ran in _grouped(manifest.steps, lambda step: step.subcommand)
    ]
    header = ("step", "jobs", "time", "processor time", "longest", "peak memory")
    return _block("Costs", "Time and memory of the steps, as recorded by them.", header, rows, labels=1)


def _data(manifest: Manifest) -> TableBlock:
    """Return the table of files outside the results that steps made or read: raw archives and derived data."""
    files = {path: checksum for step in manifest.steps for path, checksum in step.inputs.items()} | manifest.files()
    rows = [
        (path.replace("../", ""), file.sha256, f"{file.bytes:,}")
        for path, file in sorted(files.items())
        if path.startswith("../")
    ]
    return _block("Data", "Data files behind the results.", ("file", "SHA-256", "bytes"), rows, labels=2)


def _block(
    name: str, caption: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]], labels: int = 2
) -> TableBlock:
    return TableBlock(name, caption, header, plain_rows(rows), labels)


def _grouped(steps: Sequence[Record], key: Callable[[Record], K]) -> list[tuple[K, list[Record]]]:
    """Group steps by key, the largest group first."""
    groups: dict[K, list[Record]] = {}
    for step in steps:
        groups.setdefault(key(step), []).append(step)
    return sorted(groups.items(), key=lambda group: -len(group[1]))


def _count(steps: Sequence[Record]) -> str:
    return quantity(len(steps), "step")


def _last(steps: Sequence[Record]) -> str:
    return max(step.ended for step in steps).isoformat(timespec="seconds")[:19]


def _duration(steps: Sequence[Record]) -> str:
    return _clock(sum(step.seconds for step in steps))


def _clock(duration: float) -> str:
    seconds = round(duration)
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
