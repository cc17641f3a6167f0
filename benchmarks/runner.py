"""Run questions: time contenders in turns, or measure the memory of their steps, and keep the results as rows.

Contenders take turns round after round in one process, under the same conditions. A contender's time in a round is the
median over the calls of its turn, several if they are short. The first call of a turn is not counted, as it pays for
cold caches and memory that the previous contender released. Ratios are taken within a round. Contenders that are not
installed, or take too long or too much memory, are left out and say why.
"""

import multiprocessing
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from unittest.mock import patch

import polars as pl
import psutil
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
OURS = "rankbound"

LONGEST_CALL = 10.0
"""Longest call in seconds; slower contenders are left out."""
_LONG_CALL = 1.0
"""Seconds from which the first call of a turn is representative, and is the only one."""
_MOST_CALLS = 50
PATIENCE = 40.0
"""Longest run time of a process that measures memory in seconds, including its start."""
BUSY_CORES = 0.2
"""Load by other processes, in cores, above which figures are unusable: threads that synchronise wait for each other."""
_WATCH, _WATCHED = 0.02, ("VmHWM", "RssAnon")
"""Seconds between two looks at the memory of a process, and what is looked at."""
_PACKAGES = """rankbound torch numpy pyarrow jax rax allRank pytorchltr sentence-transformers lightgbm xgboost
xgboost-cpu implicit choix torchmetrics ranx ir-measures pytrec-eval-terrier scikit-learn"""

Call = Callable[[], object]


class Elapsed(float):
    """The seconds of work within another process; where a call returns them, they count as its time."""


class Pace(NamedTuple):
    """The length of a race: `fewest` to `most` rounds in about `seconds`, with turns of about `turn` seconds."""

    fewest: int
    most: int
    seconds: float
    turn: float


FULL = Pace(fewest=5, most=30, seconds=30.0, turn=0.05)
QUICK = Pace(fewest=3, most=3, seconds=1.0, turn=0.02)


@dataclass(frozen=True)
class Row:
    """One contender at one size: `value` in `unit` (s or MB), and its ratios to ours; NaN if it was left out.

    `n` orders the sizes and is the horizontal axis of plots; `note` is the reason for a missing value.
    """

    size: str
    n: int
    contender: str
    value: float = float("nan")
    unit: str = "s"
    ratio: float = float("nan")
    ratio_low: float = float("nan")
    ratio_high: float = float("nan")
    note: str = ""

    @property
    def left_out(self) -> bool:
        """True if nothing was measured."""
        return self.value != self.value


@dataclass(frozen=True)
class Contender:
    """How a library does the work of a cell.

    Attributes:
        prepare: makes the call from the cell's data, which is not timed.
        package: the package or the program that it needs.
        same: True if its results are to agree with those of the other contenders.
        largest: the largest `n` of a cell at which a call takes at most some 10 s and 6 GB.
        scale: multiplies its time if a call does only a share of the work.
    """

    name: str
    prepare: Callable[[Any], Call]
    package: str | None = None
    same: bool = True
    largest: float = float("inf")
    scale: float = 1.0

    def obstacle(self, n: int) -> str | None:
        """Return the reason why the contender cannot work on a cell of this size, or None."""
        if self.package and not (find_spec(self.package) or shutil.which(self.package)):
            return f"{self.package} is not installed"
        return "over 10 s or 6 GB" if n > self.largest else None


@dataclass(frozen=True)
class Cell:
    """A size with its data; on the data `few`, a first call loads and compiles before anything is measured."""

    size: str
    n: int
    data: Any
    contenders: Sequence[Contender]
    few: Any = None


@dataclass(frozen=True)
class Question:
    """A row of the table of questions; `questions.yaml` says what each is about.

    Attributes:
        cells: yields the cells, at full or (given True) at quick sizes; the first contender is the reference.
        tolerance: the largest relative difference of results that are to agree; None if they are not compared.
        settings: the allocators under which it is measured.
        in_memory: True if memory is measured, not time.
        pace: the length of a race at full sizes.
    """

    cells: Callable[[bool], Iterator[Cell]]
    tolerance: float | None = None
    settings: tuple[str, ...] = ("default",)
    in_memory: bool = False
    pace: Pace = FULL


