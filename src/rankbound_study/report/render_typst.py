"""Render the report as a PDF with Typst from PyPI: offline, with its own fonts; equal content gives equal bytes."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from rankbound.io.atomic import atomic_path
from rankbound_study.report.blocks import Document, FigureBlock, Paragraph, TableBlock, typeset
from rankbound_study.results.made_files import reading

_TEMPLATE = r"""
#let content = json("content.json")
#let page-of-rows = 50
#let page-of-prose = 15
#let many-columns = 10
#let muted = rgb("#5f5f5f")
#let accent = rgb("#00629b")
#let warn = rgb("#a8480b")
#let notice = text(fill: warn, weight: "bold")[SYNTHETIC DATA]

#set document(title: content.title, author: "rankbound", date: none)
#set page(
  paper: "a4",
  margin: (x: 16mm, top: 20mm, bottom: 18mm),
  header: context {
    set text(8.5pt, fill: muted)
    if content.synthetic or counter(page).get().first() > 1 {
      grid(columns: (1fr, auto), content.title, if content.synthetic { notice })
    }
  },
  footer: context align(center, text(8.5pt, fill: muted, counter(page).display("1 / 1", both: true))),
)
#set text(font: "Libertinus Serif", size: 10.5pt, lang: "en")
#set par(justify: true, leading: 0.62em)
#show heading.where(level: 1): it => block(above: 1.8em, below: 0.9em, text(15pt, it.body))
#show figure.caption: it => align(left, text(9pt, fill: muted, it.body))
#show figure.where(kind: table): set align(left)
#show table: set text(8.3pt)
#show table: set par(justify: false)

#show regex("`[^`]+`"): it => text(font: "DejaVu Sans Mono", size: 0.86em, it.text.slice(1, it.text.len() - 1))

#let cell(value, room, prose) = {
  let body = value.text
  if value.strong { body = strong(body) } else if value.emphasis { body = emph(body) }
  body
  if prose { if value.note != "" { linebreak() + text(0.88em, fill: muted, value.note) } }
  else if room > 0 { h(0.35em) + box(width: room * 0.35em, align(left, text(0.82em, fill: muted, value.note))) }
}

#let data-table(item) = {
  let columns = item.header.len()
  let sides = range(columns).map(index => if index < item.labels or index in item.prose { left } else { right })
  show table: set text(7.4pt) if columns >= many-columns
  show figure: set block(breakable: item.rows.len() > (if item.prose.len() > 0 { page-of-prose } else { page-of-rows }))
  figure(
    kind: table,
    supplement: none,
    caption: figure.caption(position: top, [#strong[#item.name.] #item.caption]),
    table(
      columns: item.widths.map(width => if width == 0 { auto } else { width * 1fr }),
      align: sides,
      stroke: none,
      inset: (x: 3.2pt, y: 2.1pt),
      table.hline(stroke: 0.8pt),
      table.header(..item.header.map(text => strong(text))),
      table.hline(stroke: 0.5pt),
      ..item.rows.enumerate().map(((index, row)) => (
        ..if index > 0 and index in item.rules { (table.hline(stroke: 0.3pt + luma(170)),) },
        ..row.enumerate().map(((column, value)) =>
          cell(value, item.room * int(column >= item.labels), column in item.prose)),
      )).flatten(),
      table.hline(stroke: 0.8pt),
    ),
  )
}

#let drawing(item) = figure(
  image(item.file, alt: item.title + ". " + item.caption, width: 100%),
  kind: image,
  supplement: none,
  caption: [#strong[#item.title.] #item.caption],
)

#block(below: 0.8em, text(9pt, fill: accent, weight: "bold", tracking: 0.1em)[RANKBOUND])
#block(above: 0.8em, below: 1em, {
  set par(justify: false, leading: 0.4em)
  text(21pt, weight: "bold", hyphenate: false, content.title)
})
#block(below: 1.2em, text(11pt, fill: muted, content.subtitle))
#if content.synthetic {
  rect(stroke: 1.2pt + warn, radius: 3pt, inset: 8pt, width: 100%)[#notice These lists and labels were generated to try
    out the workflow. They say nothing about MovieLens, MQ2008 or the thesis.]
}

