r"""The place $J_k$ of the k-th relevant item in a block of ties, which is negative hypergeometric.

With $m$ relevant items among $n$ in random order,
$P(J_k = j) = \binom{j-1}{k-1} \binom{n-j}{m-k} / \binom{n}{m}$. Metrics need sums over j; many sums of different
lengths are computed together, a bounded number of terms at a time.
"""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from rankbound.kernels.formulas import TABLE_SIZE
from rankbound.lists import Lists

# Number of terms in memory at once, about 200 bytes each.
TERMS_AT_ONCE = 500_000

# Places whose total probability is below this are omitted.
NEGLIGIBLE = 1e-18


def ragged_sums(lengths: Tensor, terms: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Return the sum over place = 0 .. lengths[case] - 1 of `terms(case, place)`, float64 `(n_cases,)`.

    `terms` takes the indices of cases and places, both `(n_terms,)`, and returns the terms.
    """
    chunks = torch.div(lengths.cumsum(0), TERMS_AT_ONCE, rounding_mode="floor")
    first, sums = 0, []
    for n_cases in torch.unique_consecutive(chunks, return_counts=True)[1].tolist():
        part = lengths[first : first + n_cases]
        places = Lists.of_sizes(part)
        sums.append(places.sum(terms(first + places.segment, places.position)))
        first += n_cases
    return torch.cat(sums) if sums else lengths.new_zeros(0, dtype=torch.float64)


def mean_discount(
    size: Tensor,
    relevant: Tensor,
    which: Tensor,
    above: Tensor,
    cutoff: int | None,
    discount: Callable[[Tensor], Tensor] = torch.reciprocal,
) -> Tensor:
    """Return the mean of `discount(above + J)`, by default 1/(above + J), with terms beyond the cut-off 0.

    J is the place of the `which`-th of `relevant` items among `size`. All arguments are integers of shape `(n_cases,)`
    with 1 <= which <= relevant <= size.
    """
    others = size - relevant
    lengths = torch.minimum(others, _likely_others(size, relevant, which)) + 1
    if cutoff is not None:
        lengths = torch.minimum(lengths, cutoff - above - which + 1).clamp(min=0)
    log_orders = log_binomial(size, relevant)

    def terms(case: Tensor, others_above: Tensor) -> Tensor:
        k, m, rest = which[case], relevant[case], others[case] - others_above
        log_ways = log_binomial(k - 1 + others_above, k - 1) + log_binomial(m - k + rest, m - k)
        rank = (above[case] + k + others_above).to(torch.float64)
        return torch.exp(log_ways - log_orders[case]) * discount(rank)

    return ragged_sums(lengths, terms)


def log_chance_of_none(size: Tensor, relevant: Tensor, places: Tensor) -> Tensor:
    r"""Return the log-probability that none of `relevant` items among `size` is in the first `places`, `(n_cases,)`.

    $\binom{n-m}{c} / \binom{n}{c} = \prod_{i<c} (1 - \frac{m}{n-i})$, symmetric in m and c.
    """
    fewer, more = torch.minimum(relevant, places), torch.maximum(relevant, places).to(torch.float64)
    # If m + c > n, one factor is 0, and the factors after it, which would be negative, are clamped.
    return ragged_sums(fewer, lambda case, i: torch.log1p((-more[case] / (size[case] - i)).clamp(min=-1)))


def log_binomial(n: Tensor, k: Tensor) -> Tensor:
    """Return the logarithm of the binomial coefficient n over k, for integers 0 <= k <= n."""
    # Its entries are computed alike if there are enough of them for vector instructions.
    table = _log_factorials(max(TABLE_SIZE, 1 << (int(n.max()) if len(n) else 0).bit_length()), n.device)
    return table.index_select(0, n) - table.index_select(0, k) - table.index_select(0, n - k)


def _likely_others(size: Tensor, relevant: Tensor, which: Tensor) -> Tensor:
    """Return an upper limit of the other items above the `which`-th relevant one, up to a negligible probability.

    There are more than j - k if fewer than k of the first j items are relevant. Their mean number is M = j m / n, so by
    Chernoff's bound the probability is below exp(-(M - k)^2 / (2 M)).
    """
    surprise = -torch.log(torch.tensor(NEGLIGIBLE, dtype=torch.float64, device=size.device))
    mean = which + surprise + torch.sqrt(surprise * (surprise + 2 * which))
    return torch.ceil(mean * size / relevant).to(torch.int64) - which


@lru_cache(maxsize=8)
def _log_factorials(size: int, device: torch.device) -> Tensor:
    return torch.lgamma(torch.arange(1, size + 1, dtype=torch.float64, device=device))
