"""A process of a group, which keeps its losses and the gradient that DistributedDataParallel gives it."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import rankbound as rb

N_FEATURES = 3
LOSSES = {
    "nDCG@3": rb.loss("nDCG@3", "min-max"),
    "ListMLE": rb.loss("ListMLE"),
    "squared": rb.loss("squared"),
    "sum": rb.loss("AP", "expectation") + 0.5 * rb.loss("RankNet"),
}
SHARDS = ([[2, 0, 1, 0], [1, 0], [0, 1, 0, 0, 2]], [[0, 0, 0], [1, 0, 0, 0], [0, 0]])
"""The relevance of the lists of each process; the second has fewer with a relevant item."""


def topics(*places: int) -> list[tuple[Tensor, Tensor]]:
    """Return features and relevance of each list of some shards."""
    kept = []
    for place in places:
        draws = torch.Generator().manual_seed(place)
        kept += [(torch.randn(len(row), N_FEATURES, generator=draws), torch.tensor(row)) for row in SHARDS[place]]
    return kept


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(N_FEATURES, 4), nn.Tanh(), nn.Linear(4, 1, bias=False), nn.Flatten(0))


def gradient(network: nn.Module) -> Tensor:
    return torch.cat([weight.grad.flatten() for weight in network.parameters() if weight.grad is not None])


def main(folder: Path) -> None:
    dist.init_process_group("gloo")
    place = dist.get_rank()
    features, relevance, offsets = rb.collate(topics(place))[:3]
    kept: dict[str, tuple[Tensor, Tensor]] = {}
    for name, loss in LOSSES.items():
        parallel = DistributedDataParallel(model())
        each = loss(parallel(features), relevance, offsets)
        informative = loss.count_informative(relevance, offsets)
        dist.all_reduce(informative)
        (each.sum() * dist.get_world_size() / informative.clamp(min=1)).backward()
        kept[name] = (each.detach(), gradient(parallel))
    torch.save(kept, folder / f"{place}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
