"""Question 1: how long does one step of a smooth nDCG loss take on one list of N items?"""

from benchmarks.batches import one_list
from benchmarks.loss_contenders import ALL, OWN, LossContender, check_agreement
from benchmarks.rows import Row, rows_of
from benchmarks.run import Run
from benchmarks.timing import LONGEST_CALL, Contender, race

TITLE = "Loss, one list"
ABOUT = """\
Forward and backward of the smooth nDCG loss (temperature 1, no bound) on one list, a tenth of the items relevant,
float32, standard normal scores. `rankbound` picks its method, `rankbound, direct` sums over pairs of a relevant
item and any item; `torch, P x N` is the plain way to write that, `torch, N x N` the matrix of all pairs that public
code builds, `Rax` its `approx_t12n(ndcg_metric)`, compiled beforehand. *`pytorchltr` has no such loss: its
LambdaNDCGLoss2 stands in."""
SETTINGS = ("default", "kept")

SIZES = (100, 300, 1_000, 3_000, 8_000, 20_000, 100_000, 1_000_000)
QUICK_SIZES = (100, 300, 1_000)


def measure(run: Run) -> list[Row]:
    """Run a race per size, without the contenders that would take too long or too much memory."""
    rows: list[Row] = []
    seconds_per_pair: dict[str, float] = {}
    for n in QUICK_SIZES if run.quick else SIZES:
        run.tell(f"N = {n:,}")
        rows += _race(run, n, seconds_per_pair)
    return rows


def _race(run: Run, n: int, seconds_per_pair: dict[str, float]) -> list[Row]:
    batch, size = one_list(n), f"{n:,}"
    entrants = ALL if run.peers else OWN
    obstacles = {c.name: c.obstacle(batch) or _too_slow(c, c.n_pairs(batch), seconds_per_pair) for c in entrants}
    running = [contender for contender in entrants if obstacles[contender.name] is None]
    steps = [contender.step(batch) for contender in running]
    check_agreement(steps, running)
    result = race([Contender(c.name, step) for c, step in zip(running, steps, strict=True)], run.pace)
    taken = {timing.name: timing.seconds for timing in result.timings} | result.too_slow
    seconds_per_pair |= {c.name: taken[c.name] / c.n_pairs(batch) for c in running[1:]}
    return rows_of(result, size, n) + [Row(size, n, name, note=note) for name, note in obstacles.items() if note]


def _too_slow(contender: LossContender, pairs: int, seconds_per_pair: dict[str, float]) -> str | None:
    expected = seconds_per_pair.get(contender.name, 0) * pairs
    return f"would take about {expected:.0f} s" if expected > LONGEST_CALL else None
