"""The worked examples of the thesis (tables 1.1, 2.2 to 2.4, 3.1 to 3.3) and of Murphy, computed and as printed.

Every value comes from the library's metrics on lists in ranked order; a rank's share of a sum is the metric of the list
in which only that rank is relevant. `holds` is true where our value rounds to the printed one, and empty where no
printed value is legible (the scan lacks the sums of Table 2.3(a) and all sums of Table 3.1).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from importlib.resources import files
from itertools import permutations

import numpy as np
import polars as pl

import rankbound as rb
from rankbound.compare.scores import Floats
from rankbound_study.results.study_files import schema

PERSISTENCE = 0.7  # persistence of Table 2.3

ITEMS, RELEVANT = 9, 3  # sizes of the ideal and the worst order in tables 2.2 to 2.4
ORDERS = {"ideal": [1] * RELEVANT + [0] * (ITEMS - RELEVANT), "worst": [0] * (ITEMS - RELEVANT) + [1] * RELEVANT}
GRADES = (3, 2, 3, 0, 1, 2)  # the list of Murphy's Table 9.3, from rank 1 down
RELEVANCE = (1, 0, 1, 0, 1)  # Murphy's example of average precision (after eq. 9.127)
EXACT = 1e-12  # largest difference from a printed fraction

Entry = tuple[str, str, str, float]  # (part, row, quantity, ours)


def worked_table(name: str) -> pl.DataFrame:
    """Compute one worked table: columns part, row, quantity, ours, printed, holds."""
    resource = files("rankbound_study.reference").joinpath("worked_tables.csv")
    known = pl.read_csv(resource.read_bytes(), infer_schema=False).filter(table=name.removeprefix("table_"))
    printed = {(part, row, quantity): text for _, part, row, quantity, text in known.rows()}
    rows = []
    for part, row, quantity, ours in WORKED_TABLES[name]():
        text = printed.pop((part, row, quantity), "")
        rows.append((part, row, quantity, round(ours, 10), text, holds(ours, text)))
    assert not printed, f"{name}: printed cells without a computed one: {sorted(printed)}"
    columns = schema("text: part row quantity; float: ours; text: printed; flag: holds")
    return pl.DataFrame(rows, schema=columns, orient="row")


def holds(ours: float, printed: str) -> bool | None:
    """Check that `ours` rounds to the printed decimal or equals the printed fraction; None where nothing is printed.

    Fractions are `a`, `a/b` or `(a/b+c/d)/e`.

    >>> holds(0.6309, "0.63"), holds(0.6351, "0.63"), holds(29 / 36, "29/36"), holds(1.0, "")
    (True, False, True, None)
    """
    if not printed:
        return None
    if re.fullmatch(r"-?\d+\.\d+", printed):
        decimals = len(printed.split(".")[1])
        return bool(abs(ours - float(printed)) <= 0.5 * 10.0**-decimals + EXACT)
    grouped = re.fullmatch(r"\((.+)\)/(\d+)", printed)
    terms, divisor = grouped.groups() if grouped else (printed, "1")
    fraction = sum(map(Fraction, terms.split("+")), Fraction()) / int(divisor)
    return bool(abs(ours - float(fraction)) <= EXACT)


def values_of_library(metric: Callable[..., Floats], orders: Sequence[Sequence[int]]) -> Floats:
    """Return the library's values for lists whose items are in these orders."""
    offsets = np.cumsum([0, *map(len, orders)])
    ranks = np.concatenate([np.arange(len(order)) for order in orders])
    return metric(-ranks.astype(np.float64), np.concatenate([np.array(order) for order in orders]), offsets)


def _score(metric: str, relevance_by_rank: Sequence[int]) -> float:
    return float(values_of_library(rb.metric(metric), [relevance_by_rank])[0])


