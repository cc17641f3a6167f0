"""The steps on results: claims, figures, tables and the report are made; a folder is checked, compared and packed."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankbound.errors import ConfigError
from rankbound.texts import is_number, quantity
from rankbound_study.options import parse_options

if TYPE_CHECKING:
    from rankbound_study.results.study_files import StudyFiles

# A step's digest has the imports of its own functions: every function imports what it needs.


def theorems(out: Path) -> None:
    """Check the theorems of the sources, which takes no results, and write the rulings."""
    from rankbound_study.claims.theorems import check, write

    rulings = check()
    write(out, rulings)
    print(f"{len(rulings)} theorems")


def claims(options: str, out_dir: Path, titles: str, name: str, theorems: Path | None = None, **files: Any) -> None:
    """Decide every claim of the sources, and write the table in all its forms."""
    from rankbound_study.claims import verdicts
    from rankbound_study.claims.evidence import Evidence
    from rankbound_study.claims.registry import decide
    from rankbound_study.claims.theorems import read
    from rankbound_study.report.blocks import TableFiles
    from rankbound_study.report.claims import texts

    _use_titles(titles)
    evidence = Evidence.of(parse_options(options)["study"], _study_files(files))
    table = verdicts.frame(decide(evidence, read(theorems) if theorems else {}))
    TableFiles(table, texts(table)).write(out_dir, name)
    print(verdicts.summary(table))


def figure(names: list[str], out: list[Path], options: str, titles: str, **files: Any) -> None:
    """Draw and write figures made from the same files; of several, the name of a file says which one it shows."""
    from rankbound_study import figures
    from rankbound_study.figures import style

    _use_titles(titles)
    shown = {name: out if len(names) == 1 else [file for file in out if file.stem == name] for name in names}
    if strange := [str(file) for file in out if not any(file in of_one for of_one in shown.values())]:
        raise ConfigError(f"--out: found {strange[0]}, expected files named after the figures: {', '.join(names)}")
    for name, written in shown.items():
        style.save(figures.draw(name, _study_files(files), parse_options(options)), written)


def table(names: list[str], out_dir: Path, metrics: Path | None, options: str, titles: str, **files: Any) -> None:
    """Compute tables made from the same files, and write them in all their forms, and the metrics of one."""
    from rankbound_study.report import tables
    from rankbound_study.report.blocks import write_json

    _use_titles(titles)
    for name in names:
        made = tables.make(name, _study_files(files), parse_options(options))
        made.write(out_dir, name)
        if metrics is not None and made.metrics is not None:
            write_json(metrics, made.metrics)


def document(
    results: Path,
    provenance: Path | None,
    instances: list[Path],
    titles: str,
    elsewhere: Path | None,
    out: Path,
    html: Path,
    paper: list[Path],
) -> None:
    """Build the report's content once, and render it as one PDF and one web page; the paper likewise, if asked for."""
    from rankbound_study.report import document as report
    from rankbound_study.report import paper as short
    from rankbound_study.report import render

    _use_titles(titles)
    content = report.build(results, provenance, instances)
    render.write_html(content, results, html)
    render.write_pdf(content, results, out)
    if paper:
        content = short.paper(results, elsewhere=elsewhere)
    for path in paper:
        write = {".html": render.write_html, ".pdf": render.write_pdf}.get(path.suffix)
        if write is None:
            raise ConfigError(f"--paper {path}: expected files that end in .pdf or .html")
        write(content, results, path)


def evidence(results: Path, instances: list[Path], titles: str, out: Path, options: str) -> None:
    """Write what the paper is made from as one file, and print its size."""
    from rankbound_study.export.evidence import release

    release(results, instances, out, parse_options(options), parse_options(titles, "--titles"))
    print(f"{out.stat().st_size / 1e6:.1f} MB")


def paper_of(evidence: Path, out_dir: Path, elsewhere: Path | None, smallest_effect: list[str], name: str) -> None:
    """Make the paper, its tables, its figures and the verdicts from released evidence."""
    from tempfile import TemporaryDirectory

    from tqdm import tqdm

    from rankbound.errors import plain_errors
    from rankbound.metrics import metric
    from rankbound_study.claims import verdicts
    from rankbound_study.claims.evidence import SHARE, choose_smallest_effects
    from rankbound_study.config.data_sets import use_titles
    from rankbound_study.export.evidence import unpack
    from rankbound_study.figures import draw, figure_file, style
    from rankbound_study.report import claims as of_claims
    from rankbound_study.report import paper, render, tables
    from rankbound_study.report.blocks import TableFiles

    effects = {}
    for text in smallest_effect:
        metric_name, _, value = text.rpartition("=")
        effect = float(value) if is_number(value) else 0.0
        if not metric_name or not 0 < effect < 1:
            raise ConfigError(f"--smallest-effect {text}: expected a metric and a number between 0 and 1: nDCG=0.005")
        with plain_errors():
            effects[metric_name if metric_name == SHARE else str(metric(metric_name))] = effect
    choose_smallest_effects(effects)
    folder = out_dir / "tables"
    with TemporaryDirectory() as unpacked:
        released = unpack(evidence, Path(unpacked))
        use_titles(released.titles)
        for part in tqdm(paper.TABLES, unit="table", disable=None):
            options = released.options_for(tables.table_specs()[part].options)
            tables.make(part, released.files, options).write(folder, part)
        table = released.decided()
        TableFiles(table, of_claims.texts(table)).write(folder, verdicts.NAME)
        files = released.files_with_tables(folder)
        for part in tqdm(paper.FIGURES, unit="figure", disable=None):
            style.save(draw(part, files, {}), [figure_file(out_dir, part, end) for end in (".svg", ".pdf")])
    content = paper.paper(out_dir, elsewhere=elsewhere)
    render.write_html(content, out_dir, out_dir / f"{name}.html")
    render.write_pdf(content, out_dir, out_dir / f"{name}.pdf")
    print(verdicts.summary(table))
    if released.kept:
        print(f"as released, since they need other metrics or pictures: {', '.join(released.kept)}")


