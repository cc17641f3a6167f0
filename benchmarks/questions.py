"""The questions as rows: their cells (sizes and data), and the contenders of each; `questions.yaml` has the words."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

import rankbound as rb
from benchmarks import data, losses
from benchmarks.evaluators import ARRAYS, DICTIONARIES, DOORS, FILES, FRAMES, OBJECTS, evaluated, held_as
from benchmarks.losses import step_of
from benchmarks.runner import OURS, Call, Cell, Contender, Elapsed, Pace, Question, seconds_of
from rankbound.bounds.score_distribution import score_distributions

KEPT = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**30)}
ALLOCATORS: Mapping[str, Mapping[str, str]] = {"default": {}, "kept": KEPT}
"""Setting -> environment of the process. glibc returns large tensors to the system after every use, and each new one
costs a page fault per page; `kept` makes it keep up to a gigabyte, for all contenders."""


# One list, and lists of very different lengths.


_BY_CHOICE = step_of(losses.rankbound_loss, "nDCG", method="auto")
AUTO = Contender(OURS, _BY_CHOICE)
DIRECT = Contender(f"{OURS}, direct", step_of(losses.rankbound_loss, "nDCG", method="direct"), largest=20_000)
DIRECT_TORCH = Contender("torch, P x N", step_of(losses.direct_torch_loss), largest=20_000)
PADDED_TORCH = Contender("torch, N x N", step_of(losses.padded_torch_loss, "nDCG"), largest=8_000)
RAX = Contender("Rax", partial(losses.rax_step, "nDCG"), "rax", largest=8_000)
_OTHER_LOSS = Contender("pytorchltr*", step_of(losses.pytorchltr_loss, "LambdaRank"), "pytorchltr", False, 3_000)
OF_ONE_LIST = (AUTO, DIRECT, DIRECT_TORCH, PADDED_TORCH, RAX, _OTHER_LOSS)

LENGTHS = (100, 300, 1_000, 3_000, 8_000, 20_000, 100_000, 1_000_000)
LONG_LENGTHS = (8_000, 20_000, 100_000, 1_000_000)


def one_list(lengths: Sequence[int], quick_lengths: Sequence[int], quick: bool) -> Iterator[Cell]:
    for n in quick_lengths if quick else lengths:
        yield Cell(f"{n:,}", n, data.one_list(n), OF_ONE_LIST, few=data.one_list(100))


def _ragged(quick: bool) -> Iterator[Cell]:
    batch = data.lists_of(data.movielens_sizes(4 if quick else 32))
    size = f"{len(batch.sizes)} lists, {min(batch.sizes)} to {max(batch.sizes):,} items"
    yield Cell(size, len(batch.sizes), batch, [AUTO, DIRECT_TORCH, PADDED_TORCH, RAX])


# Batches of short lists.

SHORT = {"128 x 10": (128, 10), "512 x 10": (512, 10), "128 x 100": (128, 100), "64 lists of 10 to 324": None}


def _short(quick: bool) -> Iterator[Cell]:
    torch.set_num_threads(1)
    for place, (size, equal) in enumerate([*SHORT.items()][: 1 if quick else None]):
        batch = data.lists_of([(equal[1], equal[1] // 10)] * equal[0]) if equal else data.uneven_lists()
        for loss in losses.LOSSES[: 2 if quick else None]:
            contenders = [
                Contender(OURS, step_of(losses.rankbound_loss, loss, fast="1")),
                Contender("reference", step_of(losses.rankbound_loss, loss, fast="0")),
                Contender("padded torch", step_of(losses.padded_torch_loss, loss)),
            ]
            for name, (package, known, prepare) in losses.PEERS.items():
                if loss in known:
                    contenders.append(Contender(name, prepare(loss), package, same=False))
            yield Cell(f"{loss}, {size}", place, batch, contenders)


# Evaluation of a run, handed over as users hold it.

EVALUATED, ITEMS = 10_000, 120
_OF_DOOR: Mapping[str, Sequence[str]] = {
    ARRAYS: ["scikit-learn (nDCG only)"],
    OBJECTS: ["ranx", "pytrec_eval"],
    DICTIONARIES: ["pytrec_eval", "ranx", "ir_measures"],
    FILES: ["pytrec_eval", "ranx", "ir_measures"],
    FRAMES: ["ranx", "ir_measures"],
}


def _evaluation(quick: bool, lists: int = EVALUATED, doors: Sequence[str] = DOORS) -> Iterator[Cell]:
    lists = lists // 50 if quick else lists
    runs, few = data.matrices(lists, ITEMS), data.matrices(10, ITEMS)
    for place, door in enumerate(doors):
        contenders = [Contender(OURS, partial(evaluated, OURS, door=door))]
        for name, package in ((one, {"scikit-learn (nDCG only)": "sklearn"}.get(one, one)) for one in _OF_DOOR[door]):
            contenders.append(Contender(name, partial(evaluated, package, door=door), package))
        yield Cell(f"from {door}, {lists:,} lists of {ITEMS}", place, runs, contenders, few)


# Tables of distributions.

DISTRIBUTED = ("nDCG", "AP", "nRBP")
TABULATED, SAMPLES = 48, 300_000


def _distributions(quick: bool) -> Iterator[Cell]:
    pairs = data.movielens_sizes(3 if quick else TABULATED)
    contenders = [Contender(OURS, partial(partial, _tables, samples=SAMPLES, method="exact"))]
    # So many orders of each list are drawn, and the time is scaled up.
    drawn = {"sampled": (partial(_tables, method="sampled"), 1_500), "order by order": (_order_by_order, 200)}
    for name, (draw, count) in drawn.items():
        contenders.append(Contender(name, partial(partial, draw, samples=count), scale=SAMPLES / count))
    yield Cell(f"{len(pairs)} sizes x {len(DISTRIBUTED)} metrics", len(pairs), pairs, contenders)


def _tables(pairs: list[tuple[int, int]], samples: int, method: Any) -> None:
    for metric in DISTRIBUTED:
        list(score_distributions(metric, pairs, method=method, samples=samples))


def _order_by_order(pairs: list[tuple[int, int]], samples: int) -> None:
    draws = np.random.default_rng(0)
    for n, p in pairs:
        relevance, discounts = (np.arange(n) < p).astype(float), 1 / np.log2(np.arange(n) + 2)
        ideal = discounts[:p].sum()
        scores = np.empty((samples, len(DISTRIBUTED)))
        for row in scores:
            ranks = np.flatnonzero(draws.permutation(relevance)) + 1
            counts = np.arange(1, p + 1)
            row[:] = discounts[ranks - 1].sum() / ideal, (counts / ranks).mean(), (ranks - counts).sum()
        for column in scores.T:
            np.unique(column, return_counts=True)


# LETOR text to lists.


def _to_lists(quick: bool) -> Iterator[Cell]:
    def ours(parts: Sequence[Path]) -> Call:
        return lambda: [rb.read_lists(path) for path in parts]

    def peer(parts: Sequence[Path]) -> Call:
        from sklearn.datasets import load_svmlight_file

        options = {"n_features": data.MQ2008.width, "dtype": np.float32, "query_id": True}
        return lambda: [load_svmlight_file(str(path), **options) for path in parts]

    topics = 50 if quick else 2_000
    with tempfile.TemporaryDirectory(prefix="rankbound-letor-") as name:
        parts = list(data.write_parts(Path(name), replace(data.MQ2008, topics=topics, rows=20 * topics)))
        contenders = Contender(OURS, ours, same=False), Contender("scikit-learn", peer, "sklearn", same=False)
        yield Cell("LETOR text to lists", 0, parts, contenders)


# Trees: lists, rows of a list, and features.

BOOSTED = {"470 x 20": (470, 20, 46), "2,000 x 120": (2_000, 120, 136)}
PEER = "LightGBM lambdarank"
OBJECTIVES = ("LambdaRank", "RankNet", "nDCG", "nDCG min-max", "nDCG@10 min-max", "AP min-max")
TREES = {"num_leaves": 15, "learning_rate": 1e-4, "feature_fraction": 0.5, "metric": "none", "num_threads": 1}
TREES |= {"verbosity": -1, "deterministic": True, "force_row_wise": True}


def _boosting(quick: bool) -> Iterator[Cell]:
    for place, (size, numbers) in enumerate(({"20 x 20": (20, 20, 46)} if quick else BOOSTED).items()):
        rows = data.judged_rows(*numbers)
        for objective in OBJECTIVES:
            works = {OURS: objective, PEER: None}
            contenders = [Contender(name, partial(_tree, one), "lightgbm") for name, one in works.items()]
            yield Cell(f"{objective}, {size}", place, rows, contenders)


def _tree(objective: str | None, rows: data.Matrices) -> Call:
    import lightgbm as lgb

    start = np.random.default_rng(0).normal(size=rows[1].size)
    settings = {**TREES, "objective": "none" if objective else "lambdarank"}
    booster = lgb.Booster(settings, data.lightgbm_rows(rows, init_score=start))
    return partial(booster.update, fobj=rb.boosting_objective(*objective.split())) if objective else booster.update


# Losses for rerankers.


def _rerankers(quick: bool) -> Iterator[Cell]:
    for n in (10,) if quick else (100, 1_000):
        for loss, makes in {**losses.RERANKED, "training step": losses.TRAINED}.items():
            trained = makes is losses.TRAINED
            step = partial(losses.step_of_model, of_texts=trained)
            ways = {name: partial(step, make) for name, make in makes.items()}
            contenders = [Contender(name, way, "sentence_transformers", same=not trained) for name, way in ways.items()]
            yield Cell(f"{loss}, {n:,} documents", n, n, contenders, few=10)


# Training steps of a model and a loss: as one graph, and all of an epoch.


def _network(*widths: int) -> torch.nn.Sequential:
    layers = [layer for pair in pairwise(widths) for layer in (torch.nn.Linear(*pair), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers[:-1])


def _compiled(quick: bool) -> Iterator[Cell]:
    ways = {OURS: None, f"{OURS}, compiled": "eager" if quick else "inductor"}
    for n in (10,) if quick else (10, 100):
        for name in ("nDCG", "AP", "softmax"):
            contenders = [Contender(way, partial(_graph_step, name, backend)) for way, backend in ways.items()]
            yield Cell(f"{name}, 128 lists of {n}", 128 * n, data.judged_rows(128, n, 46), contenders)


def _graph_step(name: str, backend: str | None, rows: data.Matrices) -> Call:
    """Return a forward and backward step of a small network and a loss, of the mean loss and its first gradient."""
    features, grades = map(torch.from_numpy, rows)
    features, relevance = features.flatten(0, 1), (grades.flatten() > 0).to(torch.int64)
    torch.manual_seed(0)
    network, loss = _network(46, 64, 1), rb.loss(name)
    offsets = torch.arange(len(grades) + 1) * grades.shape[1]

    def mean(features: torch.Tensor) -> torch.Tensor:
        return loss(network(features).squeeze(1), relevance, offsets, reduction="mean")

    forward = mean if backend is None else torch.compile(mean, fullgraph=True, dynamic=True, backend=backend)

    def call() -> tuple[float, Any]:
        network.zero_grad()
        value = forward(features)
        value.backward()
        return value.item(), network[0].weight.grad

    return call


# Training of a network by ListNet: topics, items of each, features; the fewer and the more epochs.

TRAINED: Mapping[str, tuple[tuple[int, int, int], tuple[int, int]]] = {
    "MQ2008": ((470, 20, 46), (10, 210)),
    "MSLR-WEB10K": ((10_000, 120, 136), (1, 6)),
}
HIDDEN, BATCH = [64, 32], 64


def _training(quick: bool) -> Iterator[Cell]:
    trainers: Mapping[str, tuple[Callable[[data.Matrices, int], object], str | None]] = {
        OURS: (_by_ranker, None),
        f"{OURS}, without validation": (partial(_by_ranker, share=0), None),
        "allRank": (_by_allrank, "allrank"),
        "LightGBM, a tree": (_by_lightgbm, "lightgbm"),
    }
    for place, (name, (shape, epochs)) in enumerate(TRAINED.items()):
        shape, epochs = ((40, *shape[1:]), (1, 21)) if quick else (shape, epochs)
        ways = {trainer: (partial(_of_an_epoch, train, epochs), need) for trainer, (train, need) in trainers.items()}
        contenders = [Contender(trainer, *way, same=False) for trainer, way in ways.items()]
        rows, few = data.judged_rows(*shape), data.judged_rows(20, *shape[1:])
        yield Cell(f"{name}, {shape[0]:,} x {shape[1]}", place, rows, contenders, few)


def _of_an_epoch(train: Callable[[data.Matrices, int], object], epochs: tuple[int, int], rows: data.Matrices) -> Call:
    """Return the call that trains for few epochs and for more, by whose difference an epoch takes its time."""

    def call() -> Elapsed:
        few, more = (seconds_of(partial(train, rows, count)) for count in epochs)
        return Elapsed((more - few) / (epochs[1] - epochs[0]))

    return call


def _parted(rows: data.Matrices) -> list[data.Matrices]:
    """Return the rows of the training topics, and of the tenth that validates."""
    cut = len(rows[0]) * 9 // 10
    return [(rows[0][:cut], rows[1][:cut]), (rows[0][cut:], rows[1][cut:])]


def _by_ranker(rows: data.Matrices, epochs: int, *, share: float = 0.1) -> None:
    recipe: dict[str, Any] = {"model": "mlp", "hidden": HIDDEN, "loss": "ListNet", "batch_size": BATCH, "patience": 0}
    lists = data.judged_lists(*(rows if share else _parted(rows)[0]))
    rb.train_ranker(lists, **recipe, metric="nDCG@10", epochs=epochs, validation_share=share, device="cpu")


def _by_allrank(rows: data.Matrices, epochs: int) -> None:
    models, training = losses.allrank("models.model"), losses.allrank("training.train_utils")
    network = models.FCModel([*HIDDEN], False, "ReLU", 0.0, rows[0].shape[2])
    model = models.LTRModel(network, None, models.OutputLayer(HIDDEN[-1], 1))
    columns = ((*map(torch.from_numpy, part), torch.arange(part[1].shape[1])) for part in _parted(rows))
    sets = [TensorDataset(x, y.float(), places.expand(y.shape)) for x, y, places in columns]
    loaders = [DataLoader(one, batch_size=BATCH, shuffle=place == 0) for place, one in enumerate(sets)]
    loss, optimiser = losses.allrank("models.losses").listNet, torch.optim.Adam(model.parameters(), lr=0.003)
    config = SimpleNamespace(metrics={"ndcg": [10]}, val_metric="ndcg_10")
    with tempfile.TemporaryDirectory() as folder:
        last = None, epochs, "cpu", folder, folder
        training.fit(epochs, model, loss, optimiser, None, *loaders, config, *last)


def _by_lightgbm(rows: data.Matrices, epochs: int) -> None:
    import lightgbm as lgb

    settings = {"objective": "lambdarank", "num_leaves": 31, "metric": "ndcg", "eval_at": [10], "verbosity": -1}
    settings["num_threads"] = torch.get_num_threads()
    training, validation = map(data.lightgbm_rows, _parted(rows))
    lgb.train(settings, training, num_boost_round=epochs, valid_sets=[validation])


# What `--guard` compares with `guard.csv`: for each kind of work one ratio, to a common peer or a plain reference.

GUARD = "guard"
_GUARDED = ("softmax, 128 x 10", "nDCG, 128 x 10", "nDCG, 128 x 100", "nDCG, 64 lists of 10 to 324")


def _guard(quick: bool) -> Iterator[Cell]:
    def pair(size: str, given: Any, ours: Any, name: str, peer: Any) -> Cell:
        return Cell(size, 0, given, [Contender(OURS, ours, same=False), Contender(name, peer, same=False)])

    for cell in _evaluation(quick, doors=[ARRAYS, DICTIONARIES]):
        yield replace(cell, size=f"evaluation {cell.size}", contenders=cell.contenders[:2])
    for cell in _short(quick):
        if cell.size in _GUARDED:
            yield replace(cell, contenders=[replace(cell.contenders[place], same=False) for place in (0, 2)])
    yield from _to_lists(quick)
    long = data.one_list(1_000 if quick else 100_000)
    yield pair("one list of 100,000", long, _BY_CHOICE, "sorting", lambda batch: batch.scores.sort)
    imports = _process([sys.executable, "-c", "import numpy, polars"])
    yield pair("command line", data.matrices(10, ITEMS), _evaluate, "import of NumPy and polars", lambda _: imports)
    lists, epoch = data.judged_rows(50 if quick else 1_000, 20, 46), partial(partial, _by_ranker, epochs=1, share=0)
    forward = partial(_network(46, *HIDDEN, 1), torch.from_numpy(lists[0]))
    yield pair("an epoch of a network", lists, epoch, "its layers, forward", lambda _: forward)


# What people do most, in one run: rows of other questions, files of TREC's size, and starts.


def _files(quick: bool, count: int = 3) -> Iterator[Cell]:
    """Yield the evaluation of TREC files, from their paths to three means, by the first contenders."""
    shape, of = (40, 100) if quick else (7_000, 1_000), partial(evaluated, door=FILES, count=3)
    peer = Contender("pytrec_eval", partial(of, "pytrec_eval"), "pytrec_eval")
    contenders = Contender(OURS, partial(of, OURS)), peer, Contender("trec_eval", _trec_eval, "trec_eval", same=False)
    size, runs, few = "TREC files, {:,} x {:,}".format(*shape), data.matrices(*shape), data.matrices(10, ITEMS)
    yield Cell(size, 0, runs, contenders[:count], few)


def _trec_eval(runs: data.Matrices) -> Call:
    """Return the call of the C program, if it is on the path; it starts in a few milliseconds."""
    measures = ["-m", "ndcg_cut.10", "-m", "map", "-m", "recip_rank"]
    return _process(["trec_eval", *measures, *held_as(FILES, runs)[::-1]])


def _process(command: list[str]) -> Call:
    return partial(subprocess.run, command, check=True, capture_output=True)


def _evaluate(runs: data.Matrices) -> Call:
    """Return the call of the command line."""
    return _process([sys.executable, "-m", "rankbound", "evaluate", *held_as(FILES, runs), "-m", "nDCG@10"])


def _starts(quick: bool) -> Iterator[Cell]:
    for name, work in {"first AP": "rb.metric('AP')", "first minimum": "rb.minimum('nDCG', 1_000, 10)"}.items():
        # The first work in a new process says how long it took after its imports.
        lines = "import time, numpy", "import rankbound as rb", "begin = time.perf_counter()", work
        first = _process([sys.executable, "-c", "\n".join([*lines, "print(time.perf_counter() - begin)"])])
        ours = Contender(OURS, lambda _, first=first: lambda: Elapsed(first().stdout), same=False)
        yield Cell(f"{name} of a process", 0, None, [ours])
    yield Cell("command line, 20 lines", 0, data.matrices(2, 10), [Contender(OURS, _evaluate, same=False)])


_STEPS = ("softmax, 128", "nDCG, 128", "nDCG, 64")
_LEFT_OUT = ("reference", "ir_measures", *losses.PEERS)


def _people(quick: bool) -> Iterator[Cell]:
    """Yield the rows, whose places the goals name."""
    held, half = [door for door in DOORS if door != FILES], _evaluation(quick, EVALUATED // 2, [ARRAYS])
    evaluations = chain(_files(quick), _evaluation(quick, doors=held), half, _starts(quick))
    steps = (cell for cell in _short(quick) if cell.size.startswith(_STEPS))
    for place, cell in enumerate(chain(evaluations, steps, _to_lists(quick))):
        contenders = [one for one in cell.contenders if one.name not in _LEFT_OUT]
        yield replace(cell, n=place, contenders=contenders)


_BOTH = ("default", "kept")
QUESTIONS = {
    "loss": Question(partial(one_list, LENGTHS, LENGTHS[:3]), 1e-3, settings=_BOTH),
    "ragged": Question(_ragged, 1e-3, settings=_BOTH),
    "short": Question(_short, 1e-4),
    "memory": Question(partial(one_list, LONG_LENGTHS, (1_000,)), settings=_BOTH, in_memory=True),
    "evaluation": Question(_evaluation, 1e-9),
    "distributions": Question(_distributions),
    "boosting": Question(_boosting),
    "compiled": Question(_compiled, 1e-5),
    "training": Question(_training, pace=Pace(fewest=1, most=3, seconds=30.0, turn=0.0)),
    "training-memory": Question(_training, in_memory=True),
    "rerankers": Question(_rerankers, 1e-4),
    "rerankers-memory": Question(_rerankers, in_memory=True),
    "people": Question(_people, 1e-4),
    "people-memory": Question(partial(_files, count=2), in_memory=True),
    GUARD: Question(_guard, 1e-9, settings=("kept",), pace=Pace(fewest=7, most=30, seconds=6.0, turn=0.05)),
}
