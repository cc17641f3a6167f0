"""Check a results folder against its provenance, or against another one; the report as text and JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl

from rankbound.errors import DataError
from rankbound.texts import LONGEST, printable, quantity, shortened
from rankbound_study.data.contracts import read_table
from rankbound_study.provenance.checksums import MANIFEST, PAPER, Checksum, Places, hidden_files, result_files
from rankbound_study.provenance.facts import code
from rankbound_study.provenance.manifest import Manifest, contradicting_records, known_of
from rankbound_study.provenance.requested import contradictions, other_inputs, study_of

DIFFERS = ("changed", "missing", "unknown", "input", "chain", "origin", "record", "config")
"""Kinds of findings that are differences from the provenance."""

OPEN = ("code", "unchecked", "unrecorded")
"""Kinds that cannot be decided: another package than here, a missing file, a file without a record."""

RAW = "raw"
"""Folder of raw archives in the data folder: the steps that read one compare its content with known checksums."""

SHOWN = 3
"""Number of files named in one finding."""


@dataclass(frozen=True)
class Deviation:
    """A deviation from the record: its kind (of `DIFFERS` or `OPEN`), its subject, and what was found."""

    kind: str
    subject: str
    text: str


@dataclass(frozen=True)
class Verification:
    """The result of a check: what was checked, how much is as recorded, and what is not."""

    manifest: Manifest
    checked: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Deviation, ...] = ()

    def holds(self, *, strict: bool) -> bool:
        """Return whether nothing differs and, with `strict`, nothing is undecided."""
        return not any(finding.kind in DIFFERS or strict for finding in self.findings)


def verify(results: Path, config: Mapping[str, Any] | None = None) -> Verification:
    """Check every file of `results`, the inputs of its steps as far as they are here, the configuration and the code.

    Args:
        results: a results folder, here or copied from elsewhere.
        config: its expected configuration; None: not checked.

    Raises:
        DataError: the folder has no provenance, or it cannot be read.
    """
    manifest = known_of(results, config)
    places = Places.of(results, manifest.config if config is None else config, trusted=config is not None)
    inside = {path: checksum for path, checksum in manifest.files().items() if not path.startswith("../")}
    files = list(_files(places, manifest, inside))
    inputs = list(_inputs(places, manifest))
    configured = list(_config(manifest, config))
    differing = {finding.subject for finding in (*files, *inputs) if finding.kind in DIFFERS}
    unchecked = {finding.subject for finding in inputs if finding.kind == "unchecked"}
    read = {path for step in manifest.steps for path in step.inputs if path not in inside}
    return Verification(
        manifest,
        {
            "files": len(set(inside) - differing),
            "inputs": len(read - differing - unchecked),
            "steps": len(manifest.steps),
        },
        (
            *_origins(manifest),
            *_records(results),
            *files,
            *inputs,
            *configured,
            *_contradictions(manifest),
            *_code(manifest),
            *_unrecorded(manifest),
            *_hidden(results),
        ),
    )


def _files(places: Places, manifest: Manifest, inside: Mapping[str, Checksum]) -> Iterator[Deviation]:
    makers = manifest.makers()
    for path, checksum in sorted(inside.items()):
        maker = f"made by {makers[path].subcommand}" if path in makers else "made by a step that left no record"
        if (file := places.file(path)) is None:
            yield Deviation("missing", path, f"{maker}; {places.why_absent(path)}")
        elif not checksum.fits(file):
            yield Deviation("changed", path, f"{maker}; its content has changed")
    for path in result_files(places.results):
        if path not in inside and path.startswith(PAPER):
            yield Deviation("unchecked", path, f"made after {MANIFEST}, and its record is missing")
        elif path not in inside:
            yield Deviation("unknown", path, "no step made it")


def _inputs(places: Places, manifest: Manifest) -> Iterator[Deviation]:
    """Check files that steps read: those of other folders on disk, all against the steps that made them."""
    known = manifest.files()
    checksums_read: dict[str, set[Checksum]] = {}
    for step in manifest.steps:
        for path, checksum in step.inputs.items():
            checksums_read.setdefault(path, set()).add(checksum)
    for path, checksums in sorted(checksums_read.items()):
        (first, *others) = sorted(checksums, key=lambda one: one.sha256)
        if others or (path in known and known[path] != first):
            yield Deviation("chain", path, "steps read other content than the last recorded one")
        elif path.startswith("../"):
            if (file := places.file(path)) is None:
                yield Deviation("unchecked", path, places.why_absent(path))
            elif not first.fits(file):
                yield Deviation("input", path, "its content has changed")


def _config(manifest: Manifest, config: Mapping[str, Any] | None) -> Iterator[Deviation]:
    if config is None:
        return
    if not manifest.config:
        yield Deviation("unchecked", "configuration", f"none is recorded: {MANIFEST}, which would have it, is missing")
        return
    recorded, present = _flat(manifest.config), _flat(config)
    for key in sorted(set(recorded) | set(present)):
        # The archives' origin is not part of a study: their content is checked.
        if key != "mirror" and recorded.get(key, _ABSENT) != present.get(key, _ABSENT):
            found, expected = present.get(key, "nothing"), recorded.get(key, "nothing")
            yield Deviation("config", key, f"found {found}, recorded {expected}")


def _contradictions(manifest: Manifest) -> Iterator[Deviation]:
    if manifest.config and study_of(manifest.config) is None:
        yield Deviation(
            "unchecked", "options of steps", "the recorded configuration is not one that this version reads"
        )
    for path, recorded, requested in contradictions(manifest):
        was, wanted = _flat(recorded), _flat(requested)
        keys = [key for key in sorted(was | wanted) if was.get(key, _ABSENT) != wanted.get(key, _ABSENT)]
        found = ", ".join(f"{key} {was.get(key, 'unset')} instead of {wanted.get(key, 'unset')}" for key in keys)
        yield Deviation("config", path, f"not made as the recorded configuration requests: {found}")


def _origins(manifest: Manifest) -> Iterator[Deviation]:
    """Check that all inputs come from recorded steps, which read what the configuration requests, or are raw files."""
    # Somebody's own files lie anywhere; conversion compares them with the checksums of their description, if any.
    own = {path for step in manifest.steps if step.subcommand == "convert" for path in step.inputs}
    for path in sorted({path for step in manifest.steps for path in step.inputs} - set(manifest.makers()) - own):
        if not (path.startswith("../") and PurePosixPath(path).parent.name == RAW):
            yield Deviation("origin", path, "no recorded step made it, but one read it")
    for path, others in other_inputs(manifest):
        yield Deviation("origin", path, f"not made from what the recorded configuration requests: {_some(others)}")


def _records(results: Path) -> Iterator[Deviation]:
    for name in contradicting_records(results):
        yield Deviation("record", name, f"its record says something else than {MANIFEST} of the same run of the step")


def _some(paths: Sequence[str]) -> str:
    return ", ".join(paths[:SHOWN]) + (f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else "")


def _hidden(results: Path) -> Iterator[Deviation]:
    for path in hidden_files(results):
        yield Deviation("unchecked", path, "hidden, or left by a training that was ended: no result")


def _code(manifest: Manifest) -> Iterator[Deviation]:
    here = code()
    by_code: dict[tuple[str, str], int] = {}
    for step in manifest.steps:
        if step.code.sha256 != here.sha256:
            name = f"commit {step.code.commit[:12]}" if step.code.commit else f"code {step.code.sha256[:12]}"
            changed = f" with {quantity(len(step.code.modified), 'modified file')}" if step.code.modified else ""
            by_code[(name, changed)] = by_code.get((name, changed), 0) + 1
    for (name, changed), count in by_code.items():
        yield Deviation(
            "code", name + changed, f"another package than the installed one made {quantity(count, 'step')}"
        )


def _unrecorded(manifest: Manifest) -> Iterator[Deviation]:
    for path in sorted(manifest.unrecorded):
        yield Deviation("unrecorded", path, "its checksum is known, but not the step that made it")


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Flatten nested sections into keys joined by dots."""
    if not isinstance(value, Mapping) or not value:
        return {prefix: value}
    found: dict[str, Any] = {}
    for key, inner in value.items():
        found |= _flat(inner, f"{prefix}.{key}" if prefix else str(key))
    return found


