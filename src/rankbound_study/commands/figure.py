"""The step `figure`: draw one figure of the thesis or of the neural-ranking study."""

import argparse
from pathlib import Path

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
        help="figure_1_1, figure_3_1 .. 3_7, figure_5_1 .. 5_10, figure_linear_2, _3, figure_neural_1 ..",
    )
    parser.add_argument("--runs", type=Path, metavar="FILE", help="the runs table (chapter 5, neural ranking)")
    for name, of in (("epochs", "all epochs"), ("images", "the faces")):
        parser.add_argument(f"--{name}", type=Path, metavar="FILE", help=f"{of} (some figures of neural ranking)")
    for name in ("predictions", "weights"):
        parser.add_argument(
            f"--{name}", type=Path, metavar="FILE", nargs="*", default=[], help=f"{name} of the methods (likewise)"
        )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", action="append", required=True, help="an .svg or .pdf file; repeatable"
    )
    parser.add_argument("--options", default="{}", metavar="JSON", help="protocol (published, honest), study, model")


def run(arguments: argparse.Namespace) -> None:
    """Draw and write the figure."""
    from rankbound_study import figures
    from rankbound_study.figures import style
    from rankbound_study.options import parse_options

    files = {
        "epochs": arguments.epochs,
        "images": arguments.images,
        "predictions": tuple(arguments.predictions),
        "weights": tuple(arguments.weights),
    }
    figure = figures.draw(arguments.name, arguments.runs, parse_options(arguments.options), files)
    style.save(figure, arguments.out)
