r"""The predictions for other data that were registered before anything ran on them (docs/predictions.md), and outcomes.

A prediction is about the score of a loss under some weights of its lists, a bounding or the text of list weights, minus
its score under each of several others, paired by topic in the metric that judges the loss. These differences have one
limit, or two.

- held: every difference is significantly within the limits (an intersection-union test);
- not held: a difference is significantly outside a limit (Bonferroni over the differences and limits);
- undecided: neither;
- did not train: some of these models did not (`rankbound_study.results.trained`); their effect is shown and not tested.

Both p-values have Holm's correction over all predictions, those that did not run or train among them.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import polars as pl

from rankbound.compare.scores import SYSTEM, scores_of_frame
from rankbound_study.claims.cells import Contrast, contrast, enough, judge, place
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.rules import adjusted, by_p
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, NOT_RUN, REFUTED, MissingEvidence
from rankbound_study.config.data_sets import DataSet
from rankbound_study.results.study_files import schema
from rankbound_study.vocabulary import HONEST, LIST_WEIGHTS, SELECTIONS, UNBOUNDED

REGISTERED = "ae6681ce9b07effaf7fe538e5800dc806c1a2c2b"
"""The commit of the predictions, in which nothing had run; their file is the same since."""

HELD, NOT_HELD, UNDECIDED, UNTRAINED = "held", "not held", "undecided", "did not train"
_OUTCOMES = {CONFIRMED: HELD, REFUTED: NOT_HELD, INCONCLUSIVE: UNDECIDED}

_DECIDING = ("difference", "difference_low", "difference_high", "p_held", "p_not_held")
COLUMNS: dict[str, pl.DataType] = {
    **schema("text: id dataset; int8: nsr; text: loss weights against"),
    **dict.fromkeys(("above", "below", "size_low", "size_high", "effect", "low", "high"), pl.Float64()),
    "deciding": pl.String(),
    **dict.fromkeys(_DECIDING, pl.Float64()),
    "n_topics": pl.Int64(),
    "outcome": pl.String(),
    "as_sized": pl.Boolean(),
    "reason": pl.String(),
    "registered": pl.String(),
}
"""Columns of the table. `effect` is the difference from the loss without weights, and `as_sized` true where it lies in
the predicted range; `deciding` names the weights whose `difference` is the least shown or, where the prediction did not
hold, the one that refutes it most."""


@dataclass(frozen=True)
class Prediction:
    """A row of the file: `weights` minus each of `against` lies above `above` and below `below`.

    `size` is the predicted range of the effect over the loss without weights.
    """

    id: str
    dataset: str
    loss: str
    weights: str
    against: Sequence[str]
    size: Sequence[float]
    reason: str
    nsr: int | None = None
    above: float | None = None
    below: float | None = None

    def __post_init__(self) -> None:
        if not self.against or self.above is self.below is None:
            raise ValueError(f"prediction {self.id}: expected weights to compare with, and a limit: above or below")

    def p_held(self, one: Contrast) -> float:
        """Return the p-value that is small for a difference within the limits."""
        tests = (one.p_above, self.above), (one.p_below, self.below)
        return max(test(limit) for test, limit in tests if limit is not None)

    def p_not_held(self, one: Contrast) -> float:
        """Return the p-value that is small for a difference outside a limit, corrected for the number of tests."""
        tests = (one.p_below, self.above), (one.p_above, self.below)
        found = [test(limit) for test, limit in tests if limit is not None]
        return min(1.0, min(found) * len(found) * len(self.against))


@cache
def predictions() -> tuple[Prediction, ...]:
    """Return the registered predictions, in their order."""
    import yaml  # type: ignore[import-untyped]

    text = files("rankbound_study.reference").joinpath("predictions.yaml").read_text("utf-8")
    return tuple(Prediction(**row) for row in yaml.safe_load(text))


def differences(evidence: Evidence, of: Prediction) -> dict[str, Contrast]:
    """Return the differences of a prediction by the weights that are compared with, the loss without any among them.

    Raises:
        MissingEvidence: some weights did not run in any experiment, or there are too few topics for a test.
    """
    column, metric, parts = DataSet(of.dataset, of.nsr), judge(of.loss), []
    chosen = pl.col("loss") == of.loss, pl.col("selection") == SELECTIONS[HONEST]
    read = ("topic", "fold", "seed", "drawing", metric)
    for rows in evidence.variants("", *column).values():
        settings = rows.filter(*chosen).select("bounding", "options", *read).collect()
        for (bounding, options), part in settings.group_by("bounding", "options", maintain_order=True):
            weights = json.loads(str(options)).get(LIST_WEIGHTS, bounding)
            parts.append(part.select(*read, pl.lit(weights).alias(SYSTEM)))
    if not parts:
        raise MissingEvidence(f"no experiment has runs of {of.loss} on {column}")
    scores = scores_of_frame(pl.concat(parts), metric)
    found = {}
    for other in dict.fromkeys((UNBOUNDED, *of.against)):
        for name in (of.weights, other):
            place(scores, name, f"{of.loss} with {name} on {column}")
        both = scores.pair(of.weights, other)
        enough(len(both.units), f"of {column} with scores of {of.loss} with {of.weights} and {other}")
        found[other] = contrast(both)
    return found


def predictions_table(evidence: Evidence, every: Sequence[Prediction] | None = None) -> pl.DataFrame:
    """Return a row per prediction (default: the registered ones), with its outcome."""
    every = predictions() if every is None else every
    found: dict[str, Mapping[str, Contrast]] = {}
    untrained: dict[str, dict[str, Any]] = {}
    held, not_held = dict.fromkeys([one.id for one in every], 1.0), dict.fromkeys([one.id for one in every], 1.0)
    for one in every:
        try:
            found[one.id] = differences(evidence, one)
        except MissingEvidence:
            with suppress(MissingEvidence):
                effect = differences(evidence.of_all_trainings(), one)[UNBOUNDED]
                untrained[one.id] = {**_effect(effect), "outcome": UNTRAINED}
            continue
        held[one.id] = max(one.p_held(found[one.id][other]) for other in one.against)
        not_held[one.id] = min(one.p_not_held(found[one.id][other]) for other in one.against)
    held, not_held = adjusted(held), adjusted(not_held)
    rows = []
    for one in every:
        row: dict[str, Any] = {**vars(one), "against": ", ".join(one.against), "registered": REGISTERED}
        row |= {"outcome": NOT_RUN, **dict(zip(("size_low", "size_high"), one.size, strict=True))}
        if one.id in found:
            own, outcome = found[one.id], _OUTCOMES[by_p(held[one.id], not_held[one.id])]
            if outcome == NOT_HELD:
                deciding = min(one.against, key=lambda other: one.p_not_held(own[other]))
            else:
                deciding = max(one.against, key=lambda other: one.p_held(own[other]))
            numbers = (*own[deciding].measured, held[one.id], not_held[one.id])
            row |= {**_effect(own[UNBOUNDED]), **dict(zip(_DECIDING, numbers, strict=True)), "deciding": deciding}
            row |= {"outcome": outcome, "as_sized": one.size[0] <= own[UNBOUNDED].mean <= one.size[1]}
        rows.append(row | untrained.get(one.id, {}))
    return pl.DataFrame([{name: row.get(name) for name in COLUMNS} for row in rows], schema=COLUMNS)


def _effect(of: Contrast) -> dict[str, Any]:
    return {**dict(zip(("effect", "low", "high"), of.measured, strict=True)), "n_topics": of.n}
