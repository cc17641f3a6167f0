"""Texts that come from files of others, for a terminal: nothing that it acts on or hides, and no endless lines."""

import unicodedata

LONGEST = 2000
"""Characters of a line of a message; longer ones lose their middle."""

LONGEST_VALUE = 80
"""Characters of a name or value in a message."""


def printable(text: str) -> str:
    r"""Return the text with all characters escaped that a terminal acts on or does not show, line breaks included.

    >>> print(printable("a\x1b[2J\n\u202eb"))
    a\x1b[2J\n\u202eb
    """
    if text.isprintable():
        return text
    return "".join(letter if _is_shown(letter) else letter.encode("unicode_escape").decode() for letter in text)


def printable_message(text: str, longest: int = LONGEST) -> str:
    """Return a message of one or several lines, each printable and of at most about `longest` characters."""
    return "\n".join(shortened(printable(line), longest) for line in text.split("\n"))


def quoted(value: object) -> str:
    """Return a value as it stands in a message: its representation, of at most about `LONGEST_VALUE` characters."""
    return shortened(repr(value), LONGEST_VALUE)


def shortened(text: str, longest: int) -> str:
    """Return the text, or its beginning and end with the number of characters between them.

    >>> shortened("abcdefghij", 4)
    'ab ... (6 more characters) ... ij'
    """
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} ... ({len(text) - 2 * half} more characters) ... {text[-half:]}"


def _is_shown(letter: str) -> bool:
    # Spaces of other widths are no line breaks.
    return letter.isprintable() or unicodedata.category(letter) == "Zs"
