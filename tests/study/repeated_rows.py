"""Tables whose rows differ in few columns, made column by column: a dictionary for each row takes far longer."""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa


def repeated(row: Mapping[str, object], columns: Mapping[str, Any]) -> pa.Table:
    """Return a table of that row, repeated, with these columns beside its values or in their place."""
    count = len(next(iter(columns.values())))
    return pa.table({name: [value] * count for name, value in row.items()} | dict(columns))


def joined(tables: Iterable[pa.Table]) -> pa.Table:
    """Return the tables one below the other; a column without values in one has the type that it has in others."""
    return pa.concat_tables(tables, promote_options="default")
