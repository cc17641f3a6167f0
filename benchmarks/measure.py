"""Time contenders in turns, measure the memory of a step, keep the results as rows, and describe the machine.

Contenders take turns round after round in one process, under the same conditions. A contender's time in a round is the
median over the calls of its turn, several if they are short. The first call of a turn is not counted, as it pays for
cold caches and memory that the previous contender released. Ratios are taken within a round.
"""

import csv
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
OURS = "rankbound"

LONGEST_CALL = 10.0
"""Longest call in seconds; slower contenders are left out."""
_LONG_CALL = 1.0
"""Seconds from which the first call of a turn is representative, and is the only one."""
_MOST_CALLS = 50

BUSY_CORES = 0.2
"""Load by other processes, in cores, above which figures are unusable: threads that synchronise wait for each other."""
_WATCH, _WATCHED = 0.02, ("VmHWM", "RssAnon")
"""Seconds between two looks at the memory of a process, and what is looked at."""
_PACKAGES = (
    *("rankbound", "torch", "numpy", "jax", "rax", "pytorchltr", "ranx", "ir-measures", "pytrec-eval-terrier"),
    *("scikit-learn", "pyarrow", "sentence-transformers"),
)

Call = Callable[[], object]


@dataclass(frozen=True)
class Pace:
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

    `n` orders the sizes and is the horizontal axis of plots; `note` is a remark, or the reason for a missing value.
    """

    size: str
    n: int
    contender: str
    value: float = float("nan")
    unit: str = "s"
    ratio: float = float("nan")
    ratio_low: float = float("nan")
    ratio_high: float = float("nan")
    rounds: int = 0
    note: str = ""

    @property
    def left_out(self) -> bool:
        """True if nothing was measured."""
        return self.value != self.value


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write a CSV file with a header, and numbers with six significant digits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow(
                {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in asdict(row).items()}
            )


def read_rows(path: Path) -> list[Row]:
    """Read the rows of a file that `write_rows` wrote."""
    kinds = {field.name: field.type for field in fields(Row)}
    with path.open(newline="", encoding="utf-8") as file:
        return [Row(**{key: kinds[key](text) for key, text in line.items()}) for line in csv.DictReader(file)]  # type: ignore[operator]


def race(
    calls: Mapping[str, Call], pace: Pace, size: str = "", n: int = 0, scales: Mapping[str, float] | None = None
) -> tuple[list[Row], dict[str, float]]:
    """Time calls in turns; the first is the reference of all ratios, and is never left out.

    Args:
        scales: factors of the times of calls that do only a share of the work.

    Returns:
        The rows, with those of the calls that were too slow last, and the seconds of every call.
    """
    first, scales = next(iter(calls)), scales or {}
    # The second of two calls: the first compiles, fills caches and starts threads.
    warm = {name: [_seconds(call), _seconds(call)][1] for name, call in calls.items()}
    slow = {name: seconds for name, seconds in warm.items() if seconds > LONGEST_CALL and name != first}
    running = {name: call for name, call in calls.items() if name not in slow}
    round_seconds = sum(max(warm[name], pace.turn) for name in running)
    rounds = min(max(round(pace.seconds / round_seconds), pace.fewest), pace.most)
    taken = [
        {name: _turn(call, pace.turn) * scales.get(name, 1.0) for name, call in running.items()} for _ in range(rounds)
    ]
    rows = []
    for name in running:
        seconds, ratios = median(times[name] for times in taken), [times[name] / times[first] for times in taken]
        rows.append(Row(size, n, name, seconds, "s", median(ratios), min(ratios), max(ratios), rounds))
    seconds_of = {row.contender: row.value for row in rows} | slow
    return rows + [Row(size, n, name, note=f"a call takes {slow[name]:.0f} s") for name in slow], seconds_of


def _turn(call: Call, turn: float) -> float:
    settling = _seconds(call)
    if settling > _LONG_CALL:
        return settling
    taken: list[float] = []
    begin = time.perf_counter()
    while not taken or (time.perf_counter() - begin < turn and len(taken) < _MOST_CALLS):
        taken.append(_seconds(call))
    return median(taken)


def _seconds(call: Call) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


@dataclass(frozen=True)
class Cost:
    """The cost of a process.

    Attributes:
        seconds, processor: elapsed and processor seconds, with its children.
        peak: its highest resident memory, in bytes.
        own: the same without the pages of mapped files, which the system drops when it needs memory.
        largest: the highest resident memory of it and its children, and of the process that started it.
    """

    seconds: float
    processor: float
    peak: float
    own: float
    largest: float


def cost_of(command: Sequence[object], folder: Path | None = None, patience: float = float("inf")) -> Cost:
    """Run a command in `folder`, by default the current one.

    Raises:
        RuntimeError: it fails, or takes longer than `patience` seconds; then with what it printed, if it is not shown.
    """
    words, begin, in_time = [str(word) for word in command], time.monotonic(), True
    memory = dict.fromkeys(_WATCHED, 0.0)
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(words, cwd=folder, **({"stdout": log, "stderr": log} if folder else {}))
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            if time.monotonic() > begin + patience:
                in_time = False
                os.kill(process.pid, signal.SIGKILL)
            memory = {key: max(most, _memory(key, process.pid)) for key, most in memory.items()}
            time.sleep(_WATCH)
        process.returncode, usage = os.waitstatus_to_exitcode(ended[1]), ended[2]
        if process.returncode or not in_time:
            log.seek(0)
            what = f"ended with {process.returncode}" if in_time else f"took more than {patience:.0f} seconds"
            shown = " ".join(words).removeprefix(f"{sys.executable} -m ")
            raise RuntimeError(f"{shown} {what}\n{log.read()[-2000:]}")
    processor = usage.ru_utime + usage.ru_stime
    # In kilobytes on Linux.
    return Cost(time.monotonic() - begin, processor, *memory.values(), largest=usage.ru_maxrss * 1024)


def added_peak(step: Call) -> float:
    """Return the bytes that a step adds to the process' peak memory."""
    marks = Path("/proc/self/clear_refs")
    if marks.exists():
        # On Linux the peak can be reset; elsewhere it counts from the start.
        marks.write_text("5", encoding="ascii")
    before = _memory("VmRSS") if marks.exists() else _memory("VmHWM")
    step()
    return _memory("VmHWM") - before


