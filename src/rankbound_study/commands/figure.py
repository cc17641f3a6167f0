"""The step `figure`: draw one figure of the thesis or of the neural-ranking study."""

import argparse
from pathlib import Path

from rankbound_study.commands._file_flags import add_file_flags, given_files

SUMMARY = "Draw a figure as SVG and PDF, from the runs table or (closed forms) only from the library"
EXAMPLES = """\
  python -m rankbound_study figure figure_1_1 --out results/figures/figure_1_1.svg --out results/figures/figure_1_1.pdf
  python -m rankbound_study figure figure_5_2 --runs results/runs.parquet --out results/figures/figure_5_2.svg
  python -m rankbound_study figure figure_neural_2 --images data/images/aaf.parquet --predictions FILE... \\
      --out pairs.svg"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "name",
        metavar="NAME",
        help="its name under `figures:` in config.yaml, such as figure_1_1",
    )
    add_file_flags(parser)
    parser.add_argument(
        "--out", type=Path, metavar="FILE", action="append", required=True, help="an .svg or .pdf file; repeatable"
    )
    parser.add_argument("--options", default="{}", metavar="JSON", help="protocol (published, honest), study, model")


def run(arguments: argparse.Namespace) -> None:
    """Draw and write the figure."""
    from rankbound_study import figures
    from rankbound_study.figures import style
    from rankbound_study.options import parse_options

    figure = figures.draw(arguments.name, given_files(arguments), parse_options(arguments.options))
    style.save(figure, arguments.out)
