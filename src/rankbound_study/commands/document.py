"""The step `document`: the report as one PDF and one web page."""

import argparse
from pathlib import Path

from rankbound_study.commands._file_flags import add_titles_flag, use_given_titles

SUMMARY = "Write the report, findings first: a PDF (Typst) and a self-contained web page"
EXAMPLES = """\
  python -m rankbound_study document --results results --out results/paper/rankbound.pdf --html results/paper/index.html
  python -m rankbound_study document --results results --provenance results/provenance.json --out report.pdf \\
      --html report.html"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--results", type=Path, metavar="DIR", required=True, help="a folder of results")
    parser.add_argument(
        "--provenance", type=Path, metavar="FILE", help="output of `python -m rankbound_study provenance`"
    )
    parser.add_argument(
        "--instances",
        type=Path,
        metavar="FILE",
        nargs="*",
        default=[],
        help="output of `python -m rankbound_study sample` at ratio 0, which counts the users that it leaves out",
    )
    add_titles_flag(parser)
    parser.add_argument("--out", type=Path, metavar="PDF", required=True)
    parser.add_argument("--html", type=Path, metavar="HTML", required=True)


def run(arguments: argparse.Namespace) -> None:
    """Build the content once, and render it twice."""
    from rankbound_study.report import document, render_html, render_typst

    use_given_titles(arguments)
    content = document.build(arguments.results, arguments.provenance, arguments.instances)
    render_html.write(content, arguments.results, arguments.html)
    render_typst.write(content, arguments.results, arguments.out)
