"""Runs and their judgements, drawn at random, and the frames and files that hold them."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

Table = dict[str, dict[str, Any]]


def drawn_run(
    seed: int, topics: int, items: int, grades: Sequence[int], *, ties: bool = False, intents: bool = False
) -> tuple[Table, Table]:
    """Return a run and qrels with retrieved and unretrieved, judged and unjudged items.

    The first judged item of a topic has the last of the grades. Scores without ties are above 0.
    """
    random = np.random.default_rng(seed)
    pool = [f"d{item:02}" for item in range(items)]

    def some(values: Any) -> dict[str, Any]:
        chosen = random.permutation(pool)[: random.integers(1, items)].tolist()
        return dict(zip(chosen, values(len(chosen)).tolist(), strict=True))

    def judged() -> dict[str, int]:
        own = some(lambda count: random.choice(grades, count))
        return own | {next(iter(own)): grades[-1]}

    def scores(count: int) -> Any:
        return random.normal(size=count).round(random.integers(0, 4)) if ties else random.permutation(count) + 1.0

    names = [f"q{topic}" for topic in range(topics)]
    run = {name: some(scores) for name in names}
    return run, {n: {str(i): judged() for i in range(random.integers(1, 6))} if intents else judged() for n in names}


def without(table: Table, *places: int) -> Table:
    return {topic: items for place, (topic, items) in enumerate(table.items()) if place not in places}


def rows_of(table: Table) -> list[tuple[str, str, Any]]:
    return [(str(topic), item, value) for topic, items in table.items() for item, value in items.items()]


def frame_of(table: Table, column: str, dtype: Any = None) -> pl.DataFrame:
    topics, items, values = zip(*rows_of(table), strict=True)
    return pl.DataFrame({"topic": topics, "item": items, column: pl.Series(values, dtype=dtype)})


def file_of(path: Path, table: Table, line: str, end: str = "") -> Path:
    path.write_text("".join(line.format(*row) for row in rows_of(table)) + end)
    return path


def json_of(path: Path, table: Table) -> Path:
    path.write_text(json.dumps(table))
    return path


def interleaved(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the first rows of all topics, then the second ones, and so on."""
    return frame.sort(pl.int_range(pl.len()).over("topic"), maintain_order=True)


LINES = {"score": "{} Q0 {} 0 {!r} tag\n", "relevance": "{} 0 {} {}\n"}
DOORS: dict[str, Callable[[Table, str, Path], Any]] = {
    "dictionaries": lambda table, column, folder: table,
    "polars": lambda table, column, folder: frame_of(table, column),
    "pandas": lambda table, column, folder: frame_of(table, column).to_pandas(),
    "Arrow": lambda table, column, folder: frame_of(table, column).to_arrow(),
    "interleaved": lambda table, column, folder: interleaved(frame_of(table, column)),
    "JSON": lambda table, column, folder: json_of(folder / f"{column}.json", table),
    "TREC": lambda table, column, folder: file_of(folder / f"{column}.txt", table, LINES[column]),
}
"""Ways in which a run or its judgements come, from a table, the name of its values, and a folder for files."""
