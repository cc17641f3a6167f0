"""Render the report as one self-contained web page: inlined figures, light and dark colours, sortable tables."""

import hashlib
import re
from base64 import b64encode
from html import escape
from pathlib import Path
from string import Template

from rankbound_study.figures import figure_file
from rankbound_study.figures.style import DARK, GRID, INK, MUTED
from rankbound_study.report.blocks import (
    Cell,
    Document,
    FigureBlock,
    Finding,
    Paragraph,
    ReportSection,
    TableBlock,
    typeset,
)
from rankbound_study.report.inline_svg import inline_svg, variable
from rankbound_study.report.output import template, write_text
from rankbound_study.results.specs import reading

SYNTHETIC = (
    "<b>Synthetic data.</b> These lists and labels were generated to try out the workflow. "
    "They are no evidence about MovieLens, MQ2008 or the thesis."
)


def write(document: Document, results: Path, path: Path, home: str = "") -> None:
    """Write the page; figures are read from the results folder."""
    write_text(path, render(document, results, home))


def render(document: Document, results: Path, home: str = "") -> str:
    """Return the page; the same content gives the same bytes. `home` is the address of a page to go back to."""
    contents = "\n".join(
        f'<li><a href="#{section.anchor}">{escape(section.title)}</a></li>' for section in document.sections
    )
    script = f"\n{template('sorting.js')}"
    return Template(template("page.html")).substitute(
        title=escape(document.title),
        subtitle=escape(document.subtitle),
        synthetic=' class="synthetic"' if document.synthetic else "",
        home=f'<a href="{escape(home)}">← Documentation of Rankbound</a>' if home else "Rankbound",
        banner=f'<p class="banner" role="note">{SYNTHETIC}</p>' if document.synthetic else "",
        contents=contents,
        sections="\n".join(_section(section, results) for section in document.sections),
        style=_style(),
        script=script,
        policy=policy_source(script),
    )


def policy_source(script: str) -> str:
    """Return the name of a script in the page's policy, by its hash: a browser runs no other one."""
    return f"'sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _style() -> str:
    """Return the page's style sheet, with the colours of the drawings as variables, light and dark."""
    return Template(template("page.css")).substitute(
        light="".join(f"{variable(color)}: {color};" for color in DARK),
        dark="".join(f"{variable(color)}: {dark};" for color, dark in DARK.items()),
        ink=variable(INK),
        muted=variable(MUTED),
        grid=variable(GRID),
    )


def _text(text: str) -> str:
    """Escape a text, and set what is between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(typeset(text)))


def _section(section: ReportSection, results: Path) -> str:
    text = f"<p>{_text(section.text)}</p>" if section.text else ""
    blocks = "\n".join(_block(block, results) for block in section.blocks)
    columns = ' class="columns"' if section.columns > 1 else ""
    return f"""<section id="{section.anchor}" aria-labelledby="{section.anchor}-title">
<h2 id="{section.anchor}-title">{escape(section.title)}</h2>
{text}{_findings(section.findings)}<div{columns}>
{blocks}
</div>
</section>"""


def _block(block: TableBlock | FigureBlock | Paragraph, results: Path) -> str:
    if isinstance(block, Paragraph):
        return f"<p><b>{escape(block.title)}.</b> {_text(block.text)}</p>"
    return _table(block) if isinstance(block, TableBlock) else _figure(block, results)


def _findings(findings: tuple[Finding, ...]) -> str:
    if not findings:
        return ""
    items = "\n".join(
        f"<li><strong>{_text(finding.headline)}</strong> {_text(finding.detail)}{_small_table(finding)}</li>"
        for finding in findings
    )
    return f'<ol class="findings">\n{items}\n</ol>'


def _small_table(finding: Finding) -> str:
    if not finding.rows:
        return ""
    kinds = ["label"] + ["number"] * (len(finding.header) - 1)
    head = "".join(
        f'<th scope="col" class="{kind}">{escape(text)}</th>' for kind, text in zip(kinds, finding.header, strict=True)
    )
    rows = "".join(
        "<tr>"
        + "".join(f'<td class="{kind}">{escape(text)}</td>' for kind, text in zip(kinds, row, strict=True))
        + "</tr>"
        for row in finding.rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="small" tabindex="0" role="group" aria-label="The numbers">{table}</div>'


def _figure(block: FigureBlock, results: Path) -> str:
    path = figure_file(results, block.name, ".svg")
    with reading(path):
        drawing = inline_svg(path.read_text("utf-8"), block.name, f"{block.title}. {block.caption}")
    return f"""<figure id="{block.name.replace("_", "-")}">
<div class="drawing" tabindex="0" role="group" aria-label="{escape(block.title)}">
{drawing}
</div>
<figcaption><b>{escape(block.title)}.</b> {_text(block.caption)}</figcaption>
</figure>"""


def _table(block: TableBlock) -> str:
    head = "".join(_heading(text, index, block) for index, text in enumerate(block.header))
    rows = "\n".join(
        f"<tr{' class=group' if index in block.rules else ''}>"
        + "".join(_cell(cell, column, block) for column, cell in enumerate(row))
        + "</tr>"
        for index, row in enumerate(block.rows)
    )
    hint = " Select a heading to sort." if block.sortable else ""
    return f"""<div class="table" tabindex="0" role="group" aria-label="{escape(block.name)}">
<table{' class="sortable"' if block.sortable else ""}>
<caption><div><b>{escape(block.name)}.</b> {_text(block.caption)}<span class="screen">{hint}</span></div></caption>
<thead><tr>{head}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
</div>"""


def _heading(text: str, index: int, block: TableBlock) -> str:
    kind = "label" if index < block.labels or index in block.prose else "number"
    content = f'<button type="button">{escape(text)}</button>' if block.sortable else escape(text)
    return f'<th scope="col" class="{kind}">{content}</th>'


def _cell(cell: Cell, column: int, block: TableBlock) -> str:
    text = escape(cell.text)
    if cell.strong:
        text = f"<b>{text}</b>"
    elif cell.emphasis:
        text = f"<i>{text}</i>"
    if column in block.prose:
        note = f"<small>{escape(cell.note)}</small>" if cell.note else ""
        return f'<td class="prose">{text}{note}</td>'
    if block.notes and column >= block.labels:
        # An empty note takes the same width, which aligns the numbers of a column.
        text += f" <small>{escape(cell.note)}</small>"
    kind = ("name" if block.prose else "label") if column < block.labels else "number"
    return f'<td class="{kind}">{text}</td>'
