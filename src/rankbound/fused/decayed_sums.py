"""The scans of `rankbound.scans` over all lists, in descending order of score."""

from rankbound.fused.compiler import compiled
from rankbound.fused.scans import decayed


@compiled("void(f8[:,::1],f8[::1],f8[:,::1],f8[:,::1])")
def decayed_sums(weights, decay, before, behind):
    """Write, for each row of weights, the sums before and behind each place; `decay` is 0 where a list begins."""
    for c in range(len(weights)):
        decayed(weights[c], decay, len(decay), before[c], behind[c])
