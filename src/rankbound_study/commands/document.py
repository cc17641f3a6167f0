"""The step `document`: the report as one PDF and one web page."""

from pathlib import Path

from rankbound_study.commands.files import use_given_titles
from rankbound_study.report import document as report
from rankbound_study.report import render


def document(results: Path, provenance: Path | None, instances: list[Path], titles: str, out: Path, html: Path) -> None:
    """Build the content once, and render it twice."""
    use_given_titles(titles)
    content = report.build(results, provenance, instances)
    render.write_html(content, results, html)
    render.write_pdf(content, results, out)
