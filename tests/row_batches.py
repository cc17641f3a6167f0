"""Tables that are read in batches of another size."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from rankbound.io import csv_chunks, table_batches, table_stream


@contextmanager
def batches_of(size: int) -> Iterator[None]:
    """Batches of so many bytes."""
    with (
        patch.object(csv_chunks.read_chunks, "__defaults__", (size,)),
        patch.object(table_batches, "BATCH_BYTES", size),
        patch.object(table_stream, "BATCH_BYTES", size),
    ):
        yield
