r"""A reader of tables in LaTeX: their cells, if a paper can `\input` them as they are."""

import re

_COMMANDS = {
    *("textbf", "rlap", "footnotesize", "multicolumn", "dagger", "ddagger", "le"),
    *("textbackslash", "textasciitilde", "textasciicircum", "textbar"),
}
_TOKEN = re.compile(r"\\([A-Za-z]+|.)|(.)", re.DOTALL)


def tables_in(text: str) -> list[list[list[str]]]:
    """Return the cells of each `tabular`, small print included; AssertionError for anything else than comments."""
    lines = [line for line in text.split("\n") if line and not line.startswith("%")]
    tables: list[list[list[str]]] = []
    while lines:
        begin = re.fullmatch(r"\\begin\{tabular\}\{([lr]+)\}", lines.pop(0))
        assert begin, "a line outside of the tables"
        body = lines[: lines.index(r"\end{tabular}")]
        del lines[: len(body) + 1]
        assert body[0] == r"\toprule"
        assert body[2] == r"\midrule"
        assert body.count(r"\bottomrule") == 1
        rows = [_cells(line) for line in body if not line.endswith("rule")]
        below = len(body) - 1 - body.index(r"\bottomrule")
        for place, row in enumerate(rows):
            small = place >= len(rows) - below
            assert len(row) == (1 if small else len(begin[1])), row
            assert row[0].startswith(rf"\multicolumn{{{len(begin[1])}}}{{l}}{{\footnotesize ") == small
        tables.append(rows)
    return tables


def _cells(line: str) -> list[str]:
    assert line.endswith(r" \\"), line
    # At the beginning of a row, these letters would be options of the line before.
    assert line[0] not in "[*", line
    cells, depth, mathematics = [""], 0, False
    for command, letter in _TOKEN.findall(line[:-3]):
        if command:
            assert command in _COMMANDS or not command.isalpha(), command
            assert command.isalpha() or command in "&%$#_{}", command
        elif letter == "&":
            assert depth == 0
            assert not mathematics
            cells.append("")
            continue
        else:
            assert letter not in "#%_", line
            assert letter != "^" or mathematics, line
            depth += (letter == "{") - (letter == "}")
            mathematics ^= letter == "$"
            assert depth >= 0
        cells[-1] += f"\\{command}" if command else letter
    assert depth == 0, line
    assert not mathematics, line
    return [cell.strip() for cell in cells]