_ABSENT = object()


RUNS = "runs.parquet"
SIDECARS = (".epochs.parquet", ".predictions.parquet", ".rates.parquet")
EPOCH = "epoch"
LIST = ("topic", "n", "p")
REPEATS = ("fold", "seed")


@dataclass(frozen=True)
class MetricDifference:
    """The differences between the runs of two folders in one metric.

    Attributes:
        topic: the largest difference in a topic's score.
        mean: the largest difference in a mean score over topics, folds and seeds, as in the tables.
        where: the runs with that mean.
    """

    metric: str
    topic: float
    mean: float
    where: str


@dataclass(frozen=True)
class FolderComparison:
    """The comparison of two folders: files with equal bytes, with other bytes, in one folder only; the runs."""

    same: tuple[str, ...]
    different: tuple[str, ...]
    only_here: tuple[str, ...]
    only_there: tuple[str, ...]
    metrics: tuple[MetricDifference, ...]
    other_epochs: int

    def holds(self, tolerance: float | None) -> bool:
        """Return whether all files have the same bytes or, given a tolerance, all means differ by no more than that."""
        if self.only_here or self.only_there:
            return False
        if tolerance is None:
            return not self.different
        return all(metric.mean <= tolerance for metric in self.metrics)


def compare(here: Path, there: Path) -> FolderComparison:
    """Compare two results folders, without the paper, which states where and when it was made.

    Raises:
        DataError: the folders hold runs of different topics, or a file is not a table of runs.
    """
    ours, theirs = set(_files_of_both(here)), set(_files_of_both(there))
    both = sorted(ours & theirs)
    same = [path for path in both if Checksum.of(there / path).fits(here / path)]
    different = sorted(set(both) - set(same))
    runs = [path for path in different if path == RUNS] or [path for path in different if _is_run(path)]
    metrics, other_epochs = _runs([here / path for path in runs], [there / path for path in runs]) if runs else ([], 0)
    return FolderComparison(
        tuple(same),
        tuple(different),
        tuple(sorted(ours - theirs)),
        tuple(sorted(theirs - ours)),
        tuple(metrics),
        other_epochs,
    )


