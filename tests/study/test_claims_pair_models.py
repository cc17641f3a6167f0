"""Claims about models of pairs: what is a counter-example, and what is none."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from rankbound_study.claims import other_theorems
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import verdict_on
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED

EVIDENCE = Evidence("thesis")
W = torch.tensor([1.0, -2.0, 0.5, 0.0, 1.0], dtype=torch.float64)
V = torch.tensor([0.5, 1.0, 1.0, -1.0, 0.0], dtype=torch.float64)

differences = other_theorems._of_differences


def test_direct_ranker_has_a_counter_example() -> None:
    verdict = verdict_on("N04", EVIDENCE)
    assert verdict.verdict == REFUTED
    assert verdict.value == 2
    assert "200,000 of 200,000" in verdict.reason


@pytest.mark.parametrize(
    "network",
    [
        lambda d: torch.tanh(d @ W),
        lambda d: (d @ W) ** 3 + 5 * (d @ W),
        lambda d: torch.tanh(d @ W * (1 + (d @ V) ** 2)) + 0.1,
        lambda d: torch.tanh(d @ W * (1 + d @ V)),
        lambda d: torch.tanh((d @ W) ** 3 - 8 * (d @ V)),
    ],
    ids=["link of one score", "other link of one score", "not zero at zero", "not odd", "not transitive"],
)
def test_what_is_no_counter_example_shows_nothing(
    network: Callable[[Tensor], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_theorems, "TRIPLES", 20_000)
    generator = torch.Generator().manual_seed(3)
    assert other_theorems.verdict_on_second_network(network, "", W, generator).verdict == INCONCLUSIVE


def test_networks_of_the_joined_pair_have_cycles() -> None:
    verdict = verdict_on("N05", EVIDENCE)
    assert verdict.verdict == CONFIRMED
    assert "50 of 50 differences" in verdict.reason


def test_joined_pairs_without_cycles_refute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_theorems, "_of_joined_pairs", other_theorems._of_differences)
    assert verdict_on("N05", EVIDENCE).verdict == REFUTED


def unsure(generator: torch.Generator) -> Tensor:
    return differences(generator) + 1e-6


def lopsided(generator: torch.Generator) -> Tensor:
    chances = differences(generator)
    chances[0, 1] += 1e-6
    return chances


def in_a_ring(generator: torch.Generator) -> Tensor:
    return torch.tensor([[0.5, 0.9, 0.1], [0.1, 0.5, 0.9], [0.9, 0.1, 0.5]])


@pytest.mark.parametrize("of_differences", [unsure, lopsided, in_a_ring])
def test_all_three_properties_count(
    of_differences: Callable[[torch.Generator], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_theorems, "NETWORKS", 5)
    monkeypatch.setattr(other_theorems, "_of_differences", of_differences)
    assert verdict_on("N05", EVIDENCE).verdict == REFUTED


def test_cycles_and_transitivity_of_three_items() -> None:
    ring = in_a_ring(torch.Generator())
    assert other_theorems.has_cycle(ring)
    assert other_theorems.breaks_transitivity(ring)
    line = torch.tensor([[0.5, 0.9, 0.9], [0.1, 0.5, 0.9], [0.1, 0.1, 0.5]])
    assert not other_theorems.has_cycle(line)
    assert not other_theorems.breaks_transitivity(line)
    # The first beats the second, that the third, and nobody knows about the ends.
    open_ended = torch.tensor([[0.5, 0.9, 0.5], [0.1, 0.5, 0.9], [0.5, 0.1, 0.5]])
    assert not other_theorems.has_cycle(open_ended)
    assert other_theorems.breaks_transitivity(open_ended)
    # Everybody beats everybody: odd, but transitive.
    assert not other_theorems.breaks_transitivity(torch.full((3, 3), 0.9))


def test_mirror_images_say_nothing_new() -> None:
    verdict = verdict_on("N16", EVIDENCE)
    assert verdict.verdict == CONFIRMED
    assert "first item in 0" in verdict.reason


def test_a_link_that_favours_the_first_refutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_theorems, "LINKS", {"RankNet": lambda difference: torch.sigmoid(difference + 0.01)})
    assert verdict_on("N16", EVIDENCE).verdict == REFUTED
