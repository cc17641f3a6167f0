"""Tables that are read in batches of another size."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from rankbound.io import tables, text_files


@contextmanager
def batches_of(size: int) -> Iterator[None]:
    """Batches of so many bytes."""
    with (
        patch.object(text_files.read_chunks, "__defaults__", (size,)),
        patch.object(tables, "BATCH_BYTES", size),
    ):
        yield
