"""Claims about models of pairs: the functions of two items that give an order, and the mirror images of pairs."""

from collections.abc import Callable

import torch
from torch import Tensor

from rankbound.training.models import MLP
from rankbound_study.claims.all_orders import SAME
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.verdict import INCONCLUSIVE, REFUTED, Verdict, counted, holds

FEATURES, HIDDEN = 5, (16,)

TRIPLES = 200_000
"""Number of triples of random items for transitivity."""

POINTS = 100
"""Number of differences at which a function's gradient is taken."""

NETWORKS, ITEMS = 50, 30
"""Number of random networks, and of the items whose pairs each scores."""

PAIRS = 40

LINKS: dict[str, Callable[[Tensor], Tensor]] = {
    "RankNet": torch.sigmoid,
    "DirectRanker": lambda difference: torch.sigmoid(torch.tanh(difference)),
}
"""F of Li and Wu's eq. 1: the probability that the first item wins, given the difference of the scores."""


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def _random(*shape: int, generator: torch.Generator) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@decides("N04")
def direct_ranker_can_only_be_ranknet(evidence: Evidence) -> Verdict:
    """Decide by whether tanh(w.d (1 + (v.d)^2)) is odd, transitive and not a function of one linear score of d."""
    generator = _generator()
    w, v = _random(2, FEATURES, generator=generator)
    return verdict_on_second_network(
        lambda difference: torch.tanh(difference @ w * (1 + (difference @ v) ** 2)),
        "tanh(w·d (1 + (v·d)²))",
        w,
        generator,
    )


def verdict_on_second_network(
    second_network: Callable[[Tensor], Tensor], formula: str, w: Tensor, generator: torch.Generator
) -> Verdict:
    """Return refuted if a second network, of differences d, is a counter-example, else inconclusive."""
    a, b, c = _random(3, TRIPLES, FEATURES, generator=generator)
    first, second, third = (second_network(difference) for difference in (a - b, b - c, a - c))
    odd = bool(torch.equal(second_network(b - a), -first))
    chains = (first > 0) & (second > 0)
    broken = int((chains & (third <= 0)).sum())
    directions = _directions_of_slopes(second_network, 0.1 * _random(POINTS, FEATURES, generator=generator))
    as_scored = int(((first > 0) == ((a - b) @ w > 0)).sum())
    return Verdict(
        REFUTED if odd and broken == 0 and directions > 1 else INCONCLUSIVE,
        f"The second network {formula} is {'' if odd else 'not '}antisymmetric, breaks transitivity in {broken} of "
        f"{int(chains.sum()):,} random chains of three items, and changes along {directions} independent directions, "
        f"where a function of one score has one; its order is that of the score w·d for {as_scored:,} of "
        f"{TRIPLES:,} pairs.",
        statistic="independent directions of the slope",
        value=directions,
        n=TRIPLES,
        shown_in="figure_neural_links",
    )


def _directions_of_slopes(function: Callable[[Tensor], Tensor], at: Tensor) -> int:
    """Return the rank of the gradients at many points: 1 for any function of one linear score."""
    points = at.clone().requires_grad_()
    (slopes,) = torch.autograd.grad(function(points).sum(), points)
    return int(torch.linalg.matrix_rank(slopes, rtol=1e-6))


@decides("N05")
def a_network_of_the_joined_pair_is_not_transitive(evidence: Evidence) -> Verdict:
    """Test random networks of both items' features, and random differences of two scores."""
    generator = _generator()
    joined = sum(has_cycle(_of_joined_pairs(generator)) for _ in range(NETWORKS))
    differences = [_of_differences(generator) for _ in range(NETWORKS)]
    lawful = sum(
        bool((chances.diagonal() == 0.5).all())
        and bool(((chances + chances.T - 1).abs() <= SAME).all())
        and not breaks_transitivity(chances)
        for chances in differences
    )
    return Verdict(
        holds(joined > NETWORKS / 2 and lawful == NETWORKS),
        f"{joined} of {NETWORKS} random networks of the joined pair prefer a to b, b to c and c to a for some triple "
        f"of {ITEMS} items; {lawful} of {NETWORKS} differences of scores are reflexive, antisymmetric and transitive "
        "for all triples.",
        statistic="share of networks with a cycle",
        value=joined / NETWORKS,
        n=2 * NETWORKS,
    )


