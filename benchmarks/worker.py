"""Run one question in a separate process: `python -m benchmarks.worker QUESTION OUT.csv [--quick] [--no-peers]`.

The environment sets the allocator and the number of threads before the process starts.
"""

import sys
import warnings
from pathlib import Path

from benchmarks.questions import question
from benchmarks.rows import write_rows
from benchmarks.run import Run


def main(name: str, out: str, *flags: str) -> None:
    """Measure a question, and write its rows."""
    # Ignore deprecation warnings of the peers.
    warnings.simplefilter("ignore")
    run = Run(quick="--quick" in flags, peers="--no-peers" not in flags, label=Path(out).stem)
    write_rows(Path(out), question(name).measure(run))


if __name__ == "__main__":
    main(*sys.argv[1:])
