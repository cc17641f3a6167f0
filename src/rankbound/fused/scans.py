"""The running sums of `rankbound.scans`, one place at a time."""

from rankbound.fused.compiler import compiled


@compiled("void(f8[:,::1],b1[::1],f8[:,::1],f8[:,::1])")
def running_sums(values, starts, before, behind):
    """Write, for each row of values, the sums before and behind each place, from 0 where a list begins."""
    n = len(starts)
    for c in range(len(values)):
        total = 0.0
        for k in range(n):
            if starts[k]:
                total = 0.0
            before[c, k] = total
            total += values[c, k]
        total = 0.0
        for k in range(n - 1, -1, -1):
            behind[c, k] = total
            total = 0.0 if starts[k] else total + values[c, k]