#for section in content.sections {
  // Columns that began low on a page would be balanced into its last lines.
  if section.columns > 1 { pagebreak(weak: true) }
  heading(level: 1, section.title)
  if section.text != "" { par(section.text) }
  for (index, finding) in section.findings.enumerate() {
    block(breakable: false, grid(
      columns: (1.6em, 1fr),
      text(fill: accent, weight: "bold", str(index + 1)),
      [
        #strong(finding.headline) \ #text(9.5pt, fill: muted, finding.detail)
        #if finding.rows.len() > 0 {
          table(
            columns: finding.header.len(),
            align: (index, _) => if index == 0 { left } else { right },
            stroke: none,
            inset: (x: 5pt, y: 1.8pt),
            table.header(..finding.header.map(text => strong(text))),
            table.hline(stroke: 0.4pt),
            ..finding.rows.flatten(),
          )
        }
      ],
    ))
    v(0.35em)
  }
  let body = {
    for item in section.blocks {
      if item.kind == "paragraph" { par[#strong[#item.title.] #item.text] }
      else {
        if item.kind == "table" { data-table(item) } else { drawing(item) }
        v(0.6em)
      }
    }
  }
  if section.columns > 1 { columns(section.columns, gutter: 8mm, body) } else { body }
}
"""


def write(document: Document, figures: Path, path: Path) -> None:
    """Write the PDF; figures are read from `figures`/NAME.pdf or, failing that, NAME.svg.

    The file's date is the start of Unix time, so its bytes depend only on the content.
    """
    import typst

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "main.typ").write_text(_TEMPLATE, "utf-8")
        content = json.dumps(_content(document, figures, folder), ensure_ascii=False)
        (folder / "content.json").write_text(typeset(content), "utf-8")
        with reading(figures):
            compiled = typst.compile(folder / "main.typ", root=folder, ignore_system_fonts=True, timestamp=0)
    with atomic_path(path) as temporary:
        temporary.write_bytes(compiled)


def _content(document: Document, figures: Path, folder: Path) -> dict[str, Any]:
    return {
        "title": document.title,
        "subtitle": document.subtitle,
        "synthetic": document.synthetic,
        "sections": [
            {
                "title": section.title,
                "text": section.text,
                "findings": [vars(each) for each in section.findings],
                "columns": section.columns,
                "blocks": [_block(block, figures, folder) for block in section.blocks],
            }
            for section in document.sections
        ],
    }


def _block(block: TableBlock | FigureBlock | Paragraph, figures: Path, folder: Path) -> dict[str, Any]:
    if isinstance(block, Paragraph):
        return {"kind": "paragraph", "title": block.title, "text": block.text}
    if isinstance(block, TableBlock):
        return {
            "kind": "table",
            "name": block.name,
            "caption": block.caption,
            "header": block.header,
            "labels": block.labels,
            "room": max((len(row[column].note) for row in block.rows for column in _numbers(block)), default=0),
            "rules": sorted(block.rules),
            "prose": sorted(block.prose),
            "widths": _widths(block),
            "rows": [[vars(cell) for cell in row] for row in block.rows],
        }
    source = next(path for suffix in (".pdf", ".svg") if (path := figures / f"{block.name}{suffix}").exists())
    shutil.copyfile(source, folder / source.name)
    return {"kind": "figure", "title": block.title, "caption": block.caption, "file": source.name}


def _numbers(block: TableBlock) -> list[int]:
    return [column for column in range(block.labels, len(block.header)) if column not in block.prose]


def _widths(block: TableBlock) -> list[float]:
    """Return the columns' relative widths: shares of the free width for prose, 0 for a column as wide as its text."""
    lengths = {
        column: max(1.0, sum(len(row[column].text) for row in block.rows) / max(1, len(block.rows)))
        for column in block.prose
    }
    least = min(lengths.values(), default=1.0)
    return [min(_WIDEST, lengths[column] / least) if column in lengths else 0 for column in range(len(block.header))]


_WIDEST = 1.8
"""Largest width of a column of prose, relative to the one with the shortest texts."""
