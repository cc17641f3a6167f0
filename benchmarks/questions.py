"""The questions by name; each is a module with TITLE, ABOUT, SETTINGS and `measure(run)`."""

from importlib import import_module
from typing import Protocol, cast

from benchmarks.rows import Row
from benchmarks.run import Run

NAMES = ("loss", "ragged", "memory", "evaluation", "distributions", "letor")

ALLOCATORS = {
    "default": {},
    "kept": {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**30)},
}
"""Setting -> environment of the process. glibc gives large tensors back to the system after every use, and each new
one is paid for page by page; `kept` makes it keep up to a gigabyte, for everybody in the race."""


class Question(Protocol):
    """A module that answers one question: heading, what is compared (Markdown), allocator settings to run under."""

    TITLE: str
    ABOUT: str
    SETTINGS: tuple[str, ...]

    @staticmethod
    def measure(run: Run) -> list[Row]:
        """What was found, ours first within each size."""


def question(name: str) -> Question:
    """The question of that name."""
    return cast(Question, import_module(f"benchmarks.{name}"))
