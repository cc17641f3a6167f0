"""Weights of training lists, computed from their relevance labels."""

import numpy as np

from rankbound.bounds.base import Floats, bound_weights
from rankbound.errors import ConfigError
from rankbound.lists import ArrayLike, Lists, as_tensor
from rankbound_study.config.list_weights import LIST_WEIGHTS, ListWeights


def list_weights(
    weights: ListWeights, loss: str, relevance: ArrayLike, offsets: ArrayLike, random: np.random.Generator
) -> Floats:
    r"""Return the weight of each list `(n_lists,)`: mean 1 over the informative lists, 0 for the others.

    $$w_t = \frac{v_t}{\frac{1}{n} \sum_{u=1}^{n} v_u}$$

    over the n informative lists, with $v_t$ the weight of a bound of the loss' metric, $1 / u_t$, or a power of
    $P_t (N_t - P_t)$, $P_t$ or $N_t$. Lists without two different labels are not informative.

    Args:
        weights: the kind of weights.
        loss: the loss, whose metric has the bound.
        relevance: `(n_items,)`, labels from 0; those above 0 are counted as relevant.
        offsets: `(n_lists + 1,)`, the lists' limits.
        random: permutes the weights between the informative lists, if that is asked for.

    Raises:
        ConfigError: no list is informative.
    """
    raw = (
        bound_weights(loss, weights.bound, relevance, offsets) if weights.bound else _power(weights, relevance, offsets)
    )
    informative = raw > 0
    if not informative.any():
        raise ConfigError(f"{LIST_WEIGHTS}: {weights} has no weights for {loss}: no training list is informative")
    known = raw[informative] / raw[informative].mean()
    found = np.zeros_like(raw)
    found[informative] = random.permutation(known) if weights.permuted else known
    return found


def _power(weights: ListWeights, relevance: ArrayLike, offsets: ArrayLike) -> Floats:
    grades = as_tensor(relevance, "relevance")
    lists = Lists.checked(offsets, len(grades))
    items, relevant = lists.sizes.numpy().astype(np.float64), lists.sum(grades > 0).numpy()
    pairs = relevant * (items - relevant)
    numbers = {"pairs": pairs, "relevant": relevant, "items": items}[weights.quantity]
    powers: Floats = np.power(np.where(pairs > 0, numbers, 1.0), weights.power)
    return np.where(pairs > 0, powers, 0.0)


def coefficient_of_variation(values: Floats) -> float:
    """Return the standard deviation of positive values divided by their mean."""
    return float(values.std() / values.mean())
