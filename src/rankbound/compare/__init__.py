"""How sure one can be of a difference between two rankers: designs, tests, intervals, margins. Needs scipy.

`PairedScores` holds the scores of systems on the same units (topics, users, pairs of faces), `compare` says what two of
them differ by, `adjust` corrects a family of such comparisons. docs/statistics.md says which test, and why.
"""

from rankbound.compare.comparison import Comparison, Settings, adjust, compare
from rankbound.compare.scores import Pair, PairedScores

__all__ = ["Comparison", "Pair", "PairedScores", "Settings", "adjust", "compare"]
