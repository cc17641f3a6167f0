"""Question 2: how long does a step take on a batch of lists of very different lengths?"""

from benchmarks.batches import movielens_lists
from benchmarks.loss_contenders import AUTO, DIRECT_TORCH, PADDED_TORCH, PYTORCHLTR, RAX, check_agreement
from benchmarks.rows import Row, rows_of
from benchmarks.run import Run
from benchmarks.timing import Contender, race

TITLE = "Loss, a batch of 32 lists"
ABOUT = """\
The same step on 32 lists with the sizes of MovieLens latest-small: 25 to some 500 relevant items (equally spaced
quantiles of the 412 users), and one, two or three times as many others. Ours takes the lists as they are; `torch, P
x N` goes list by list; the others take them padded to the longest one. `Rax` is compiled for this one shape
beforehand: in training, every batch with another longest list would be padded further or compiled anew."""
SETTINGS = ("default", "kept")

LISTS, _QUICK_LISTS = 32, 4


def measure(run: Run) -> list[Row]:
    """Race the contenders once on one batch."""
    batch = movielens_lists(_QUICK_LISTS if run.quick else LISTS)
    run.tell(f"{len(batch.sizes)} lists")
    size = f"{len(batch.sizes)} lists, {min(batch.sizes)} to {max(batch.sizes):,} items"
    entrants = (AUTO, DIRECT_TORCH, PADDED_TORCH, RAX, PYTORCHLTR) if run.peers else (AUTO,)
    obstacles = {contender.name: contender.obstacle(batch) for contender in entrants}
    running = [contender for contender in entrants if obstacles[contender.name] is None]
    steps = [contender.step(batch) for contender in running]
    check_agreement(steps, running)
    result = race([Contender(c.name, step) for c, step in zip(running, steps, strict=True)], run.pace)
    left_out = [Row(size, len(batch.sizes), name, note=note) for name, note in obstacles.items() if note]
    return rows_of(result, size, len(batch.sizes)) + left_out