def measure(question: Question, quick: bool = False, peers: bool = True, label: str = "") -> list[Row]:
    """Return the measured rows of a question, ours first within each size, after a check that results agree.

    Without peers, what needs no package but ours is measured.
    """
    rows: list[Row] = []
    # Steps of losses set `RANKBOUND_FAST`.
    with patch.dict(os.environ):
        for cell in tqdm(question.cells(quick), label, leave=False, disable=None):
            asked = [one for one in cell.contenders if peers or not one.package or one.name.startswith(OURS)]
            obstacles = {one.name: one.obstacle(cell.n) for one in asked}
            running = [one for one in asked if not obstacles[one.name]]
            if question.in_memory:
                rows += _memories(question, quick, cell, running)
            elif running and running[0] is cell.contenders[0]:
                calls = {}
                for one in running:
                    if cell.few is not None:
                        one.prepare(cell.few)()
                    calls[one.name] = one.prepare(cell.data)
                if question.tolerance:
                    check_same({one.name: calls[one.name]() for one in running if one.same}, question.tolerance)
                scales = {one.name: one.scale for one in running}
                rows += race(calls, QUICK if quick else question.pace, cell.size, cell.n, scales)
            unit = "MB" if question.in_memory else "s"
            rows += [Row(cell.size, cell.n, one, unit=unit, note=why) for one, why in obstacles.items() if why]
    return rows


def check_same(results: Mapping[str, Any], tolerance: float) -> None:
    """Raise ArithmeticError if a result differs, relatively, from the first.

    Results are means by metric, or a loss and its gradient, whose lengths are compared.
    """
    numbers: dict[str, dict[str, float]] = {}
    for name, result in results.items():
        means = result if isinstance(result, dict) else {"loss": result[0], "gradient": (result[1] ** 2).sum() ** 0.5}
        numbers[name] = {what: float(value) for what, value in means.items()}
        for what, value in numbers[name].items():
            expected = next(iter(numbers.values()))[what]
            if not abs(value - expected) <= tolerance * abs(expected):
                raise ArithmeticError(f"{name}: found {value} as the {what}, expected {expected}")


def race(
    calls: Mapping[str, Call], pace: Pace, size: str = "", n: int = 0, scales: Mapping[str, float] | None = None
) -> list[Row]:
    """Time calls in turns; return their rows, with those that were too slow last.

    The first is the reference of all ratios, and is never left out. `scales` are factors of the times of calls that do
    only a share of the work.
    """
    first, scales = next(iter(calls)), scales or {}
    # The second of two calls: the first compiles, fills caches and starts threads.
    warm = {name: [seconds_of(call), seconds_of(call)][1] for name, call in calls.items()}
    slow = [name for name, seconds in warm.items() if seconds > LONGEST_CALL and name != first]
    running = {name: call for name, call in calls.items() if name not in slow}
    round_seconds = sum(max(warm[name], pace.turn) for name in running)
    rounds = min(max(round(pace.seconds / round_seconds), pace.fewest), pace.most)
    taken = [
        {name: _turn(call, pace.turn) * scales.get(name, 1.0) for name, call in running.items()} for _ in range(rounds)
    ]
    rows = []
    for name in running:
        seconds, ratios = median(times[name] for times in taken), [times[name] / times[first] for times in taken]
        rows.append(Row(size, n, name, seconds, "s", median(ratios), min(ratios), max(ratios)))
    return rows + [Row(size, n, name, note=f"a call takes {warm[name]:.0f} s") for name in slow]


def _turn(call: Call, turn: float) -> float:
    if (settling := seconds_of(call)) > _LONG_CALL:
        return settling
    taken: list[float] = []
    begin = time.perf_counter()
    while not taken or (time.perf_counter() - begin < turn and len(taken) < _MOST_CALLS):
        taken.append(seconds_of(call))
    return median(taken)


def seconds_of(call: Call) -> float:
    """Return the seconds of a call, or those that it says."""
    begin = time.perf_counter()
    result = call()
    return result if isinstance(result, Elapsed) else time.perf_counter() - begin


def _memories(question: Question, quick: bool, cell: Cell, running: Sequence[Contender]) -> list[Row]:
    """Return what a step adds to the memory of a process of its own: one may keep memory that it has used."""
    rows = []
    for one in running:
        row = Row(cell.size, cell.n, one.name, unit="MB")
        try:
            added = in_new_process(added_by, question, quick, cell.size, one.name, patience=PATIENCE)
            rows.append(replace(row, value=added / 1e6))
        except TimeoutError:
            rows.append(replace(row, note=f"takes over {PATIENCE:.0f} s"))
        except EOFError:
            rows.append(replace(row, note="failed"))
    ours = max(next((row.value for row in rows if row.contender == OURS), float("nan")), 1.0)
    return [replace(row, **dict.fromkeys(("ratio", "ratio_low", "ratio_high"), row.value / ours)) for row in rows]


