"""The bounds: maps of a metric's value that depend on the list's size (thesis chapter 3).

A bound is applied to the metric itself; a loss is negated afterwards where higher is better. To add a bound, define a
class in a module of this package.
"""

from rankbound.bounds.kinds.base import Bound, Facts
from rankbound.texts import build, named_kinds, split_text, unknown_name

KINDS: dict[str, type[Bound]] = dict(named_kinds(__name__, Bound))


def bound(text: str | Bound) -> Bound:
    """Return the bound that `text` names: none, min-max, expectation, expectation-max, distribution(gain=sd), ...

    Args:
        text: the text, or a bound, which is returned unchanged.

    Returns:
        The bound; `str` gives its text.

    Raises:
        ValueError: for an unknown name (the message suggests the nearest one), gain or parameter, or a tilt that isn't
            above 0.

    >>> str(rb.bound("distribution(gain=sd)"))
    'distribution(gain=sd)'
    """
    if isinstance(text, Bound):
        return text
    name, parameters, cutoff = split_text(text, "bound")
    if name not in KINDS:
        raise unknown_name("bound", text, name, KINDS)
    return build(KINDS[name], text, parameters, cutoff, "bound")


__all__ = ["Bound", "Facts", "bound"]
