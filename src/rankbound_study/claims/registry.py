"""The claims, and what decides each: an entry of one of the declared shapes, or a function of a module of this package.

A shape is a kind of differences (of means, of shares of lists, correlations, ...) that a module registers with `shape`;
an entry of `claims.yaml` names one, with its arguments, the rule on the family of differences, and the deciding one.
"""

import math
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from importlib import import_module
from importlib.resources import files
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any, TypeVar

from rankbound_study.claims.evidence import COLLAPSE, Cell, Contrast, Evidence
from rankbound_study.claims.rules import DECIDING, RULES, Family, Sample, among, collapsed, sample_of_most, together
from rankbound_study.claims.thesis_theorems import THEOREMS
from rankbound_study.claims.verdicts import INCONCLUSIVE, NOT_RUN, NOT_TESTABLE, MissingEvidence, Ruling, Untrained

Decider = Callable[[Evidence], Ruling]
"""Decides a claim: in numbers, or in words of its own where the claim's do not fit."""
Facts = Mapping[str, object]
Shape = TypeVar("Shape", bound=Callable[..., Mapping[Any, Contrast] | tuple[Mapping[Any, Contrast], Facts]])
"""Finds differences in a study's results, by the arguments of an entry, and what its sentences name beside
`rules.FACTS`, if anything."""

_DECIDERS: dict[str, Decider] = {}
_SHAPES: dict[str, Callable[..., Any]] = {}


@dataclass(frozen=True)
class Claim:
    """A claim of a source: an entry of `reference/claims.yaml`, whose order and groups are those of every table.

    Attributes:
        id, group, source, claim: its name, its group, where it is made, and what it says.
        kind: theorem, empirical, definition.
        datasets, how_to_test, printed_evidence: what it is about, how it is decided, and the numbers of the source.
        reason: the sentence of the verdict; names in braces are facts of the ruling.
        statistic: the meaning of the deciding number, with the same names; empty for theorems that hold in every case.
        shown_in: names of the tables and figures that show it, separated by spaces.
        asides: parts of the sentence, `{if_NAME}`, that are left out if the fact of that name is zero.
        shape: its parts by the name of their shape, with the arguments of `decide_by_shape`, the deciding part first;
            empty if a function decides.
    """

    id: str
    group: str
    source: str
    claim: str
    how_to_test: str
    kind: str = "empirical"
    datasets: str = "none"
    printed_evidence: str = ""
    reason: str = ""
    statistic: str = ""
    shown_in: str = ""
    asides: Mapping[str, str] = field(default_factory=dict)
    shape: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@cache
def claims() -> list[Claim]:
    """Return all claims by weight: those that decide the main question first, definitions and examples last."""
    import yaml  # type: ignore[import-untyped]

    text = files("rankbound_study.reference").joinpath("claims.yaml").read_text("utf-8")
    names = {one.name for one in fields(Claim)}
    return [
        Claim(group=group, **{name: row.pop(name) for name in names & set(row)}, shape=row)
        for group, rows in yaml.safe_load(text).items()
        for row in rows
    ]


def decides(claim: str) -> Callable[[Decider], Decider]:
    """Register the decorated function as the one that decides a claim."""

    def register(decider: Decider) -> Decider:
        if claim in _DECIDERS:
            raise ValueError(f"{claim} is decided twice: by {_DECIDERS[claim]} and by {decider}")
        _DECIDERS[claim] = decider
        return decider

    return register


def shape(found: Shape) -> Shape:
    """Register the decorated function as the shape of claims of its name."""
    _SHAPES[found.__name__] = found
    return found


@cache
def deciders() -> Mapping[str, Decider]:
    """Import all modules of this package; return what decides each claim."""
    package = __name__.rpartition(".")[0]
    for found in iter_modules(import_module(package).__path__):
        import_module(f"{package}.{found.name}")
    for one in claims():
        if one.shape:
            decides(one.id)(partial(decide_by_parts, parts=one.shape))
    for claim, ruling in THEOREMS.items():
        decides(claim)(lambda evidence, ruling=ruling: ruling())  # type: ignore[misc]
    return _DECIDERS


def decide(evidence: Evidence, theorems: Mapping[str, Ruling] = MappingProxyType({})) -> Iterator[tuple[Claim, Ruling]]:
    """Yield every claim with its verdict; those on `theorems` are known."""
    for claim in claims():
        try:
            known = theorems.get(claim.id)
            yield claim, verdict_on(claim.id, evidence) if known is None else in_words(claim.id, known)
        except Untrained as untrained:
            yield claim, Ruling(INCONCLUSIVE, reason=f"{untrained}.")
        except MissingEvidence as missing:
            yield claim, Ruling(NOT_RUN, reason=str(missing))


