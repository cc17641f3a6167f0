"""The questions by name; each is a module with TITLE, ABOUT, SETTINGS and `measure(run)`."""

from importlib import import_module
from typing import Protocol, cast

from benchmarks.rows import Row
from benchmarks.run import Run

NAMES = ("loss", "ragged", "short", "memory", "evaluation", "distributions", "letor", "boosting")

ALLOCATORS = {
    "default": {},
    "kept": {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**30)},
}
"""Setting -> environment of the process. glibc returns large tensors to the system after every use, and each new one
costs a page fault per page; `kept` makes it keep up to a gigabyte, for all contenders."""


class Question(Protocol):
    """A module that answers one question: heading, description (Markdown) and allocator settings."""

    TITLE: str
    ABOUT: str
    SETTINGS: tuple[str, ...]

    @staticmethod
    def measure(run: Run) -> list[Row]:
        """Return the measured rows, ours first within each size."""


def question(name: str) -> Question:
    """Return the question of that name."""
    return cast(Question, import_module(f"benchmarks.{name}"))
