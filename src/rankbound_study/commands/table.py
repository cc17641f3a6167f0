"""The step `table`: make one table of the thesis or of the neural-ranking study."""

import argparse
from pathlib import Path

from rankbound_study.commands._file_flags import add_file_flags, given_files

SUMMARY = "Make a table: 5.1 and neural_1 to neural_3 from the runs table, the worked examples only from the library"
EXAMPLES = """\
  python -m rankbound_study table table_5_1 --runs results/runs.parquet --out-dir results/tables \\
      --metrics results/metrics.json
  python -m rankbound_study table table_2_2 --out-dir results/tables
  python -m rankbound_study table table_neural_1 --runs results/runs.parquet --epochs results/epochs.parquet \\
      --out-dir results/tables"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "name",
        metavar="NAME",
        help="its name under `tables:` in config.yaml, such as table_5_1 (table_claims: the step `claims`)",
    )
    add_file_flags(parser)
    parser.add_argument("--out-dir", type=Path, metavar="DIR", required=True, help="where NAME.csv (.md, .tex) goes")
    parser.add_argument("--metrics", type=Path, metavar="FILE", help="also write the means as nested JSON (table_5_1)")
    parser.add_argument("--options", default="{}", metavar="JSON", help="protocol (published, honest), study, model")


def run(arguments: argparse.Namespace) -> None:
    """Compute and write the table in all its forms."""
    from rankbound_study.options import parse_options
    from rankbound_study.report import tables
    from rankbound_study.report.output import write_json

    made = tables.make(arguments.name, given_files(arguments), parse_options(arguments.options))
    made.write(arguments.out_dir, arguments.name)
    if arguments.metrics is not None:
        write_json(arguments.metrics, made.metrics)