def _by_rank(
    metric: str, quantity: str, of_weight: Callable[[float], float], sums: Mapping[tuple[str, str], float]
) -> Iterator[Entry]:
    """Yield what a relevant item adds at each rank, divided as the first sum is, and the sums with their divisors."""
    for part, order in ORDERS.items():
        for rank, relevant in enumerate(order, start=1):
            only = [int(place == rank) for place in range(1, ITEMS + 1)]
            weight = _score(metric, only) / next(iter(sums.values()))
            yield part, f"rank {rank}", quantity, of_weight(weight)
            yield part, f"rank {rank}", "gain", weight * relevant
        yield from ((part, *names, _score(metric, order) / divisor) for names, divisor in sums.items())


def _average_precision() -> Iterator[Entry]:
    for part, order in ORDERS.items():
        ranks = [rank for rank, relevant in enumerate(order, start=1) if relevant]
        yield from ((part, f"rank {rank}", "precision", _score(f"P@{rank}", order)) for rank in ranks)
        value = _score("AP", order)
        yield part, "sum", "precision", value * RELEVANT
        yield part, "divided by R", "AP", value


def _over_orders(quantity: str, of_order: Callable[[Sequence[int]], float], *, total: bool) -> Iterator[Entry]:
    """Yield the value of each distinct order, then sum and mean over all N! permutations, duplicates included."""
    for part, order in (("X(2,1)", (1, 0)), ("X(3,2)", (1, 1, 0))):
        values = [of_order(each) for each in permutations(order)]
        for distinct in sorted(set(permutations(order)), reverse=True):
            yield part, "".join(str(relevant) for relevant in distinct), quantity, of_order(distinct)
        if total:
            yield part, "sum", quantity, sum(values)
        yield part, "mean", quantity, sum(values) / len(values)


def _murphy() -> Iterator[Entry]:
    """Yield Murphy's numbers: linear gain over log2(i), the first item undiscounted (eq. 9.128)."""
    variant = "(gain=linear,discount=log2(r))"
    for rank, grade in enumerate(GRADES, start=1):
        only = [grade if place == rank else 0 for place in range(1, len(GRADES) + 1)]
        yield "9.3", f"rank {rank}", "discounted gain", _score(f"DCG{variant}", only)
    value = _score(f"DCG{variant}@6", GRADES)
    yield "9.3", "sum", "DCG@6", value
    yield "9.3", "ideal", "DCG@6", _score(f"DCG{variant}@6", sorted(GRADES, reverse=True))
    yield "9.3", "normalised", "nDCG@6", _score(f"nDCG{variant}@6", GRADES)
    yield "9.127", " ".join(map(str, RELEVANCE)), "AP", _score("AP", RELEVANCE)


WORKED_TABLES: dict[str, Callable[[], Iterator[Entry]]] = {
    "table_1_1": lambda: (
        (part, " ".join(map(str, order)), "nDCG", _score("nDCG", order))
        for part, order in (("I_A", (0, 1)), ("I_B", (0, 1, 1, 1, 1, 1)))
    ),
    "table_2_2": lambda: _by_rank("DCG", "discount", lambda gain: 1 / gain, {("sum", "DCG"): 1.0}),
    "table_2_3": lambda: _by_rank(
        f"RBP(p={PERSISTENCE})", "weight", float, {("sum", "gain"): 1 - PERSISTENCE, ("times (1-p)", "RBP"): 1.0}
    ),
    "table_2_4": _average_precision,
    "table_3_1": lambda: _over_orders("DCG", partial(_score, "DCG"), total=False),
    # The first term of equation 2.12: the nRBP loss plus the P(P-1)/2 that it subtracts.
    "table_3_2": lambda: _over_orders(
        "L1", lambda order: _score("nRBP", order) + sum(order) * (sum(order) - 1) / 2, total=False
    ),
    "table_3_3": lambda: _over_orders("AP", partial(_score, "AP"), total=True),
    "table_murphy_9_3": _murphy,
}
