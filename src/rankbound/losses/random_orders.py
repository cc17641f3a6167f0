r"""Losses of random and relaxed orders: SoftRank, NeuralNDCG and PiRank, and the mean of any loss over sampled scores.

The first three are the expectation of a metric that adds up over items, where the chance of item $i$ to be at rank $r$
is a smooth function of the scores. They differ in these chances. Memory is quadratic in the items of a list.
"""

import math
from abc import abstractmethod
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from rankbound.lists import Lists, may_read
from rankbound.losses.base import RankingLoss
from rankbound.losses.lambda_loss import AdditiveLoss, discounts
from rankbound.metrics import Metric
from rankbound.smooth_ranks import require_temperature
from rankbound.texts import require

MOST_ITEMS = 2000
"""The most items of a list: with all of them relevant, a step of SoftRank takes about 3 GB."""

SINKHORN_STEPS, SINKHORN_ERROR = 50, 1e-6
"""Those of the authors of NeuralNDCG: scaling ends when all columns add up to 1 within this error."""

SMALLEST_TOTAL = 1e-10
"""Totals of rows and columns are divided by at least this."""


class RankChancesLoss(AdditiveLoss):
    r"""The negative expectation of a metric $\sum_i g(y_i)\, d(R_i) / Z$ over the chances of items to be at ranks.

    $$L = -\frac1Z \sum_i g(y_i) \sum_r d(r)\, P_{ri}$$

    A subclass defines $P_{ri}$.
    """

    @abstractmethod
    def mean_discounts(self, scores: Tensor, relevant: Tensor, lists: Lists, table: Tensor) -> Tensor:
        """Return the expected discount of each item, `(n_items,)`, in double precision as the scores.

        `relevant` is a mask of the items whose discounts count, and `table` has the discounts of ranks 1, 2, ... up to
        the longest list.
        """

    def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        self._of.require_gains_that_fit(relevance, scores.dtype)
        longest = lists.longest
        if longest > MOST_ITEMS:
            raise ValueError(
                f"offsets: found a list of {longest} items for the loss {self.text}, whose memory is quadratic; "
                f"expected at most {MOST_ITEMS}: shorten the lists, or use the loss {self.metric}, whose smooth ranks "
                "take linear memory"
            )
        gains = self._of.gains(relevance).to(torch.float64)
        normaliser = self._of.normaliser(relevance, lists)
        share = torch.where(normaliser > 0, 1 / normaliser, 0.0).to(torch.float64)
        table = discounts(self._of, longest, lists.device)
        means = self.mean_discounts(scores.to(torch.float64), gains > 0, lists, table)
        losses = -share * lists.sum(gains * means)
        return torch.where(self.informative(relevance, lists), losses, 0.0).to(scores.dtype)

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Return a mask of the lists with a gain above 0."""
        return lists.max(self._of.gains(relevance).to(torch.float64)) > 0


class SoftRankLoss(RankChancesLoss):
    r"""SoftRank (Taylor et al., WSDM 2008): the expected metric of Gaussian scores.

    $$L = -\frac1Z \sum_i g(y_i) \sum_r d(r)\, P_{ri}, \qquad
      \pi_{ij} = \Phi\left(\frac{s_i - s_j}{\sigma\sqrt2}\right)$$

    The score of item $i$ is normal with mean $s_i$ and standard deviation $\sigma$, and $\pi_{ij}$ is the chance that
    it is above item $j$. $P_{ri}$ is the chance that $r - 1$ of the other items are above item $i$, as if these events
    were independent (the *rank-binomial* distribution). The authors add the other items one by one, in time
    $O(N^2)$ an item; here, halves of them are merged again and again by fast Fourier transforms, in
    $O(N \log^2 N)$ a relevant item. Lists of more than 2,000 items are refused.

    Args:
        metric: a metric that adds up over items, such as `nDCG`, `nDCG(gain=linear)@10`, `DCG`, `P@10` or `RBP`.
        deviation: $\sigma$, in units of the scores.

    Raises:
        ValueError: for a metric that doesn't add up over items, or a deviation that isn't above 0; when called with a
            list of too many items.

    >>> rb.loss("SoftRank")(torch.tensor([0.9, 0.5, 0.1]), [0, 1, 0], [0, 3])
    tensor([-0.6875])
    """

    name = "SoftRank"

    def __init__(self, *, metric: str | Metric = "nDCG", deviation: float = 1.0) -> None:
        super().__init__(metric)
        require("deviation", f"{deviation:g}", deviation > 0, "a number above 0")
        self.deviation = deviation

    def mean_discounts(self, scores: Tensor, relevant: Tensor, lists: Lists, table: Tensor) -> Tensor:
        means = torch.zeros_like(scores)
        # Items with about as many others are computed together: the width depends on the list alone.
        widths = 2 ** np.ceil(np.log2((np.diff(lists.limits) - 1).clip(min=1))).astype(np.int64)
        for width, items, _ in lists._shares(widths):
            own = torch.arange(len(scores), device=lists.device) if isinstance(items, slice) else items
            if may_read(relevant):
                own = own[relevant.index_select(0, own)]
            if len(own) == 0:
                continue
            segment = lists.segment.index_select(0, own)
            column = torch.arange(width, device=lists.device)
            place = column + (column >= lists.position.index_select(0, own)[:, None])
            exist = column < lists.sizes.index_select(0, segment)[:, None] - 1
            other = (lists.offsets.index_select(0, segment)[:, None] + place).where(exist, own[:, None])
            gaps = (scores[other] - scores.index_select(0, own)[:, None]) / (self.deviation * math.sqrt(2))
            chances = torch.special.ndtr(gaps) * exist
            # The distribution of the number of independent events that happen are the coefficients of the product of
            # 1 - p + p x over their chances p; the factors are multiplied in pairs.
            factors = torch.stack([1 - chances, chances], 2)
            while factors.shape[1] > 1:
                size = 2 * factors.shape[2] - 1
                # One and a half times a power of 2, at least the size, which is 1 more than a power and may be prime.
                fast = 3 * (size - 1) // 2
                one, other = torch.fft.rfft(factors, fast).unflatten(1, (-1, 2)).unbind(2)
                factors = torch.fft.irfft(one * other, fast)[:, :, :size]
            ranks = min(width + 1, len(table))
            means = means.index_add(0, own, factors[:, 0, :ranks] @ table[:ranks])
        return means


class PiRankLoss(RankChancesLoss):
    r"""PiRank (Swezey et al., NeurIPS 2021): the metric of the first ranks of NeuralSort's relaxed permutation.

    $$L = -\frac1Z \sum_{r \le k} d(r) \sum_i \hat P_{ri}\, g(y_i), \qquad
      \hat P_{ri} = \mathrm{softmax}_i \frac{(N + 1 - 2r)\, s_i - \sum_j |s_i - s_j|}{\tau}$$

    $k$ is the metric's cut-off. The authors' loss is 1 more. Their merging of sorted parts, which approximates the
    first ranks of long lists, isn't part of it: lists of more than 2,000 items are refused.

    Args:
        metric: a metric that adds up over items, such as `nDCG@10`.
        temperature: $\tau$, in units of the scores.

    Raises:
        ValueError: for a metric that doesn't add up over items, or a temperature that isn't above 0; when called with a
            list of too many items.

    >>> rb.loss("PiRank(metric=nDCG@2)")(torch.tensor([0.9, 0.5, 0.1]), [0, 1, 0], [0, 3])
    tensor([-0.6276])
    """

    name = "PiRank"
    square: ClassVar[bool] = False
    """True if the rows of ranks beyond the cut-off are needed, too."""

    def __init__(self, *, metric: str | Metric = "nDCG", temperature: float = 1.0) -> None:
        super().__init__(metric)
        require_temperature(temperature)
        self.temperature = temperature

    def discounts_of_items(self, chances: Tensor, table: Tensor, known: Tensor) -> Tensor:
        """Return the discounts of the items of `n` lists, `(n, width)`, from NeuralSort's matrices `(n, rows, width)`.

        `known` `(n, width)` is 1 for items and 0 for padding, `table` `(n, rows)` has the discounts of the ranks.
        """
        return (chances.mT @ table[:, :, None]).squeeze(2)

    def mean_discounts(self, scores: Tensor, relevant: Tensor, lists: Lists, table: Tensor) -> Tensor:
        means, of_lists = torch.zeros_like(scores), np.diff(lists.limits)
        # Powers of 2 and one and a half of them: a step of Sinkhorn's scaling costs more calls than arithmetic unless
        # lists share it, and a list's width depends on itself alone.
        power = 2 ** np.floor(np.log2(of_lists.clip(min=1))).astype(np.int64)
        half = power + power // 2
        widths = np.where(of_lists <= power, power, np.where(of_lists <= half, half, 2 * power)) * (of_lists > 0)
        for width in np.unique(widths[of_lists > 0]).tolist():
            own, column = lists._places(widths == width), torch.arange(width, device=lists.device)
            sizes = lists.sizes[own][:, None]
            exists = column < sizes
            items = lists.offsets[own][:, None] + column.where(exists, 0)
            known, x = exists.to(scores), scores[items]
            distances = ((x[:, :, None] - x[:, None, :]).abs() * known[:, None, :]).sum(2)
            rank = column if self.square else column[: getattr(self._of, "cutoff", None)]
            logits = (sizes - 1 - 2 * rank)[:, :, None] * x[:, None, :] - distances[:, None, :]
            logits = torch.where(exists[:, None, :], logits / self.temperature, -torch.inf)
            of_ranks = functional.pad(table, (0, max(width - len(table), 0)))[: len(rank)] * known[:, : len(rank)]
            found = self.discounts_of_items(torch.softmax(logits, 2), of_ranks, known)
            means = means.index_add(0, items.flatten(), torch.where(exists, found, 0.0).flatten())
        return means


class NeuralNDCGLoss(PiRankLoss):
    r"""NeuralNDCG (Pobrotyn and Białobrzeski 2021): the metric of items that are sorted by a doubly stochastic matrix.

    $$L = -\frac1Z \sum_r d(r) \sum_i \hat P_{ri}\, g(y_i), \qquad
      \hat P = \mathrm{Sinkhorn}\left(\mathrm{softmax}_i \frac{(N + 1 - 2r)\, s_i - \sum_j |s_i - s_j|}{\tau}\right)$$

    NeuralSort (Grover et al., ICLR 2019) makes rows that add up to 1, and Sinkhorn's scaling, which is the authors',
    columns as well: at most 50 times, until they do within 1e-6. Lists of more than 2,000 items are refused. The
    authors' stochastic variant is `rankbound.sampled` of this loss.

    Args:
        metric: a metric that adds up over items, such as `nDCG` or `nDCG(gain=linear)@10`.
        temperature: $\tau$, in units of the scores.

    Raises:
        ValueError: for a metric that doesn't add up over items, or a temperature that isn't above 0; when called with a
            list of too many items.

    >>> rb.loss("NeuralNDCG")(torch.tensor([0.9, 0.5, 0.1]), [0, 1, 0], [0, 3])
    tensor([-0.7051])
    """

    name = "NeuralNDCG"
    square = True

    def discounts_of_items(self, chances: Tensor, table: Tensor, known: Tensor) -> Tensor:
        # The scaled matrix is never made: its rows and columns are multiplied by these.
        rows = columns = known[:, :, None]
        turned = chances.mT
        for _ in range(SINKHORN_STEPS):
            totals = columns * (turned @ rows)
            # Each list by itself, so that it doesn't depend on the others.
            wrong = (totals.detach() - known[:, :, None]).abs().amax(1, keepdim=True) > SINKHORN_ERROR
            if may_read(wrong) and not bool(wrong.any()):
                break
            columns = torch.where(wrong, columns / totals.clamp(min=SMALLEST_TOTAL), columns)
            totals = rows * (chances @ columns)
            rows = torch.where(wrong, rows / totals.clamp(min=SMALLEST_TOTAL), rows)
        return (columns * (turned @ (rows * table[:, :, None]))).squeeze(2)


def sampled(of: str | RankingLoss, samples: int = 8, temperature: float = 1.0, *, seed: int = 0) -> RankingLoss:
    r"""Return the mean of a loss over random scores, an estimate of its expectation under the Plackett-Luce model.

    $$L = \frac1S \sum_{k=1}^S L_{\mathrm{of}}(s + \tau G_k), \qquad G_{ki} = -\log(-\log U_{ki})$$

    The $U_{ki}$ are uniform. Sorting by $s + \tau G_k$ draws an order from the Plackett-Luce model with the scores
    $s/\tau$ (Yellott 1977). The gradient is that of the loss at the drawn scores (Bruch et al., WSDM 2020). Each
    call draws anew.

    Args:
        of: the loss, or its text.
        samples: $S$, the number of draws of each call: its time and memory are those of so many copies of the lists.
        temperature: $\tau$, the scale of the noise, in units of the scores.
        seed: the seed of the draws; the same calls of a loss that is made again repeat them.

    Returns:
        The loss.

    Raises:
        ValueError: for an unknown loss, fewer than one sample, or a temperature that isn't above 0.

    >>> rb.sampled("nDCG", samples=100)(torch.tensor([0.9, 0.5, 0.1]), [0, 1, 0], [0, 3])
    tensor([-0.6572])
    """
    from rankbound.losses import loss

    return SampledLoss(loss(of), samples, temperature, seed)


class SampledLoss(RankingLoss):
    """The mean of a loss over scores with Gumbel noise, as `rankbound.sampled` returns it, with the same arguments."""

    _without_draws = "the loss itself"

    def __init__(self, of: RankingLoss, samples: int, temperature: float, seed: int) -> None:
        super().__init__()
        require_temperature(temperature)
        require("samples", samples, samples >= 1, "at least 1")
        self.of, self.samples, self.noise, self.seed = of, samples, temperature, seed
        # On the CPU, so that the draws don't depend on the device.
        self._generator = torch.Generator("cpu").manual_seed(seed)

    def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        if (facts := self.of.facts(relevance, lists)) is not None:
            known = partial(facts.select, torch.arange(len(lists), device=lists.device).repeat(self.samples))
            facts = known() if may_read(relevance) else lists._known(("facts", self._number), known, relevance)
        losses = self.of.of_batch(*self._drawn(scores, relevance, lists), facts)
        return losses.view(self.samples, -1).mean(0)

    def of_weighted_lists(self, scores: Tensor, relevance: Tensor, lists: Lists, weights: Tensor) -> Tensor:
        drawn = self._drawn(scores, relevance, lists)
        return self.of.of_weighted_lists(*drawn, weights.repeat(self.samples)).view(self.samples, -1).mean(0)

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Return a mask of the lists that are informative for the loss."""
        return self.of.informative(relevance, lists)

    @property
    def text(self) -> str:
        """The loss and its sampling, for people; `rankbound.loss` doesn't read it."""
        return f"sampled({self.of.full_text}, samples={self.samples}, temperature={self.noise:g}, seed={self.seed})"

    def _drawn(self, scores: Tensor, relevance: Tensor, lists: Lists) -> tuple[Tensor, Tensor, Lists]:
        """Return the lists once for each sample, with noise in their scores."""
        chance = torch.rand(self.samples, lists.n_items, generator=self._generator, dtype=torch.float64, device="cpu")
        noise = -self.noise * (-chance.clamp(min=torch.finfo(torch.float64).tiny).log()).log()
        noisy = (scores + noise.to(scores.device, scores.dtype, non_blocking=True)).flatten()
        copies = lists._known(("samples", self.samples), lambda: Lists.of_sizes(lists.sizes.repeat(self.samples)))
        return noisy, relevance.repeat(self.samples), copies
