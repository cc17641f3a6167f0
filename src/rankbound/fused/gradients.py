"""The backward pass of a loss whose slopes are known."""

from rankbound.fused.compiler import compiled


@compiled("void(f8[::1],f8[::1],i8[::1],f8[::1])")
def times_upstream(upstream, slopes, offsets, gradient):
    """Write the slopes of each list times its upstream gradient."""
    for t in range(len(offsets) - 1):
        for i in range(offsets[t], offsets[t + 1]):
            gradient[i] = upstream[t] * slopes[i]