def _of_joined_pairs(generator: torch.Generator) -> Tensor:
    """Return the probability that each item beats each other one, by a network of both items' features."""
    network = MLP(2 * FEATURES, HIDDEN, "tanh", generator).double()
    items = _random(ITEMS, FEATURES, generator=generator)
    pairs = torch.cat([items.repeat_interleave(ITEMS, 0), items.repeat(ITEMS, 1)], dim=1)
    with torch.no_grad():
        return torch.sigmoid(network(pairs)).view(ITEMS, ITEMS)


def _of_differences(generator: torch.Generator) -> Tensor:
    """Return the same probabilities by the difference of the items' scores."""
    network = MLP(FEATURES, HIDDEN, "tanh", generator).double()
    with torch.no_grad():
        scores = network(_random(ITEMS, FEATURES, generator=generator))
    return torch.sigmoid(scores[:, None] - scores)


def breaks_transitivity(chances: Tensor) -> bool:
    """Check for items of which a beats b and b beats c, but a does not beat c."""
    wins, chains = _wins_and_chains(chances)
    return bool((chains & ~wins & ~torch.eye(len(wins), dtype=torch.bool)).any())


def has_cycle(chances: Tensor) -> bool:
    """Check for items of which a beats b, b beats c and c beats a, but a does not beat c."""
    wins, chains = _wins_and_chains(chances)
    return bool((chains & ~wins & wins.T).any())


def _wins_and_chains(chances: Tensor) -> tuple[Tensor, Tensor]:
    """Return which items beat which, and which items beat one that beats which."""
    wins = (chances > 0.5) & ~torch.eye(len(chances), dtype=torch.bool)
    return wins, (wins.double() @ wins.double()) > 0


@decides("N16")
def the_mirror_image_says_nothing_new(evidence: Evidence) -> Verdict:
    """Compare loss and gradient of pairs and of their mirror images, without and with a bias for the first item."""
    same = {bias: sum(_mirrors_agree(link, bias) for link in LINKS.values()) for bias in (0.0, 0.5)}
    return counted(
        same[0.0],
        len(LINKS) * PAIRS,
        f"Loss and gradient of a pair and of its mirror image are equal in {same[0.0]} of {len(LINKS) * PAIRS} cases "
        f"(a random network each, with the links of {' and '.join(LINKS)}), and with a bias for the first item in "
        f"{same[0.5]}.",
        "share of pairs equal to their mirror image",
    )


def _mirrors_agree(link: Callable[[Tensor], Tensor], bias: float) -> int:
    """Count the pairs with the loss and the gradient of their mirror image, each under its own random network."""
    generator, agreeing = _generator(), 0
    for _ in range(PAIRS):
        network = MLP(FEATURES, HIDDEN, "tanh", generator).double()
        items = _random(2, FEATURES, generator=generator)
        agreeing += torch.allclose(
            _loss_and_gradient(network, items, 1, link, bias),
            _loss_and_gradient(network, items.flip(0), -1, link, bias),
            rtol=0,
            atol=SAME,
        )
    return agreeing


def _loss_and_gradient(
    network: MLP, items: Tensor, outcome: int, link: Callable[[Tensor], Tensor], bias: float
) -> Tensor:
    """Apply Li and Wu's eq. 2, with corrected sign, to one pair; `outcome` is 1 if the first item won, else -1."""
    first, second = network(items)
    chance = link(first - second + bias)
    loss = -((1 + outcome) / 2 * chance.log() + (1 - outcome) / 2 * (1 - chance).log())
    slopes = torch.autograd.grad(loss, list(network.parameters()))
    return torch.cat([loss.detach().reshape(1), *(slope.flatten() for slope in slopes)])