def _files_of_both(folder: Path) -> Iterator[str]:
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder")
    yield from (path for path in result_files(folder) if not path.startswith(PAPER))


def _is_run(path: str) -> bool:
    return path.startswith("runs/") and path.endswith(".parquet") and not path.endswith(SIDECARS)


def _runs(here: list[Path], there: list[Path]) -> tuple[list[MetricDifference], int]:
    """Return the differences of every metric, and the number of runs with another epoch."""
    ours, theirs = _table(here), _table(there)
    metrics = [name for name, kind in ours.schema.items() if kind == pl.Float64 and name in theirs.columns]
    key = [name for name in ours.columns if name not in metrics and name != EPOCH]
    joined = ours.join(theirs, on=key, how="inner", nulls_equal=True, suffix="_there", validate="1:1")
    if not len(ours) == len(theirs) == len(joined):
        raise DataError(
            f"the runs cannot be compared: {len(ours)} and {len(theirs)} rows, {len(joined)} of them for the same "
            "topic in the same run; check that both were made with the same configuration"
        )
    run = [name for name in key if name not in LIST]
    other = joined.group_by(run).agg((pl.col(EPOCH) != pl.col(f"{EPOCH}_there")).any())
    shown = [name for name in run if name not in REPEATS]
    distances = joined.group_by(shown, maintain_order=True).agg(
        *(_distance(name).abs().max().alias(f"{name}_topic") for name in metrics),
        *(_distance(name).mean().abs().alias(f"{name}_mean") for name in metrics),
    )
    return [_furthest(distances, name, shown) for name in metrics], int(other[EPOCH].sum())


def _table(paths: list[Path]) -> pl.DataFrame:
    frames = [pl.from_arrow(read_table(path, "runs")) for path in paths]
    return pl.concat([frame for frame in frames if isinstance(frame, pl.DataFrame)], how="diagonal")


def _distance(metric: str) -> pl.Expr:
    """Return the distance in a topic; null if the metric is undefined in both folders."""
    ours, theirs = pl.col(metric), pl.col(f"{metric}_there")
    return pl.when(ours.is_nan() & theirs.is_nan()).then(None).otherwise(ours - theirs)


