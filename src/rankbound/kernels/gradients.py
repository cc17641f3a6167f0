"""Products of factors of topics and items, and backward passes: of these, and of a loss whose slopes are known."""

import numpy as np

from rankbound.kernels.compiler import compiled


@compiled("void(f8[::1],f8[::1],i8[::1],f8[::1])")
def times_upstream(upstream, slopes, offsets, gradient):
    """Write the slopes of each list times its upstream gradient."""
    for t in range(len(offsets) - 1):
        for i in range(offsets[t], offsets[t + 1]):
            gradient[i] = upstream[t] * slopes[i]


@compiled("b1(f4[:,::1],f4[:,::1],i8[::1],i8[::1],f4[::1])")
def products(of_topics, of_items, topics, items, scores):
    """Write the product of each item's factors and its topic's; return false for an index out of range."""
    for i in range(len(items)):
        if not (0 <= topics[i] < len(of_topics) and 0 <= items[i] < len(of_items)):
            return False
        p, q = of_topics[topics[i]], of_items[items[i]]
        total = np.float32(0.0)
        for k in range(len(p)):
            total += p[k] * q[k]
        scores[i] = total
    return True


@compiled("void(f4[:,::1],f4[:,::1],i8[::1],i8[::1],f4[::1],f4[:,::1],f4[:,::1])")
def add_gradients(of_topics, of_items, topics, items, upstream, topic_gradients, item_gradients):
    """Add the gradients of the products by the factors, given those by the products."""
    for i in range(len(items)):
        p, q = of_topics[topics[i]], of_items[items[i]]
        of_p, of_q = topic_gradients[topics[i]], item_gradients[items[i]]
        slope = upstream[i]
        for k in range(len(p)):
            of_p[k] += slope * q[k]
        for k in range(len(p)):
            of_q[k] += slope * p[k]


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
