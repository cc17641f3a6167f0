"""Time contenders in turns, round after round in one process, under the same conditions.

A contender's time in a round is the median over the calls of its turn, several if they are short. The first call of a
turn is not counted, as it pays for cold caches and memory that the previous contender released. Ratios are taken
within a round.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

LONGEST_CALL = 10.0
"""Longest call in seconds; slower contenders are left out."""
_LONG_CALL = 1.0
"""Seconds from which the first call of a turn is representative, and is the only one."""
_MOST_CALLS = 50


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
class Contender:
    """A function to time; `scale` multiplies its time if a call does only a share of the work."""

    name: str
    call: Callable[[], object]
    scale: float = 1.0


@dataclass(frozen=True)
class Timing:
    """A contender's median seconds, and the median, lowest and highest ratio to the first contender over the rounds."""

    name: str
    seconds: float
    ratio: float
    ratio_low: float
    ratio_high: float
    rounds: int


@dataclass(frozen=True)
class Race:
    """The timings in the contenders' order, and the seconds per call of contenders left out as too slow."""

    timings: tuple[Timing, ...]
    too_slow: dict[str, float]


def race(contenders: Sequence[Contender], pace: Pace) -> Race:
    """Time the contenders in turns; the first is the reference of all ratios, and is never left out."""
    first = contenders[0]
    warm = {contender.name: _warm_up(contender.call) for contender in contenders}
    too_slow = {name: seconds for name, seconds in warm.items() if seconds > LONGEST_CALL and name != first.name}
    running = [contender for contender in contenders if contender.name not in too_slow]
    round_seconds = sum(max(warm[contender.name], pace.turn) for contender in running)
    rounds = min(max(round(pace.seconds / round_seconds), pace.fewest), pace.most)
    taken = [[_turn(contender.call, pace.turn) * contender.scale for contender in running] for _ in range(rounds)]
    return Race(tuple(_timing(place, contender.name, taken) for place, contender in enumerate(running)), too_slow)


def _warm_up(call: Callable[[], object]) -> float:
    """Return the seconds of a call, after one that compiles, fills caches and starts threads."""
    call()
    return _seconds(call)


def _turn(call: Callable[[], object], turn: float) -> float:
    settling = _seconds(call)
    if settling > _LONG_CALL:
        return settling
    taken: list[float] = []
    begin = time.perf_counter()
    while not taken or (time.perf_counter() - begin < turn and len(taken) < _MOST_CALLS):
        taken.append(_seconds(call))
    return median(taken)


def _seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _timing(place: int, name: str, taken: list[list[float]]) -> Timing:
    ratios = [times[place] / times[0] for times in taken]
    seconds = median(times[place] for times in taken)
    return Timing(name, seconds, median(ratios), min(ratios), max(ratios), len(taken))