def added_by(question: Question, quick: bool, size: str, name: str) -> float:
    """Return the bytes that a contender's step adds to the peak memory of this process."""
    (cell,) = (cell for cell in question.cells(quick) if cell.size == size)
    (prepare,) = (one.prepare for one in cell.contenders if one.name == name)
    prepare(cell.few)()
    return added_peak(prepare(cell.data))


def in_new_process(work: Callable[..., Any], *arguments: object, patience: float | None = None) -> Any:
    """Return the result of work in a new process, which starts with this environment.

    Raises:
        TimeoutError: it takes longer than `patience` seconds, with its start.
        EOFError: it fails, and has printed why, or is killed.
    """
    start = multiprocessing.get_context("spawn")
    receiver, sender = start.Pipe(duplex=False)
    process = start.Process(target=_send, args=(sender, work, *arguments))
    process.start()
    sender.close()
    try:
        if not receiver.poll(patience):
            raise TimeoutError
        return receiver.recv()
    finally:
        process.kill()
        process.join()


def _send(sender: Connection, work: Callable[..., Any], *arguments: object) -> None:
    sender.send(work(*arguments))


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write a CSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame([asdict(row) for row in rows]).write_csv(path)


def read_rows(path: Path) -> list[Row]:
    """Read the rows of a file that `write_rows` wrote."""
    kinds = {field.name: field.type for field in fields(Row)}
    table = pl.read_csv(path, schema_overrides=kinds)  # type: ignore[arg-type]
    return [Row(**row) for row in table.with_columns(pl.col("note").fill_null("")).iter_rows(named=True)]


# The cost of processes and steps, and the machine in words.


class Cost(NamedTuple):
    """The cost of a process.

    Attributes:
        seconds, processor: elapsed and processor seconds, with its children.
        peak: its highest resident memory, in bytes.
        own: the same without the pages of mapped files, which the system drops when it needs memory.
    """

    seconds: float
    processor: float
    peak: float
    own: float


def cost_of(command: Sequence[object], folder: Path | None = None, patience: float = float("inf")) -> Cost:
    """Run a command of Python's `-m` in `folder`, by default the current one.

    Raises:
        RuntimeError: it fails, or takes longer than `patience` seconds; with the end of what it printed.
    """
    words, begin, memory = [str(word) for word in command], time.monotonic(), dict.fromkeys(_WATCHED, 0.0)
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen([sys.executable, "-m", *words], cwd=folder, stdout=log, stderr=log)
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            if time.monotonic() > begin + patience:
                os.kill(process.pid, signal.SIGKILL)
            memory = {key: max(most, _memory(key, process.pid)) for key, most in memory.items()}
            time.sleep(_WATCH)
        seconds, process.returncode, usage = time.monotonic() - begin, os.waitstatus_to_exitcode(ended[1]), ended[2]
        if process.returncode:
            log.seek(0)
            what = f"ended with {process.returncode} after {seconds:.0f} s; it may take {patience:.0f} s"
            raise RuntimeError(f"{' '.join(words)} {what}\n{log.read()[-2000:]}")
    return Cost(seconds, usage.ru_utime + usage.ru_stime, *memory.values())


def added_peak(step: Callable[[], object]) -> float:
    """Return the bytes that a step adds to the process' peak memory."""
    # This resets the peak.
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _memory("VmRSS")
    step()
    return _memory("VmHWM") - before


def _memory(key: str, pid: int | str = "self") -> float:
    """Return what Linux says of a process' memory, in bytes; 0 if the process has ended."""
    # Not ru_maxrss, which a process inherits from its parent.
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return next((float(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:")), 0.0)


def describe(threads: int) -> str:
    """Return processor, threads and versions as one line."""
    name = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
    processor = name[1].strip() if name else platform.machine()
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{processor}, {threads} threads, {platform.system()}; {python}, {versions()}"


def cores_in_use() -> float:
    """Return the number of cores in use, measured over a second."""
    return psutil.cpu_count() * psutil.cpu_percent(1) / 100


def versions(names: Iterable[str] = _PACKAGES.split()) -> str:
    """Return the versions of those packages that are installed."""
    found = []
    for name in names:
        with suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    return ", ".join(found)
