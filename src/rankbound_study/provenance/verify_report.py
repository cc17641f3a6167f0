"""The findings of a check as text and as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rankbound.texts import LONGEST, printable, quantity, shortened
from rankbound_study.provenance.verify import DIFFERS, Deviation, Verification

if TYPE_CHECKING:
    from rankbound_study.provenance.compare import FolderComparison

SHOWN = 20
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


def comparison_text(comparison: "FolderComparison", tolerance: float | None) -> str:
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


def comparison_json(comparison: "FolderComparison", tolerance: float | None) -> str:
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
    more = len(lines) - SHOWN
    return [*lines[:SHOWN], f"  ... and {more} more (--json has all)"] if more > 0 else lines


def _text(lines: list[str]) -> str:
    """Join lines with names from files that others may have made: none of them breaks a line."""
    return "\n".join(shortened(printable(line), LONGEST) for line in lines)


def _json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=1, sort_keys=True)
