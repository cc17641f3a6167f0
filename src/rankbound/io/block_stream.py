"""Blocks of bytes as a stream."""

import io
from collections.abc import Iterator


class BlockStream(io.RawIOBase):
    """A raw stream over blocks of any size."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self._block = blocks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]
        while not self._block:
            if (block := next(self._blocks, None)) is None:
                return 0
            self._block = memoryview(block)
        count = min(len(buffer), len(self._block))
        buffer[:count] = self._block[:count]
        self._block = self._block[count:]
        return count
