"""The bounds: maps of a metric's value that know the list's size (thesis chapter 3).

A bound is applied to the metric itself; a loss negates afterwards where higher is better. A new bound is a class in a
module of this package.
"""

from rankbound.bounds.kinds.base import Bound, Facts
from rankbound.registry import named_kinds
from rankbound.texts import build, split_text, unknown_name

KINDS: dict[str, type[Bound]] = dict(named_kinds(__name__, Bound))


def bound(text: str | Bound) -> Bound:
    """The bound that `text` names: none, min-max, expectation, expectation-max, distribution, distribution(gain=sd).

    Raises:
        ValueError: for an unknown name, with the nearest known one, an unknown gain, or a tilt that is not above 0.
    """
    if isinstance(text, Bound):
        return text
    name, parameters, cutoff = split_text(text, "bound")
    if name not in KINDS:
        raise unknown_name("bound", text, name, KINDS)
    return build(KINDS[name], text, parameters, cutoff, "bound")


__all__ = ["Bound", "Facts", "bound"]
