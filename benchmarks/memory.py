"""Question 4: how much memory does one step of the loss need on one list of N items?

`python -m benchmarks.memory CONTENDER N` is the probe, a separate process, as a process may keep memory that it used.
"""

import os
import subprocess
import sys
import warnings
from pathlib import Path

from benchmarks.batches import one_list
from benchmarks.loss_contenders import ALL, OWN, LossContender
from benchmarks.peak_memory import added_peak
from benchmarks.rows import Row
from benchmarks.run import Run

TITLE = "Memory of the loss"
ABOUT = """\
The same step on one list in a process of its own: the highest resident memory during the step, less that before it,
when the libraries are loaded, the loss is compiled, a short list has been through it and the long list lies ready."""
SETTINGS = ("default", "kept")

SIZES = (8_000, 20_000, 100_000, 1_000_000)
_QUICK_SIZES = (1_000,)
_SHORT_LIST = 100
_ROOT = Path(__file__).resolve().parents[1]
_PATIENCE = 40.0
"""Longest run time of a probe in seconds, including its start."""
_TOO_LONG = f"takes over {_PATIENCE:.0f} s"


def measure(run: Run) -> list[Row]:
    """Probe every contender at every size, except sizes beyond one at which it took too long."""
    rows: list[Row] = []
    too_slow: set[str] = set()
    for n in _QUICK_SIZES if run.quick else SIZES:
        probed = []
        for contender in ALL if run.peers else OWN:
            run.tell(f"N = {n:,}, {contender.name}")
            skip = contender.name in too_slow
            probed.append(_left_out(contender, n, _TOO_LONG) if skip else _row(contender, n))
        too_slow |= {row.contender for row in probed if row.note == _TOO_LONG}
        rows += [_compared(row, probed[0]) for row in probed]
    return rows


def _row(contender: LossContender, n: int) -> Row:
    note = contender.obstacle(one_list(n))
    if note is None:
        command = [sys.executable, "-m", "benchmarks.memory", contender.name, str(n)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=True, cwd=_ROOT)
            return Row(f"{n:,}", n, contender.name, float(done.stdout) / 1e6, "MB", rounds=1)
        except subprocess.TimeoutExpired:
            note = _TOO_LONG
        except subprocess.CalledProcessError as error:
            note = f"failed: {(error.stderr.strip() or 'killed').splitlines()[-1]}"
    return _left_out(contender, n, note)


def _left_out(contender: LossContender, n: int, note: str) -> Row:
    return Row(f"{n:,}", n, contender.name, unit="MB", note=note)


def _compared(row: Row, ours: Row) -> Row:
    ratio = row.value / max(ours.value, 1.0)
    return Row(row.size, row.n, row.contender, row.value, row.unit, ratio, ratio, ratio, row.rounds, row.note)


def _probe(name: str, n: int) -> float:
    """Return the bytes that one step adds to the process' peak memory."""
    (contender,) = [contender for contender in ALL if contender.name == name]
    contender.step(one_list(_SHORT_LIST))()
    return added_peak(contender.step(one_list(n)))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    print(_probe(sys.argv[1], int(sys.argv[2])))
