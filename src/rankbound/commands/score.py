"""`rankbound score`: score lists with a trained ranker."""

import argparse
from typing import TYPE_CHECKING, Any

from rankbound.commands import without_warnings
from rankbound.errors import naming, plain_errors

if TYPE_CHECKING:
    from rankbound.io.judged import Run

_AT_ONCE = (".json", ".jsonl", ".gz", ".bz2", ".zst")
"""Endings of runs that are written in one piece."""


def run(arguments: argparse.Namespace) -> None:
    """Score and write."""
    from rankbound.io.files import stream_lists, write_run, write_runs
    from rankbound.texts import quantity
    from rankbound.training.ranker import load

    ranker, parts, counts = load(arguments.model), None, [0, 0]
    columns = {name: getattr(arguments, name) for name in ("topic", "item", "relevance", "groups")}

    def scored(lists: Any, **named: Any) -> "Run":
        run = ranker.score_lists(lists, arguments.unknown, **named)
        counts[:] = counts[0] + len(run.items), counts[1] + len(run.topics)
        return run

    with naming(arguments.lists), plain_errors(), without_warnings():
        if ranker.vocabulary is None and not ranker.encoding.categories and arguments.out.suffix not in _AT_ONCE:
            keep = ranker.encoding.missing != "refuse"
            parts = stream_lists(arguments.lists, ranker.feature_names, keep_missing=keep, **columns)
        if parts is None:
            write_run(arguments.out, scored(arguments.lists, **columns), tag=arguments.tag)
        else:
            write_runs(arguments.out, map(scored, parts), tag=arguments.tag)
    items, topics = quantity(counts[0], "item"), quantity(counts[1], "topic")
    print(f"scored {items} of {topics}\nwrote {arguments.out}")
