"""Tables of texts and numbers without further structure, as Markdown and LaTeX."""

from collections.abc import Iterable, Sequence

from rankbound_study.report.latex_text import escaped
from rankbound_study.results import number_texts

Rows = Iterable[Sequence[str]]


def markdown(heading: str, header: Sequence[str], rows: Rows, labels: int) -> str:
    """A pipe table below its heading; `labels` leading columns of text, then numbers."""
    numbers = len(header) - labels
    lines = [heading, "", f"| {' | '.join(header)} |", "|" + "---|" * labels + "---:|" * numbers]
    return "\n".join([*lines, *(f"| {' | '.join(cells)} |" for cells in rows)]) + "\n"


def latex(heading: str, header: Sequence[str], rows: Rows, labels: int) -> str:
    r"""A `tabular` for `booktabs` below a comment with the heading, to be put in with `\input`."""
    lines = [f"% {heading}", rf"\begin{{tabular}}{{{'l' * labels}{'r' * (len(header) - labels)}}}", r"\toprule"]
    lines += [_line(header), r"\midrule", *map(_line, rows)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def signed(value: float | None) -> str:
    """A difference to four places with its sign, a true minus; a dash for none."""
    return "–" if value is None else number_texts.signed(value).replace("-", "−")


def _line(cells: Sequence[str]) -> str:
    return " & ".join(map(escaped, cells)) + r" \\"
