"""The names that other tools use for metrics and losses: what they mean here, as a table.

A name with one meaning is read as that; a name with two is refused, unless the labels tell, and the message says how to
write each. `names.csv` has a row per meaning: `[@k]` marks a name that may have a cut-off, `@k` one that has to, and
`{x}` a number. `NDCG:type=Exp;[top=k]` has CatBoost's options, in brackets those that may be missing; `k` is a cut-off,
and `*` any value. Case, the signs between words, and a last word `loss` or `metric` don't count.

For documents that a run lacks or that are unjudged, see `rankbound.evaluation`.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from rankbound.texts import is_named, split_text, unknown_name

Value = TypeVar("Value")


@dataclass(frozen=True)
class Meaning:
    """A row of the table: what the `tools` call `name` is `ours`, or nothing here; the note says what it is."""

    kind: str
    tools: str
    name: str
    ours: str
    note: str

    def read(self, text: str) -> str | None:
        """Return what a text of this name means here, with its parameters and cut-off; None for another name."""
        if "{x}" in self.name:
            pattern = re.escape(self.name).replace(r"\{x\}", r"([\d.]+)")
            found = re.fullmatch(pattern, text.strip(), re.IGNORECASE)
            return found and self.ours.replace("{x}", found[1])
        if "=" in self.name or ":[" in self.name:
            (own, given), (name, expected) = _options(text), _options(self.name)
            needed = _options(self.name.partition("[")[0])[1]
            # When CatBoost computes a metric changes no value.
            given.pop("hints", None)
            cutoff = given.get("top", "-1")
            alike = all(expected.get(key) in (value, "*", "k") for key, value in given.items())
            if _letters(own) != _letters(name) or not alike or not needed.keys() <= given.keys():
                return None
            is_cutoff = re.fullmatch(r"-1|0*[1-9]\d*", cutoff)
            return self._cut("" if cutoff == "-1" else cutoff.lstrip("0")) if is_cutoff else None
        name, cut = re.fullmatch(r"(.+?)(\[@k\]|@k)?", self.name).groups()  # type: ignore[union-attr]
        own_letters = _letters(name).removesuffix(self.kind)
        for own, inside, cutoff in _readings(text):
            fits = cut == "[@k]" or bool(cut) == bool(cutoff)
            if fits and _letters(own).removesuffix(self.kind) == own_letters:
                return _with_parameters(self._cut(cutoff), inside) if self.ours else ""
        return None

    def _cut(self, cutoff: str) -> str:
        return re.sub(r"\[@k\]|@k", f"@{cutoff}" if cutoff else "", self.ours)

    def is_of(self, tool: str) -> bool:
        """Whether a tool, in any case, has this name."""
        return _letters(tool) in map(_letters, self.tools.split(", "))


class MeaningsError(ValueError):
    """A name that means several things, `meanings`."""

    def __init__(self, message: str, meanings: Collection[str]) -> None:
        super().__init__(message)
        self.meanings = meanings


class ByText(dict[str, Value]):
    """Results by the metrics' texts; other tools' names of the same metrics find them as well."""

    def __missing__(self, text: str) -> Value:
        own = [re.split("[(@]", one)[0] for one in self]
        texts = [*meanings_of("metric", text), *_of_case(text, own, "metric")]
        known = {one for one in texts if one in self}
        if len(known) != 1:
            raise KeyError(text)
        return self[known.pop()]


@cache
def table() -> tuple[Meaning, ...]:
    """Return all rows."""
    import csv
    from importlib.resources import files

    text = files("rankbound").joinpath("names.csv").read_text("utf-8")
    return tuple(Meaning(**row) for row in csv.DictReader(text.splitlines()))


def require_tool(names: str) -> None:
    """Raise a `ValueError` for `names` that are not those of a tool of the table."""
    if not any(row.is_of(names) for row in table()):
        tools = dict.fromkeys(tool for row in table() for tool in row.tools.split(", ") if "papers" not in tool)
        raise ValueError(f"names: found {names!r}, expected one of rankbound, {', '.join(tools)}")


def meanings_of(kind: str, text: str, tool: str = "") -> dict[str, Meaning]:
    """Return the texts here that another tool's name may mean, with their rows; none for an unknown one.

    A loss may also be named by the metric that it smooths. What one `tool` means counts alone, if it has the name.
    """
    for of in ("loss", "metric") if kind == "loss" else (kind,):
        rows = [(row, ours) for row in table() if row.kind == of and (ours := row.read(text)) is not None]
        rows = [(row, ours) for row, ours in rows if tool and row.is_of(tool)] or rows
        found: dict[str, Meaning] = {}
        for row, ours in rows:
            found.setdefault(ours, row)
        if found:
            return found
    return {}


def translated(kind: str, text: str, known: Collection[str], tool: str = "") -> str:
    """Return what a text means here whose name is none of the `known` ones: of another tool, or of another case.

    A `tool` whose names are meant decides between several meanings.

    Raises:
        ValueError: for an unknown name (the message suggests the nearest one), or one without a counterpart.
        MeaningsError: for a name with several meanings; the message says how to write each.
    """
    meanings = meanings_of(kind, text, tool)
    if tool and is_named(text, known) and not any(row.is_of(tool) for row in meanings.values()):
        return text
    meanings = meanings or {one: Meaning(kind, "", "", one, "") for one in _of_case(text, known, kind)}
    if len(meanings) == 1:
        ((ours, row),) = meanings.items()
        if not ours:
            raise ValueError(f"{kind} {text!r}: found a name of {row.tools} without a counterpart: {row.note}")
        return ours
    if meanings:
        ways = [
            f"{row.note} ({row.tools}): {f'write {ours}' if ours else 'not here'}" for ours, row in meanings.items()
        ]
        count = "two" if len(ways) == 2 else "several"
        raise MeaningsError(f"{kind} {text!r}: found a name with {count} meanings: {'; '.join(ways)}", meanings)
    if ":" in text and "=" in text:
        own = _letters(_options(text)[0])
        alike = [row.name for row in table() if row.kind == kind and _letters(_options(row.name)[0]) == own]
        if alike:
            expected = " or ".join(one for one in alike if ":" in one) or f"{alike[0]} alone"
            raise ValueError(f"{kind} {text!r}: found options without a counterpart, expected {expected}")
    name, *_ = split_text(text, kind)
    raise unknown_name(kind, text, name, known)


def _of_case(text: str, known: Iterable[str], kind: str) -> list[str]:
    """Return the text with a known name in place of one that differs from it by case and signs alone."""
    return [
        _with_parameters(one + (f"@{cutoff}" if cutoff else ""), inside)
        for own, inside, cutoff in _readings(text)
        for one in known
        if _letters(own).removesuffix(kind) == _letters(one).removesuffix(kind)
    ]


def _letters(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())


def _readings(text: str) -> list[tuple[str, str, str]]:
    """Return the ways to read a text as name, parameters and cut-off: `P_10` is P at 10, or a name with a number."""
    found = re.fullmatch(r"([A-Za-z][\w:.-]*?)(?:\((.*)\))?(?:([@_.])0*([1-9]\d*))?", text.strip())
    if found is None:
        return []
    name, inside, sign, cutoff = (part or "" for part in found.groups())
    return [(name, inside, cutoff), *([(f"{name}{sign}{cutoff}", inside, "")] if sign in ("_", ".") else [])]


def _options(text: str) -> tuple[str, dict[str, str]]:
    """Return the name of a text as CatBoost writes it, and its options: `NDCG:top=10;type=Exp`."""
    name, _, options = text.strip().partition(":")
    pairs = (option.partition("=") for option in re.split(r"[;\[\]]+", options.casefold()) if option)
    return name, {key.strip(): value.strip() for key, _, value in pairs}


def _with_parameters(ours: str, inside: str) -> str:
    """Return a text with the parameters that are given, in place of its own ones of the same names."""
    if not inside:
        return ours
    name, own, cutoff = split_text(ours)
    given = split_text(f"{name}({inside})")[1]
    written = ",".join(f"{key}={value}" for key, value in (own | given).items())
    return f"{name}({written})" + (f"@{cutoff}" if cutoff else "")