def _study_files(files: Mapping[str, Path | list[Path] | None]) -> "StudyFiles":
    """Return the files of a study that flags name."""
    from rankbound_study.results.study_files import StudyFiles

    return StudyFiles(**{name: tuple(own) if isinstance(own, list) else own for name, own in files.items()})  # type: ignore[arg-type]


def _use_titles(text: str) -> None:
    """Give data sets the titles of a JSON object from now on."""
    from rankbound_study.config.data_sets import use_titles

    titles = parse_options(text, "--titles")
    if not all(isinstance(title, str) for title in titles.values()):
        raise ConfigError(f"--titles: expected a title for each name of a data set, found {text}")
    use_titles(titles)


def verify(folder: Path, config: list[Path] | None, strict: bool) -> int:
    """Check results, print the report, and return the exit status."""
    from rankbound_study.config.check import merged
    from rankbound_study.provenance import verify as checks

    expected = merged(config) if config is not None else None
    if config is None and Path("config.yaml").is_file():
        # It counts if it is that of this folder.
        default = merged([Path("config.yaml")])
        own = (default.get("pathvars") or {}).get("results", "results")
        expected = default if Path(own).resolve() == folder.resolve() else None
    report = checks.verify(folder, expected)
    print(checks.report_text(report, strict=strict, config_checked=expected is not None))
    return 0 if report.holds(strict=strict) else 1


def compare(a_file: Path, b_file: Path | None, metrics: list[str], a: list[str], b: list[str], **flags: Any) -> None:
    """Compare selections of runs tables topic by topic, and print the report."""
    from rankbound.commands.runs import print_report
    from rankbound_study.results.compare_runs import compare_runs, parse_choice

    files, choices = (a_file, b_file or a_file), (_selected(flags), parse_choice(a, "--a"), parse_choice(b, "--b"))
    print_report(argparse.Namespace(**flags), lambda settings: compare_runs(files, *choices, metrics, settings))


def crate(results: Path, out_dir: Path, **_: Any) -> None:
    """Check results, pack them as an RO-Crate, and summarise it."""
    from rankbound.io.files import needs_extra

    with needs_extra("study"):
        from rankbound_study.export.crate import write_crate
    packed, left_out, steps = write_crate(results, out_dir)
    others = f", {quantity(left_out, 'file')} of licensed data by checksum only" if left_out else ""
    print(
        f"wrote {out_dir}: {quantity(packed, 'file')} of results{others}, {quantity(steps, 'step')}; "
        "ro-crate-metadata.json describes them"
    )


def export(results: Path, out_dir: Path, data: Path, space: str | None, **flags: Any) -> None:
    """Write kept scores as TREC runs and qrels, and summarise them."""
    from rankbound.io.files import needs_extra

    if space is not None and (not space or any(letter.isspace() for letter in space)):
        raise ConfigError(f"--space {space!r}: expected one or more characters without white space, such as _")
    with needs_extra("statistics"):
        from rankbound_study.export import trec_folder
    index, gaps = trec_folder.export(results, data, out_dir, _selected(flags), space)
    metrics, differing = ", ".join(trec_folder.METRICS), int((gaps > trec_folder.TOLERANCE).sum())
    compared = f"{metrics} of all lists are those of the study's runs"
    if differing:
        compared = (
            f"{metrics} of {quantity(differing, 'list')} differ from those of the study's runs by more than "
            f"{trec_folder.TOLERANCE:g}, at most {gaps.max():.2g}: scores are kept in single precision, which "
            "creates some ties"
        )
    print(
        f"wrote {quantity(len(index), 'run')} and {quantity(index['qrels'].n_unique(), 'file')} of qrels to {out_dir}; "
        f"{out_dir / trec_folder.INDEX} lists them\ntied scores in {int(index['tied_topics'].sum()):,} of "
        f"{quantity(len(gaps), 'list')}: `rankbound evaluate` takes the mean over their orders, trec_eval orders "
        f"them by name\n{compared}"
    )


def _selected(flags: dict[str, Any]) -> dict[str, str]:
    """Return the keys of a runs table that flags select by, with their values."""
    chosen = {name: value for name, value in flags.items() if name.startswith("key_") and value is not None}
    return {name.removeprefix("key_"): value for name, value in chosen.items()}
