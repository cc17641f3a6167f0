"""The step `claims`: a verdict on every claim of the sources, from a study's results."""

import argparse
from pathlib import Path

from rankbound_study.commands._file_flags import add_file_flags, given_files

SUMMARY = "Decide the claims of the sources from a study's results: a verdict for each, with the numbers behind it"
EXAMPLES = """\
  python -m rankbound_study claims --out-dir results/tables
  python -m rankbound_study claims --runs results/runs.parquet --epochs results/epochs.parquet \\
      --experiments results/experiments.parquet --options '{"study": "thesis"}' --out-dir results/tables

Without runs, only the claims about formulas are decided; the others are `not run`, each with what is missing."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_file_flags(parser)
    parser.add_argument(
        "--theorems", type=Path, metavar="FILE", help="the file of the step theorems (default: they are checked again)"
    )
    parser.add_argument("--options", default='{"study": "thesis"}', metavar="JSON", help="the study's name in its runs")
    parser.add_argument("--out-dir", type=Path, metavar="DIR", required=True, help="where table_claims.* goes")
    # As for `python -m rankbound_study table`: it names the step's record.
    parser.set_defaults(name="table_claims")


def run(arguments: argparse.Namespace) -> None:
    """Decide, and write the table in all its forms."""
    from rankbound_study.claims import verdict_table
    from rankbound_study.claims.evidence import Evidence
    from rankbound_study.claims.registry import decide
    from rankbound_study.claims.theorems import read
    from rankbound_study.options import parse_options
    from rankbound_study.report import claims_table
    from rankbound_study.report.table_files import TableFiles

    study = parse_options(arguments.options)["study"]
    files = {name: value for name, value in vars(given_files(arguments)).items() if name in Evidence.__annotations__}
    evidence = Evidence(study, **files)
    table = verdict_table.frame(decide(evidence, read(arguments.theorems) if arguments.theorems else {}))
    TableFiles(table, claims_table.texts(table)).write(arguments.out_dir, verdict_table.NAME)
    print(verdict_table.summary(table))
