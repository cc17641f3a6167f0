"""Statistics of the difference between two rankers: designs, tests, intervals, margins. Needs scipy.

`PairedScores` holds the scores of systems on the same units (topics, users, pairs of faces). `compare` estimates and
tests the difference between two of them. `adjust` corrects a family of comparisons. docs/statistics.md explains the
choice of tests.
"""

from rankbound.compare.comparison import Comparison, Settings, adjust, compare
from rankbound.compare.scores import Pair, PairedScores

__all__ = ["Comparison", "Pair", "PairedScores", "Settings", "adjust", "compare"]