def _memory(key: str, pid: int | str = "self") -> float:
    """Return what the system says of a process' memory, in bytes; 0 if the process has ended."""
    if pid == "self" and not Path("/proc").exists():
        unit = 1 if sys.platform == "darwin" else 1024
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
    # Not ru_maxrss, which a process inherits from its parent.
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return next((float(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:")), 0.0)


def describe(threads: int) -> str:
    """Return processor, threads and versions as one line."""
    cpus = Path("/proc/cpuinfo")
    lines = cpus.read_text("utf-8").splitlines() if cpus.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else platform.processor() or platform.machine()
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{processor}, {threads} threads, {platform.system()}; {python}, {versions()}"


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cores_in_use() -> float:
    """Return the number of cores in use by others, measured over a second; 0 if the system does not report it."""
    counters = Path("/proc/stat")
    if not counters.exists():
        return 0.0
    # Clock ticks of all cores since boot; the fourth and the fifth are idle time, waits for disks included.
    before = [int(word) for word in counters.read_text("ascii").splitlines()[0].split()[1:9]]
    time.sleep(1.0)
    after = [int(word) for word in counters.read_text("ascii").splitlines()[0].split()[1:9]]
    passed = [now - then for now, then in zip(after, before, strict=True)]
    return (os.cpu_count() or 1) * (1 - sum(passed[3:5]) / max(sum(passed), 1e-9))


def versions(names: Iterable[str] = _PACKAGES) -> str:
    """Return the versions of those packages that are installed."""
    found = []
    for name in names:
        with suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    return ", ".join(found)


def table(header: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    names = list(header)
    return "\n".join(f"| {' | '.join(line)} |" for line in (names, ["---"] * len(names), *lines))


def amount(value: float, unit: str) -> str:
    """Format a measurement with three digits, in a unit that suits its size."""
    if unit == "x":
        return f"{digits(value)}x"
    if unit == "s":
        for scale, name in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
            if value * scale >= 1 or name == "µs":
                return f"{digits(value * scale)} {name}"
    return f"{digits(value)} {unit}"


def digits(value: float) -> str:
    """Format with three significant digits, without an exponent."""
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    return f"{value:,.{3 - whole}f}" if whole < 3 else f"{round(value, 3 - whole):,.0f}"