def verdict_on(claim: str, evidence: Evidence) -> Ruling:
    """Decide one claim; the reason counts the cells that are left out because they did not train.

    Raises:
        MissingEvidence: the results cannot decide it.
        Untrained: they cannot, because models did not train: their runs would decide it.
    """
    decider, evidence = deciders()[claim], evidence.for_one_claim()
    try:
        verdict = decider(evidence)
    except MissingEvidence as missing:
        if not isinstance(missing, Untrained):
            _require_trained(decider, evidence, missing)
        raise
    if verdict.verdict == NOT_TESTABLE:
        _require_trained(decider, evidence)
    verdict = in_words(claim, verdict)
    if not evidence.left_out:
        return verdict
    count, names = len(evidence.left_out), among(sorted(evidence.left_out))
    of_cells = "cell is left out because it" if count == 1 else "cells are left out because they"
    return replace(verdict, reason=f"{verdict.reason} {count} {of_cells} did not train{names}.")


def in_words(claim: str, ruling: Ruling) -> Ruling:
    """Put a ruling without words into the sentences of its claim, which may also name `COLLAPSE`."""
    if ruling.reason:
        return ruling
    own = next(one for one in claims() if one.id == claim)
    facts: ChainMap[str, object] = ChainMap({}, ruling.facts, {"COLLAPSE": COLLAPSE})  # type: ignore[arg-type]
    for name, text in own.asides.items():
        facts[f"if_{name}"] = text.format_map(facts) if facts[name] else ""
    reason, statistic = own.reason.format_map(facts), own.statistic.format_map(facts)
    return replace(ruling, reason=reason, statistic=statistic, shown_in=own.shown_in)


def _require_trained(decider: Decider, evidence: Evidence, missing: MissingEvidence | None = None) -> None:
    """Raise Untrained for a claim that the runs of models that did not train would decide."""
    names, is_decided = sorted(evidence.left_out) or evidence.untrained(), False
    with suppress(MissingEvidence):
        is_decided = bool(names) and decider(evidence.of_all_trainings()).verdict != NOT_TESTABLE
    if is_decided:
        raise Untrained(f"The models that would decide it did not train{among(names)}") from missing


def decide_by_parts(evidence: Evidence, parts: Mapping[str, Mapping[str, Any]]) -> Ruling:
    """Decide a claim whose parts must all hold: numbers are those of the first, whose sentences name the others' facts.

    `parts` are arguments of `decide_by_shape` by the name of their shape, or by another one beside the key `shape`.
    """
    first, *others = (decide_by_shape(evidence, **{"shape": name, **part}) for name, part in parts.items())
    if not others:
        return first
    named = {name: one.facts for name, one in zip([*parts][1:], others, strict=True)}
    facts: ChainMap[str, object] = ChainMap(named, first.facts)  # type: ignore[arg-type]
    return replace(first, verdict=together(first.verdict, *(one.verdict for one in others)), facts=facts)


def decide_by_shape(
    evidence: Evidence,
    shape: str,
    rule: str,
    deciding: str = "",
    share: str = "",
    *,
    limit: float = math.nan,
    matters: float = math.nan,
    of_topics: bool = False,
    of_all_trainings: bool = False,
    plans: bool = True,
    without_collapsed: bool = False,
    **axes: Any,
) -> Ruling:
    """Decide a claim about differences (or slopes, or correlations), all of which are tested as one family.

    Args:
        evidence: the study's results.
        shape: the name of a registered shape, which finds the differences.
        rule: one of `rules.RULES`.
        deciding: one of `rules.DECIDING`, which picks the deciding difference.
        share: of a claim about most differences, which has no deciding one: the fact that counts those for which it
            holds.
        limit: with which the rule compares the differences.
        matters: the smallest difference that matters, of what is no difference in a metric.
        of_topics: the verdict's number of units is that of topics instead of differences.
        of_all_trainings: models that did not train count, too.
        plans: an inconclusive verdict has the sample that would decide it.
        without_collapsed: cells whose training collapsed do not count; the sentences name how many, and what the
            verdict would be with them.
        axes: arguments of the shape.
    """
    verdict_on_family, evidence = RULES[rule], evidence.of_all_trainings() if of_all_trainings else evidence
    found = _SHAPES[shape](evidence, **axes)
    differences, own_facts = found if isinstance(found, tuple) else (found, {})
    family = every = Family(differences, limit)
    facts: dict[str, Any] = {}
    if without_collapsed:
        cell_of = {key: getattr(key, "cell", key) for key in every.contrasts}
        fallen = collapsed(evidence.contrasts(dict.fromkeys(cell_of.values())))
        facts = {"fallen": len(fallen), "with_all": verdict_on_family(every), "of_all": every.facts({})}
        family = every.without([key for key, cell in cell_of.items() if cell in fallen])
    verdict, facts = verdict_on_family(family), family.facts({**facts, **own_facts})
    if share:
        sample = sample_of_most(family.contrasts)
        return Ruling(verdict, facts, facts[share] / len(family), n=len(family), sample=sample)
    key = DECIDING[deciding](family if len(family) else every)
    decisive = every.contrasts[key]
    return Ruling(
        verdict,
        family.facts({**facts, "at_deciding": key}),
        *decisive.measured,
        decisive.n if of_topics else len(family),
        Sample.of(decisive, matters) if decisive.n and plans and max(matters, decisive.margin) > 0 else None,
    )


@shape
def differences(evidence: Evidence, **axes: Any) -> Mapping[Cell, Contrast]:
    """Return bounded minus unbounded in the distinct cells of some axes (default: Table 5.1)."""
    return evidence.contrasts(evidence.cells(**axes))
