"""Judgements by intent: a row says how relevant an item is to one intent (TREC: subtopic) of its topic."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
import polars as pl

from rankbound.errors import DataError
from rankbound.io.grouping import by_topic
from rankbound.io.judged import Intents, Qrels
from rankbound.texts import quoted


def qrels_by_intent(rows: pl.DataFrame, where: str) -> Qrels:
    """Return the judgements of rows with the columns topic, intent, item (all text) and relevance.

    The relevance of an item is the highest that it has to an intent; negative relevance, as in TREC qrels, marks an
    item that is not judged.

    Raises:
        DataError: an item is judged twice by one intent of a topic.
    """
    twice = rows.filter(pl.struct("topic", "intent", "item").is_duplicated())
    if len(twice):
        topic, intent, item = twice.select("topic", "intent", "item").row(0)
        raise DataError(
            f"{where}: item {quoted(item)} occurs more than once in intent {quoted(intent)} of topic {quoted(topic)}; "
            "expected each item once an intent"
        )
    key = ["topic", "item"]
    items = rows.group_by(key, maintain_order=True).agg(pl.col("relevance").max())
    topics, offsets, order = by_topic(items["topic"])
    items = (items if order is None else items[order]).with_row_index("row")
    intents = rows.select("topic", "intent").unique().sort("topic", "intent").with_row_index("number")
    judged = rows.join(items.select(*key, "row"), on=key).join(intents, on=["topic", "intent"]).sort("row", "number")
    relevance = items["relevance"].to_numpy()
    return Qrels(
        topics=topics,
        items=items["item"],
        relevance=relevance.clip(min=0),
        offsets=offsets,
        unjudged=relevance < 0 if (relevance < 0).any() else None,
        intents=Intents(
            item=judged["row"].cast(pl.Int64).to_numpy(),
            intent=judged["number"].cast(pl.Int64).to_numpy(),
            relevance=judged["relevance"].to_numpy(),
            names=intents["intent"].to_list(),
        ),
    )


def rows_of_intents(qrels: Qrels, intents: Intents) -> pl.DataFrame:
    """Return judgements by intent as rows with the columns topic, intent, item and relevance."""
    topic = np.repeat(np.arange(len(qrels.topics)), np.diff(qrels.offsets))[intents.item]
    return pl.DataFrame(
        {
            "topic": pl.Series(list(qrels.topics), dtype=pl.String)[topic],
            "intent": pl.Series(list(intents.names), dtype=pl.String)[intents.intent],
            "item": pl.Series(qrels.items)[intents.item].cast(pl.String),
            "relevance": pl.Series(intents.relevance),
        }
    )


def of_dictionaries(source: Mapping[Any, Mapping[Any, Any]]) -> Qrels:
    """Return the judgements of `{topic: {intent: {item: relevance}}}`; DataError for another value than a number."""
    rows = []
    for topic, intents in source.items():
        for intent, items in intents.items():
            if not isinstance(items, Mapping):
                raise DataError(
                    f"topic {topic!r}, intent {intent!r}: found {items!r}, expected {{item: relevance}}: judgements by "
                    "intent are {topic: {intent: {item: relevance}}}"
                )
            rows += [(topic, intent, item, _grade(topic, intent, item, value)) for item, value in items.items()]
    columns = [list(map(str, column)) for column in zip(*[row[:3] for row in rows], strict=True)] or [[], [], []]
    frame = pl.DataFrame(
        dict(zip(("topic", "intent", "item"), columns, strict=True)) | {"relevance": [row[3] for row in rows]},
        schema_overrides={"topic": pl.String, "intent": pl.String, "item": pl.String, "relevance": pl.Float64},
    )
    return qrels_by_intent(frame, "the judgements")


def _grade(topic: Any, intent: Any, item: Any, value: Any) -> float:
    if not isinstance(value, Real) or not 0 <= float(value) < float("inf"):
        raise DataError(
            f"topic {topic!r}, intent {intent!r}, item {item!r}: found relevance {value!r}, expected grades from 0"
        )
    return float(value)
