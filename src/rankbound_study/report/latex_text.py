"""Text as LaTeX sets it."""

_SPECIAL = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    "\N{NO-BREAK SPACE}": "~",
    "–": "--",
    "…": r"\ldots{}",
    "<": "$<$",
    ">": "$>$",
    "−": "$-$",
    "±": r"$\pm$",
    "²": "$^2$",
    "≥": r"$\ge$",
    "≤": r"$\le$",
    "×": r"$\times$",
    "▲": r"$\uparrow$",
    "▼": r"$\downarrow$",
}


def escaped(text: str) -> str:
    """A text whose characters LaTeX would read as commands, or does not know, are written as it wants them."""
    return "".join(_SPECIAL.get(character, character) for character in text)
