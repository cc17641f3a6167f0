"""Reports as text, Markdown, LaTeX, JSON and CSV."""

import csv
import io
import json
import math
import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rankbound.compare.report import TEXT_COLUMNS, Report, ReportTable, how, notes_of, tables_of, tests_of
from rankbound.texts import printable

_WIDTH = 200
"""Width of the tables in characters, enough for all columns."""

_LATEX = {letter: f"\\{letter}" for letter in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
}
_SIGNED = re.compile(r"(?<![\w.])[+-](?=\d)")


def as_text(report: Report) -> str:
    """Render a report as text: tables of differences, of seeds and of margin tests, then notes."""
    tables = [f"{table.title}\n{_text_table(table)}".lstrip("\n") for table in tables_of(report)]
    notes = [*(f"* {printable(note)}" for note in notes_of(report)), *how(report)]
    return "\n\n".join([f"A: {printable(report.a)}\nB: {printable(report.b)}", *tables, "\n".join(notes)])


def as_markdown(report: Report) -> str:
    """Render a report as Markdown tables and a list of notes."""
    parts = [f"A: {_markdown(report.a)}  \nB: {_markdown(report.b)}"]
    for table in tables_of(report):
        parts += [f"**{table.title}**"] if table.title else []
        rule = [":--" if name in TEXT_COLUMNS else "--:" for name, _ in table.columns]
        rows = [[_markdown(cell) for cell in row] for row in _cells(table)]
        parts.append("\n".join(f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:])))
    parts.append("\n".join(f"- {_markdown(note)}" for note in (*notes_of(report), *how(report))))
    return "\n\n".join(parts)


def as_latex(report: Report) -> str:
    """Render a report as LaTeX: `tabular`s with the rules of the package booktabs, then notes."""
    parts = [f"A: {_latex(report.a)}\\\\\nB: {_latex(report.b)}"]
    for table in tables_of(report):
        parts += [rf"\paragraph{{{_latex(table.title)}}}"] if table.title else []
        kinds = "".join("l" if name in TEXT_COLUMNS else "r" for name, _ in table.columns)
        header, *rows = [" & ".join(map(_latex, row)) + r" \\" for row in _cells(table)]
        body = "\n".join([r"\toprule", header, r"\midrule", *rows, r"\bottomrule"])
        parts.append(f"\\begin{{tabular}}{{{kinds}}}\n{body}\n\\end{{tabular}}")
    return "\n\n".join([*parts, *map(_latex, (*notes_of(report), *how(report)))])


def as_json(report: Report) -> str:
    """Render a report as JSON: numbers with all their digits, null if undefined."""
    rows = [{"cell": row.cell, "metric": row.metric, **row.key, **_plain(asdict(row.found))} for row in report.rows]
    settings = {**asdict(report.settings), "family": f"the {tests_of(report)} of this report"}
    del settings["higher_is_better"]
    content = {"a": report.a, "b": report.b, "settings": settings, "comparisons": rows, "notes": list(report.notes)}
    return json.dumps(content, indent=2, ensure_ascii=False)


def as_csv(report: Report) -> str:
    """Render a report as CSV: a row per comparison, nested fields in columns such as `effect.wins`."""
    rows = flat_rows(report)
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().rstrip("\n")


def flat_rows(report: Report) -> list[dict[str, Any]]:
    """Return a row per comparison, with nested fields as `effect.wins`."""
    return [{"cell": row.cell, "metric": row.metric, **_flat(_plain(asdict(row.found)))} for row in report.rows]


def _cells(table: ReportTable) -> Iterator[list[str]]:
    """Yield the header and the rows, with characters escaped that a terminal acts on."""
    yield [printable(name) for name, _ in table.columns]
    yield from ([printable(show(row)) for _, show in table.columns] for row in table.rows)


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", printable(text))


def _latex(text: str) -> str:
    escaped = "".join(_LATEX.get(letter, letter) for letter in printable(text))
    return _SIGNED.sub(lambda sign: f"${sign[0]}$", escaped)


def _text_table(content: ReportTable) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    header, *rows = _cells(content)
    for name in header:
        of_text = name in TEXT_COLUMNS
        table.add_column(name, justify="left" if of_text else "right", no_wrap=not of_text)
    for row in rows:
        # Escape the brackets of intervals, which rich reads as markup.
        table.add_row(*(cell.replace("[", r"\[") for cell in row))
    console = Console(file=io.StringIO(), width=_WIDTH, color_system=None)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().rstrip("\n").split("\n"))


def _plain(value: Any) -> Any:
    """Replace NaN and inf by None."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = " | ".join(value) if isinstance(value, list) else value
    return flat
