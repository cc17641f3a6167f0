"""The steps on finished results: they are checked, compared, exported and packed."""

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankbound.errors import ConfigError
from rankbound.texts import quantity

if TYPE_CHECKING:
    from rankbound_study.export.trec_folder import Exported


def verify(
    folder: Path,
    config: list[Path] | None,
    strict: bool,
    against: Path | None,
    tolerance: float | None,
    json: bool,
) -> int:
    """Check results, print the report, and return the exit status."""
    from rankbound_study.provenance import verify as checks

    if tolerance is not None and (against is None or not math.isfinite(tolerance) or tolerance < 0):
        raise ConfigError(f"--tolerance {tolerance}: expected a number of at least 0, together with --against FOLDER")
    if against is not None:
        comparison = checks.compare(folder, against)
        print((checks.comparison_json if json else checks.comparison_text)(comparison, tolerance))
        return 0 if comparison.holds(tolerance) else 1
    expected = _config(folder, config)
    report = checks.verify(folder, expected)
    texts = checks.report_json if json else checks.report_text
    print(texts(report, strict=strict, config_checked=expected is not None))
    return 0 if report.holds(strict=strict) else 1


def _config(folder: Path, files: list[Path] | None) -> dict[str, object] | None:
    """Return the named configuration, or config.yaml if it is that of this folder."""
    if files is None and not Path("config.yaml").is_file():
        return None
    from rankbound_study.config.lines import merged

    if files is not None:
        return merged(files)
    config = merged([Path("config.yaml")])
    results = (config.get("pathvars") or {}).get("results", "results")
    return config if Path(results).resolve() == folder.resolve() else None


def compare(a_file: Path, b_file: Path | None, metrics: list[str], a: list[str], b: list[str], **flags: Any) -> None:
    """Compare selections of runs tables topic by topic, and print the report."""
    from rankbound.commands.compare import print_report
    from rankbound_study.results.compare_runs import Choice, compare_runs

    choice = Choice.of(_selected(flags), a, b)
    print_report(
        argparse.Namespace(**flags),
        lambda settings: compare_runs((a_file, b_file or a_file), choice, metrics, settings),
    )


def crate(results: Path, out_dir: Path, licensed: bool, **_: Any) -> None:
    """Check results, pack them as an RO-Crate, and summarise it."""
    from rankbound.io.files import needs_extra

    with needs_extra("study"):
        from rankbound_study.export.crate import write_crate
    packed = write_crate(results, out_dir, licensed=licensed)
    left_out = f", {quantity(packed.left_out, 'file')} of licensed data by checksum only" if packed.left_out else ""
    print(
        f"wrote {out_dir}: {quantity(packed.files, 'file')} of results{left_out}, "
        f"{quantity(packed.steps, 'step')}; ro-crate-metadata.json describes them"
    )


def export(results: Path, out_dir: Path, data: Path, space: str | None, **flags: Any) -> None:
    """Write kept scores as TREC runs and qrels, and summarise them."""
    from rankbound.io.files import needs_extra

    if space is not None and (not space or any(letter.isspace() for letter in space)):
        raise ConfigError(f"--space {space!r}: expected one or more characters without white space, such as _")
    with needs_extra("statistics"):
        from rankbound_study.export.trec_folder import export as write_trec
        from rankbound_study.results.compare_runs import parse_choice
    choice = parse_choice([f"{key}={value}" for key, value in _selected(flags).items()], "flag")
    print(_summary(write_trec(results, data, out_dir, choice, space), out_dir))


def _selected(flags: dict[str, Any]) -> dict[str, str]:
    """Return the keys of a runs table that flags select by."""
    keys = {name.removeprefix("key_"): value for name, value in flags.items() if name.startswith("key_")}
    return {key: value for key, value in keys.items() if value is not None}


def _summary(exported: "Exported", out: Path) -> str:
    from rankbound_study.export.trec_folder import INDEX, METRICS, TOLERANCE

    index = exported.index
    tied, metrics = int(index["tied_topics"].sum()), ", ".join(METRICS)
    compared = f"{metrics} of all lists are those of the study's runs"
    if exported.differing:
        compared = (
            f"{metrics} of {quantity(exported.differing, 'list')} differ from those of the study's runs by more than "
            f"{TOLERANCE:g}, at most {exported.most:.2g}: scores are kept in single precision, which creates some ties"
        )
    return (
        f"wrote {quantity(len(index), 'run')} and {quantity(index['qrels'].n_unique(), 'file')} of qrels to {out}; "
        f"{out / INDEX} lists them\ntied scores in {tied:,} of {quantity(exported.lists, 'list')}: `rankbound "
        f"evaluate` takes the mean over their orders, trec_eval orders them by name\n{compared}"
    )
