"""The report as a page of the site, beside it the whole report and the paper, each as a web page and as a PDF.

It is made from the tables of this clone and the drawings of the gallery, which has no picture of a data set. A figure
that is not there is named with the command that makes it.
"""

import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rankbound.errors import DataError
from rankbound_study import figures
from rankbound_study.provenance.checksums import MANIFEST
from rankbound_study.report import blocks, document, render
from rankbound_study.report.blocks import Document, TableBlock
from rankbound_study.report.content import Figures
from rankbound_study.report.methods import CODE
from rankbound_study.report.paper import paper
from website.gallery import FOLDER, PICTURES, command
from website.pages import filled

NAME = "paper"
"""The page's name, and that of the folder with the whole report."""

SUBTITLE = (
    "From tables without records of their runs; docs/limitations.md says which version made those of the repository"
)


def write(docs: Path, results: Path, drawn: Collection[str], configured: Mapping[str, Any]) -> None:
    """Write the page, and the files of report and paper into a folder beside it.

    `results` may have only tables; `drawn` are the figures that the gallery shows, `configured` is the configuration of
    `make paper`. Raises DataError: Table 5.1 is missing, a table is damaged, or a file differs from the study's record.
    """
    specs, remarks = figures.figure_specs(), dict[str, str]()
    for name in (missing := [name for name in configured["figures"] if name not in drawn]):
        why = PICTURES if specs[name].shows_pictures else "Not drawn here"
        remarks[name] = f"{why}: `{command(name, specs[name], configured=True)}` makes it."
    provenance = results / MANIFEST if (results / MANIFEST).is_file() else None
    with _shown(drawn, docs / FOLDER, results) as shown:
        content = document.build(results, provenance, figures=Figures(shown, remarks))
        if not provenance:
            content = replace(content, subtitle=SUBTITLE)
        render.write_html(content, shown, docs / NAME / "index.html", home=f"../{NAME}.html")
        render.write_pdf(content, shown, docs / NAME / "rankbound.pdf")
        short = paper(results, figures=Figures(shown), elsewhere=results)
        render.write_html(short, shown, docs / NAME / "paper.html", home=f"../{NAME}.html")
        render.write_pdf(short, shown, docs / NAME / "paper.pdf")
    absent = [name for name in configured["tables"] if not (results / "tables" / f"{name}.csv").exists()]
    (docs / f"{NAME}.md").write_text(page(content, missing, absent), "utf-8")


def page(content: Document, missing: Sequence[str], absent: Sequence[str]) -> str:
    """Return the page: the report's first words, so that the search finds them, and the figures and tables it lacks."""
    sections = {section.anchor: section for section in content.sections}
    code = [block for block in sections["provenance"].blocks if isinstance(block, TableBlock) and block.name == CODE]
    made = {"code": blocks.texts("", code, "")[".md"].strip() if code else "", "manifest": MANIFEST}
    lacks = {"missing": {name: figures.title(name) for name in missing}, "absent": absent}
    return filled(f"{NAME}.md", report=content, sections=sections, synthetic=render.SYNTHETIC, **made, **lacks)


@contextmanager
def _shown(drawn: Collection[str], drawings: Path, results: Path) -> Iterator[Path]:
    """Yield a folder like that of the results, in which there is nothing but these drawings."""
    with TemporaryDirectory() as folder:
        shown = Path(folder)
        for name in drawn:
            file = figures.figure_file(shown, name, ".svg")
            file.parent.mkdir(exist_ok=True)
            shutil.copyfile(drawings / file.name, file)
        try:
            yield shown
        except DataError as error:
            raise DataError(str(error).replace(str(shown), str(results))) from error
