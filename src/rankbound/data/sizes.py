"""The sizes (N items, P relevant) of the lists that a study trains on and evaluates."""

import os
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rankbound.data.contracts import read_table

_LIST = ("dataset", "nsr", "fold", "topic")


def list_sizes(paths: Sequence[str | os.PathLike[str]]) -> list[tuple[int, int]]:
    """Distinct (N, P), ascending, 0 < P < N, of the lists of instances files.

    Every list as it stands, and each topic's training and validation lists of a fold as one: the published protocol
    trains on both.
    """
    found: set[tuple[int, int]] = set()
    for path in paths:
        sizes = _sizes(read_table(path, "instances", ["split", *_LIST, "relevance"]))
        known = sizes.filter(pc.is_in(sizes.column("split"), pa.array(["train", "validation"])))
        merged = known.group_by(list(_LIST)).aggregate([("n", "sum"), ("p", "sum")])
        for n, p in ((sizes["n"], sizes["p"]), (merged["n_sum"], merged["p_sum"])):
            found.update(zip(n.to_pylist(), p.to_pylist(), strict=True))
    return sorted((n, p) for n, p in found if 0 < p < n)


def _sizes(table: pa.Table) -> pa.Table:
    """The table with the columns n and p instead of the relevance lists."""
    relevance = table.column("relevance").combine_chunks()
    if isinstance(relevance, pa.ChunkedArray):
        relevance = pa.concat_arrays(relevance.chunks)
    offsets = relevance.offsets.to_numpy().astype(np.int64)
    before = np.concatenate([[0], np.cumsum(relevance.values.to_numpy() > 0)])
    counts = {"n": np.diff(offsets), "p": before[offsets[1:]] - before[offsets[:-1]]}
    columns = {name: table.column(name) for name in ("split", *_LIST)}
    return pa.table({**columns, **{name: pa.array(values, pa.int64()) for name, values in counts.items()}})
