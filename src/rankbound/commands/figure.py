"""`rankbound figure`: draw one figure of the thesis."""

import argparse
from pathlib import Path

SUMMARY = "Draw a figure as SVG and PDF, from the runs table or (closed forms) from the library alone"
EXAMPLES = """\
  rankbound figure figure_1_1 --out results/figures/figure_1_1.svg --out results/figures/figure_1_1.pdf
  rankbound figure figure_5_2 --runs results/runs.parquet --out results/figures/figure_5_2.svg"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", metavar="NAME", help="figure_1_1, figure_3_1 to figure_3_7, figure_5_1 to figure_5_10")
    parser.add_argument("--runs", type=Path, metavar="FILE", help="the runs table (chapter 5)")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", action="append", required=True, help="an .svg or .pdf file; repeatable"
    )
    parser.add_argument("--options", default="{}", metavar="JSON", help="protocol (published, honest), study, model")


def run(arguments: argparse.Namespace) -> None:
    """Draw and write the figure."""
    from rankbound.options import parse_options
    from rankbound.paper import figures, style

    figure = figures.draw(arguments.name, arguments.runs, parse_options(arguments.options))
    style.save(figure, arguments.out)
