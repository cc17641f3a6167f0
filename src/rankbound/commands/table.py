"""`rankbound table`: make one table of the thesis."""

import argparse
from pathlib import Path

SUMMARY = "Make a table: 5.1 from the runs table, the worked examples (1.1, 2.2 to 2.4, 3.1 to 3.3) from the library"
EXAMPLES = """\
  rankbound table table_5_1 --runs results/runs.parquet --out-dir results/tables --metrics results/metrics.json
  rankbound table table_2_2 --out-dir results/tables"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", metavar="NAME", help="table_5_1, or a worked table such as table_2_2")
    parser.add_argument("--runs", type=Path, metavar="FILE", help="the runs table (table_5_1 only)")
    parser.add_argument("--out-dir", type=Path, metavar="DIR", required=True, help="where NAME.csv (.md, .tex) goes")
    parser.add_argument("--metrics", type=Path, metavar="FILE", help="also write the means as nested JSON (table_5_1)")
    parser.add_argument("--options", default="{}", metavar="JSON", help="protocol (published, honest), study, model")


def run(arguments: argparse.Namespace) -> None:
    """Compute and write the table in all its forms."""
    from rankbound.errors import ConfigError
    from rankbound.options import parse_options

    options = parse_options(arguments.options)
    if arguments.name == "table_5_1":
        if arguments.runs is None:
            raise ConfigError("table_5_1 is made from runs: give the runs table with --runs FILE")
        _write_table_5_1(arguments.runs, arguments.out_dir, arguments.metrics, options)
    else:
        from rankbound.paper.output import write_text
        from rankbound.paper.worked import worked_table

        write_text(arguments.out_dir / f"{arguments.name}.csv", worked_table(arguments.name).write_csv())


def _write_table_5_1(runs: Path, folder: Path, metrics: Path | None, options: dict[str, str]) -> None:
    from rankbound.paper import summary, table_layout, tables
    from rankbound.paper.output import write_json, write_text
    from rankbound.paper.scores import RunsChoice

    table = tables.table_5_1(runs, RunsChoice.from_options(options))
    write_text(folder / "table_5_1.csv", table.write_csv(float_precision=6))
    write_text(folder / "table_5_1.md", table_layout.markdown(table))
    write_text(folder / "table_5_1.tex", table_layout.latex(table))
    write_json(folder / "table_5_1_summary.json", summary.summarise(table))
    if metrics is not None:
        write_json(metrics, summary.metrics(table))