def _furthest(distances: pl.DataFrame, metric: str, shown: list[str]) -> MetricDifference:
    by_mean = distances.sort(f"{metric}_mean", descending=True, nulls_last=True)
    first = by_mean.row(0, named=True)
    where = " ".join(str(first[name]) for name in shown if first[name] is not None and name != "options")
    topic = by_mean[f"{metric}_topic"].max()
    return MetricDifference(
        metric, float(topic) if isinstance(topic, float) else 0.0, float(first[f"{metric}_mean"] or 0.0), where
    )


LISTED = 20
"""Number of printed findings per kind; `--json` has all."""


def report_text(report: Verification, *, strict: bool, config_checked: bool) -> str:
    """Return the counts of what is as recorded, a line per deviation, and the verdict."""
    counts = report.checked
    manifest = report.manifest
    study = manifest.config.get("study", "unknown study")
    lines = [
        f"{study}: {quantity(counts['steps'], 'step')}, recorded until {manifest.created[:19]} UTC",
        f"  files   {counts['files']} as recorded",
        f"  inputs  {counts['inputs']} as recorded",
        f"  config  {_config_line(report, config_checked)}",
    ]
    lines += _listed(report.findings)
    return _text([*lines, "", _verdict(report, strict=strict)])


def report_json(report: Verification, *, strict: bool, config_checked: bool) -> str:
    """Return the same as one JSON object."""
    return _json(
        {
            "holds": report.holds(strict=strict),
            "study": report.manifest.config.get("study"),
            "recorded_until": report.manifest.created,
            "as_recorded": dict(report.checked),
            "config_checked": config_checked,
            "findings": [asdict(finding) for finding in report.findings],
        }
    )


def comparison_text(comparison: FolderComparison, tolerance: float | None) -> str:
    """Return the files, the largest differences of the runs, and the verdict."""
    lines = [f"same bytes: {quantity(len(comparison.same), 'file')}; other bytes: {len(comparison.different):,}"]
    for title, paths in (
        ("other bytes", comparison.different),
        ("only in the first folder", comparison.only_here),
        ("only in the second folder", comparison.only_there),
    ):
        lines += _cut([f"  {title}: {path}" for path in paths])
    if comparison.metrics:
        lines += ["", f"{'metric':<14}{'a topic':>12}{'a mean':>12}  the mean with the largest difference"]
        rows = sorted(comparison.metrics, key=lambda difference: -difference.mean)
        lines += [
            f"{difference.metric:<14}{difference.topic:>12.2e}{difference.mean:>12.2e}  {difference.where}"
            for difference in rows
        ]
        lines.append(f"another epoch selected: {quantity(comparison.other_epochs, 'run')}")
    bound = "the same bytes" if tolerance is None else f"means within {tolerance:g}"
    return _text([*lines, "", f"{bound}: {'yes' if comparison.holds(tolerance) else 'no'}"])


def comparison_json(comparison: FolderComparison, tolerance: float | None) -> str:
    """Return the same as one JSON object."""
    return _json({"holds": comparison.holds(tolerance), "tolerance": tolerance, **asdict(comparison)})


def _config_line(report: Verification, checked: bool) -> str:
    if not checked:
        return "not checked: name it with --config"
    differing = sum(finding.kind == "config" for finding in report.findings)
    return f"differs in {quantity(differing, 'key')}" if differing else "as recorded"


def _listed(findings: Sequence[Deviation]) -> list[str]:
    lines = []
    for title, differs in (("differs:", True), ("undecided:", False)):
        kinds = list(dict.fromkeys(finding.kind for finding in findings if (finding.kind in DIFFERS) == differs))
        if kinds:
            lines += ["", title]
        for kind in kinds:
            lines += _cut([f"  {kind:<11}{one.subject}: {one.text}" for one in findings if one.kind == kind])
    return lines


def _verdict(report: Verification, *, strict: bool) -> str:
    count = sum(finding.kind in DIFFERS or strict for finding in report.findings)
    if report.holds(strict=strict):
        return "nothing differs from what was recorded"
    return f"{count} {'difference' if count == 1 else 'differences'} from what was recorded"


def _cut(lines: list[str]) -> list[str]:
    more = len(lines) - LISTED
    return [*lines[:LISTED], f"  ... and {more} more (--json has all)"] if more > 0 else lines


def _text(lines: list[str]) -> str:
    """Join lines with names from files that others may have made: none of them breaks a line."""
    return "\n".join(shortened(printable(line), LONGEST) for line in lines)


def _json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=1, sort_keys=True)
