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
