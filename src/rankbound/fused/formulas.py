"""The formulas that compiled kernels know, by number."""

from dataclasses import dataclass

# Kernels of smooth ranks know the first three.
DCG, AP, RANK_SUM, RECIPROCAL_RANK, HIT, PRECISION, RECALL, RBP = range(8)
GAINS = ("exp2", "linear")
DISCOUNTS = ("log2(r+1)", "log2(r)", "constant")
METHODS = ("direct", "interpolated", "auto", "scanned")
TARGETS = ("linear", "exp2", "one", "softmax")

# Chebyshev polynomials per box, and the distance in boxes beyond which gaps exceed 18 and the sigmoid is 1 to 1.5e-8.
ORDER = 10
BAND = 9

# Nanoseconds of smooth ranks on one core of an AMD EPYC (Zen 4): a pair by summation; an item and an occupied row of
# boxes by interpolation. `python -m benchmarks.costs` fits those of the kernels: on an Intel Xeon (Emerald Rapids) 2.5,
# 36 and 830. There, the choice by these here takes 1.00 times the better method's time (median of its cases), and at
# most 2.0 times. Those of the reference are of batches of many lists.
COSTS = PAIR_COST, ITEM_COST, ROW_COST = 1.8, 20.0, 1_400.0
COSTS_OF_REFERENCE = 50.0, 300.0, 2_000.0

# Pairs of different grades beyond which RankNet's interpolation, by the reference, is faster than its kernel: so many,
# and so many per item. A pair takes the kernel 4 ns, an item the interpolation 500 ns, and a call 1 to 3 ms.
PAIRS_WORTH_INTERPOLATION, PAIRS_OF_ITEM = 200_000, 125


@dataclass(frozen=True, kw_only=True)
class Formula:
    """A metric that kernels know, with the parameters of the metric of this name.

    `rel` is the lowest relevant grade, or 0: all above 0.
    """

    kind: int
    rel: float = 0.0
    gain: str = "linear"
    discount: str = "constant"
    cutoff: int | None = None
    normalised: bool = False
    persistence: float = 0.0

    @property
    def numbers(self) -> tuple[int, float, int, int, int, int]:
        """The formula as a kernel takes it, without the persistence."""
        gain, discount = GAINS.index(self.gain), DISCOUNTS.index(self.discount)
        return self.kind, self.rel, gain, discount, self.cutoff or 0, int(self.normalised)
