"""The questions as rows: what they are about, their cells (sizes and data), and the contenders of each.

`measure` answers one. Contenders take turns at the work of a cell; those that are not installed, or would take too long
or too much memory, are left out and say why. All data are generated from fixed seeds.
"""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from benchmarks import losses
from benchmarks.generated_sets import MQ2008, PARTS, generated_source, sizes_of, write_queries
from benchmarks.measure import FULL, LONGEST_CALL, OURS, QUICK, ROOT, Call, Pace, Row, added_peak, race
from benchmarks.rerankers import RERANKED, TRAINED, step_of_model

LARGEST_MEMORY = 6e9
"""Largest number of bytes that a call may need, estimated from its number of pairs."""
PATIENCE = 40.0
"""Longest run time of a process that measures memory in seconds, including its start."""

KEPT = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**30)}
ALLOCATORS: Mapping[str, Mapping[str, str]] = {"default": {}, "kept": KEPT}
"""Setting -> environment of the process. glibc returns large tensors to the system after every use, and each new one
costs a page fault per page; `kept` makes it keep up to a gigabyte, for all contenders."""


@dataclass(frozen=True)
class Contender:
    """How a library does the work of a cell.

    Attributes:
        prepare: makes the call from the cell's data, which is not timed.
        own: True if it is measured without peers, too.
        package: the package that it needs.
        same: True if its results are to agree with those of the other contenders.
        pairs: the number of pairs in the data, to which its time is proportional.
        bytes_per_pair: predicts its memory, rounded up from the results of `memory`; 0 if it is no limit.
        scale: multiplies its time if a call does only a share of the work.
        note: the remark on its result, given the seconds of its preparation and of a call.
    """

    name: str
    prepare: Callable[[Any], Call]
    own: bool = False
    package: str | None = None
    same: bool = True
    pairs: Callable[[Any], int] = lambda data: 0
    bytes_per_pair: float = 0
    scale: float = 1.0
    note: Callable[[float, float], str] = lambda prepared, seconds: ""

    def obstacle(self, data: Any, seconds_per_pair: Mapping[str, float]) -> str | None:
        """Return the reason why the contender cannot run on these data, or None."""
        if self.package is not None and find_spec(self.package) is None:
            return f"{self.package} is not installed"
        pairs = self.pairs(data)
        if pairs * self.bytes_per_pair > LARGEST_MEMORY:
            return f"would need {pairs * self.bytes_per_pair / 1e9:.0f} GB"
        seconds = seconds_per_pair.get(self.name, 0) * pairs
        return f"would take about {seconds:.0f} s" if seconds > LONGEST_CALL else None


@dataclass(frozen=True)
class Cell:
    """A size with its data; on the data `few`, a first call loads and compiles before anything is measured."""

    size: str
    n: int
    data: Any
    contenders: Sequence[Contender]
    few: Any = None


@dataclass(frozen=True)
class Question:
    """A row of the table of questions; `questions.yaml` says what each is about.

    Attributes:
        cells: yields the cells, at full or (given True) at quick sizes; the first contender is the reference.
        check: raises ArithmeticError if results by contender differ.
        settings: the allocators under which it is measured.
        in_memory: True if memory is measured, not time.
        pace: the length of a race at full sizes.
    """

    cells: Callable[[bool], Iterator[Cell]]
    check: Callable[[Mapping[str, Any]], None] | None = None
    settings: tuple[str, ...] = ("default",)
    in_memory: bool = False
    pace: Pace = FULL


def measure(name: str, *, quick: bool = False, peers: bool = True, label: str = "") -> list[Row]:
    """Return the measured rows of a question, ours first within each size."""
    question = QUESTIONS[name]
    rows: list[Row] = []
    seconds_per_pair: dict[str, float] = {}
    # Steps of losses set `RANKBOUND_FAST`.
    with patch.dict(os.environ):
        for cell in question.cells(quick):
            if sys.stderr.isatty():
                # On a line that the next one overwrites.
                print(f"\r\x1b[K{label}: {cell.size}", end="", file=sys.stderr, flush=True)
            contenders = [one for one in cell.contenders if peers or one.own]
            obstacles = {one.name: one.obstacle(cell.data, seconds_per_pair) for one in contenders}
            running = [one for one in contenders if not obstacles[one.name]]
            rows += (_memories if question.in_memory else _times)(name, cell, running, quick, seconds_per_pair)
            unit = "MB" if question.in_memory else "s"
            rows += [Row(cell.size, cell.n, name, unit=unit, note=why) for name, why in obstacles.items() if why]
    return rows


def _times(
    question: str, cell: Cell, running: Sequence[Contender], quick: bool, seconds_per_pair: dict[str, float]
) -> list[Row]:
    """Return the rows of a race, after a check that results agree; note what the contenders take for a pair."""
    calls, prepared = {}, {}
    for one in running:
        if cell.few is not None:
            one.prepare(cell.few)()
        begin = time.perf_counter()
        calls[one.name] = one.prepare(cell.data)
        prepared[one.name] = time.perf_counter() - begin
    if not running or running[0] is not cell.contenders[0]:
        return []
    check = QUESTIONS[question].check
    alike = {one.name: calls[one.name]() for one in running if one.same and check}
    if check and alike:
        check(alike)
    scales = {one.name: one.scale for one in running}
    rows, taken = race(calls, QUICK if quick else QUESTIONS[question].pace, cell.size, cell.n, scales)
    # The first is never left out.
    seconds_per_pair |= {one.name: taken[one.name] / pairs for one in running[1:] if (pairs := one.pairs(cell.data))}
    notes = {one.name: one.note(prepared[one.name], taken[one.name]) for one in running}
    return [row if row.left_out else replace(row, note=notes[row.contender]) for row in rows]


def _memories(
    question: str, cell: Cell, running: Sequence[Contender], quick: bool, seconds_per_pair: dict[str, float]
) -> list[Row]:
    """Return what a step adds to the memory of a process of its own; who takes too long is left out from then on."""
    rows = []
    for one in running:
        row = Row(cell.size, cell.n, one.name, unit="MB")
        try:
            rows.append(replace(row, value=memory_of(question, str(quick), cell.size, one.name) / 1e6, rounds=1))
        except subprocess.TimeoutExpired:
            rows.append(replace(row, note=f"takes over {PATIENCE:.0f} s"))
            seconds_per_pair[one.name] = PATIENCE / max(one.pairs(cell.data), 1)
        except subprocess.CalledProcessError as error:
            rows.append(replace(row, note=f"failed: {(error.stderr.strip() or 'killed').splitlines()[-1]}"))
    ours = max(next((row.value for row in rows if row.contender == OURS), float("nan")), 1.0)
    return [replace(row, **dict.fromkeys(("ratio", "ratio_low", "ratio_high"), row.value / ours)) for row in rows]


def memory_of(*cell: str) -> float:
    """Return the bytes that a step adds to the peak memory of a new process: one may keep memory that it has used."""
    command = [sys.executable, "-m", "benchmarks.questions", *cell]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True, cwd=ROOT)
    return float(done.stdout)


# One list, and lists of very different lengths.


def _pairs(batch: losses.Batch) -> int:
    return sum(n * p for n, p in zip(batch.sizes, batch.relevant, strict=True))


def _padded_pairs(batch: losses.Batch) -> int:
    return len(batch.sizes) * max(batch.sizes) ** 2


def _step(prepare: Callable[..., Any], *arguments: Any, **keywords: Any) -> Callable[[losses.Batch], Call]:
    return partial(losses.step_of, partial(prepare, *arguments, **keywords))


_BY_CHOICE = _step(losses.rankbound_loss, "nDCG", method="auto")
AUTO = Contender(OURS, _BY_CHOICE, own=True, pairs=lambda batch: sum(batch.sizes))
_BY_PAIRS = _step(losses.rankbound_loss, "nDCG", method="direct")
DIRECT = Contender(f"{OURS}, direct", _BY_PAIRS, own=True, pairs=_pairs, bytes_per_pair=55)
DIRECT_TORCH = Contender("torch, P x N", _step(losses.direct_torch_loss), pairs=_pairs, bytes_per_pair=10)
_padded = partial(Contender, pairs=_padded_pairs)
PADDED_TORCH = _padded("torch, N x N", _step(losses.padded_torch_loss, "nDCG"), bytes_per_pair=18)
RAX = _padded("Rax", partial(losses.rax_step, "nDCG"), package="rax", bytes_per_pair=18)
_OTHER_LOSS = _step(losses.pytorchltr_loss, "LambdaRank")
PYTORCHLTR = _padded("pytorchltr*", _OTHER_LOSS, package="pytorchltr", same=False, bytes_per_pair=120)
OF_ONE_LIST = (AUTO, DIRECT, DIRECT_TORCH, PADDED_TORCH, RAX, PYTORCHLTR)
OF_RAGGED_LISTS = (AUTO, DIRECT_TORCH, PADDED_TORCH, RAX, PYTORCHLTR)

LENGTHS = (100, 300, 1_000, 3_000, 8_000, 20_000, 100_000, 1_000_000)
LONG_LENGTHS = (8_000, 20_000, 100_000, 1_000_000)
SHORT_LIST = 100


def _one_list(lengths: Sequence[int], quick_lengths: Sequence[int], quick: bool) -> Iterator[Cell]:
    for n in quick_lengths if quick else lengths:
        yield Cell(f"{n:,}", n, losses.one_list(n), OF_ONE_LIST, few=losses.one_list(SHORT_LIST))


def _ragged(quick: bool) -> Iterator[Cell]:
    batch = losses.movielens_lists(4 if quick else 32)
    size = f"{len(batch.sizes)} lists, {min(batch.sizes)} to {max(batch.sizes):,} items"
    yield Cell(size, len(batch.sizes), batch, OF_RAGGED_LISTS)


# Batches of short lists.

LOSSES = ("nDCG", "AP", "softmax", "ListNet", "ListMLE", "RankNet", "LambdaRank")
SHORT = {"128 x 10": (128, 10), "512 x 10": (512, 10), "128 x 100": (128, 100), "64 lists of 10 to 324": None}


def _short(quick: bool) -> Iterator[Cell]:
    torch.set_num_threads(1)
    for place, (size, equal) in enumerate([*SHORT.items()][: 1 if quick else None]):
        for loss in LOSSES[: 2 if quick else None]:
            contenders = [
                Contender(OURS, _step(losses.rankbound_loss, loss, fast="1"), own=True),
                Contender("reference", _step(losses.rankbound_loss, loss, fast="0"), own=True),
                Contender("padded torch", _step(losses.padded_torch_loss, loss)),
            ]
            contenders += [
                Contender(name, partial(prepare, loss), package=package, same=False)
                for name, (package, known, prepare) in losses.PEERS.items()
                if loss in known
            ]
            batch = _uneven() if equal is None else losses.lists_of([(equal[1], max(1, equal[1] // 10))] * equal[0])
            yield Cell(f"{loss}, {size}", place, batch, contenders)


def _uneven() -> losses.Batch:
    sizes = np.random.default_rng(0).lognormal(np.log(100), 0.6, 64).round().astype(int)
    return losses.lists_of([(int(n), int(n) // 3) for n in np.clip(sizes, 10, 324)])


# Evaluation of a run: matrices of scores and of relevance labels, handed over as users hold them.

EVALUATED, ITEMS = 10_000, 120
MEASURES = ("nDCG@10", "AP", "RR", "P@10")
_GRADE_SHARES = (0.52, 0.23, 0.19, 0.04, 0.02)
_Runs = tuple[Any, Any]
_Means = Callable[[], dict[str, float]]
DOORS = ("arrays", "own objects", "dictionaries", "files", "data frames")
ARRAYS, OBJECTS, DICTIONARIES, FILES, FRAMES = DOORS


def _evaluation(quick: bool) -> Iterator[Cell]:
    lists = 200 if quick else EVALUATED
    doors: Mapping[str, Mapping[str, tuple[str, Any]]] = {
        ARRAYS: {"scikit-learn (nDCG only)": ("sklearn", evaluated_by_scikit_learn)},
        OBJECTS: {"ranx": ("ranx", evaluated_by_ranx), "pytrec_eval": ("pytrec_eval", evaluated_by_pytrec_eval)},
    }
    others = {
        "pytrec_eval": ("pytrec_eval", evaluated_by_pytrec_eval),
        "ranx": ("ranx", evaluated_by_ranx),
        "ir_measures": ("ir_measures", evaluated_by_ir_measures),
    }
    doors |= {DICTIONARIES: others, FILES: others}
    doors |= {FRAMES: {name: made for name, made in others.items() if name != "pytrec_eval"}}
    for place, (door, peers) in enumerate(doors.items()):
        contenders = [Contender(OURS, partial(evaluated_by_rankbound, door=door), own=True)]
        for name, (package, evaluated) in peers.items():
            contenders.append(Contender(name, partial(evaluated, door=door), package=package))
        yield Cell(f"from {door}, {lists:,} lists of {ITEMS}", place, _runs(lists), contenders, few=_runs(10))


def _runs(lists: int) -> _Runs:
    """Return distinct scores and relevance labels, `(n_lists, n_items)`."""
    generator = np.random.default_rng(0)
    scores = generator.permuted(np.tile(np.arange(ITEMS) / ITEMS, (lists, 1)), axis=1)
    scores += generator.random(scores.shape) / (2 * ITEMS)
    grades = generator.choice(len(_GRADE_SHARES), size=scores.shape, p=_GRADE_SHARES)
    # Libraries treat undefined metrics differently, so every list has a relevant item.
    grades[:, 0] = np.maximum(grades[:, 0], 1)
    return scores, grades


def _held(runs: _Runs, door: str, library: str) -> list[Any]:
    """Return the run and the qrels as the users of a library hold them."""
    names = [f"d{place}" for place in range(runs[0].shape[1])]
    held: list[Any] = []
    for values, column in zip(runs, ("score", "relevance"), strict=True):
        rows = zip([f"q{row}" for row in range(len(values))], values.tolist(), strict=True)
        if door == FILES:
            lines = "{} Q0 {} 1 {!r} run" if column == "score" else "{} 0 {} {}"
            path = _folder() / f"{column}-{len(values)}.txt"
            path.write_text(
                "".join(
                    f"{lines.format(topic, *pair)}\n" for topic, row in rows for pair in zip(names, row, strict=True)
                )
            )
            held.append(str(path))
        elif door == FRAMES:
            import pandas as pd
            import polars as pl

            topics, items = np.repeat([f"q{row}" for row in range(len(values))], len(names)), names * len(values)
            columns = {"query_id": topics.tolist(), "doc_id": items, column: values.ravel()}
            # ranx refuses the texts of pandas 3.
            texts = {"query_id": object, "doc_id": object}
            held.append(pl.DataFrame(columns) if library == OURS else pd.DataFrame(columns).astype(texts))
        else:
            held.append({topic: dict(zip(names, row, strict=True)) for topic, row in rows})
    return held


@cache
def _folder() -> Path:
    """Return a folder that is removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="rankbound-benchmark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _same_means(results: Mapping[str, Mapping[str, float]]) -> None:
    expected = results[OURS]
    for name, means in results.items():
        for measure, mean in means.items():
            if not abs(mean - expected[measure]) <= 1e-9:
                raise ArithmeticError(f"{name}: found {mean} as the mean {measure}, expected {expected[measure]}")


def evaluated_by_rankbound(runs: _Runs, door: str = ARRAYS) -> _Means:
    import rankbound as rb

    metrics = [rb.metric(text) for text in ("nDCG(gain=linear)@10", *MEASURES[1:])]
    if door == ARRAYS:
        scores, grades = torch.from_numpy(runs[0].ravel()), torch.from_numpy(runs[1].ravel())
        offsets = torch.arange(len(runs[0]) + 1) * runs[0].shape[1]

        def means() -> Mapping[str, float]:
            return {name: float(one.mean()) for name, one in rb.evaluate(metrics, scores, grades, offsets).items()}
    else:
        run, qrels = _held(runs, door, OURS)
        if door == OBJECTS:
            run, qrels = rb.read_run(run), rb.read_qrels(qrels)

        def means() -> Mapping[str, float]:
            return rb.evaluate_run(run, qrels, metrics).means()

    return lambda: dict(zip(MEASURES, means().values(), strict=True))


def evaluated_by_ranx(runs: _Runs, door: str = OBJECTS) -> _Means:
    import ranx

    names = dict(zip(("ndcg@10", "map", "mrr", "precision@10"), MEASURES, strict=True))
    run, qrels = _held(runs, door, "ranx")

    def made() -> tuple[Any, Any]:
        if door == FILES:
            return ranx.Run.from_file(run, kind="trec"), ranx.Qrels.from_file(qrels, kind="trec")
        if door == FRAMES:
            columns = {"q_id_col": "query_id", "doc_id_col": "doc_id"}
            scored = ranx.Run.from_df(run, **columns, score_col="score")
            return scored, ranx.Qrels.from_df(qrels, **columns, score_col="relevance")
        return ranx.Run(run), ranx.Qrels(qrels)

    before = made() if door == OBJECTS else None

    def call() -> dict[str, float]:
        scored, judged = before or made()
        return {names[name]: float(mean) for name, mean in ranx.evaluate(judged, scored, list(names)).items()}

    return call


def evaluated_by_pytrec_eval(runs: _Runs, door: str = OBJECTS) -> _Means:
    import pytrec_eval

    names = dict(zip(("ndcg_cut_10", "map", "recip_rank", "P_10"), MEASURES, strict=True))
    measures = {"ndcg_cut.10", "map", "recip_rank", "P.10"}
    run, qrels = _held(runs, door, "pytrec_eval")
    before = pytrec_eval.RelevanceEvaluator(qrels, measures) if door == OBJECTS else None

    def call() -> dict[str, float]:
        scored, judged = run, qrels
        if door == FILES:
            with Path(run).open() as of_run, Path(qrels).open() as of_qrels:
                scored, judged = pytrec_eval.parse_run(of_run), pytrec_eval.parse_qrel(of_qrels)
        topics = (before or pytrec_eval.RelevanceEvaluator(judged, measures)).evaluate(scored).values()
        return {name: sum(topic[key] for topic in topics) / len(topics) for key, name in names.items()}

    return call


def evaluated_by_ir_measures(runs: _Runs, door: str = DICTIONARIES) -> _Means:
    import ir_measures

    measures = [ir_measures.parse_measure(name) for name in MEASURES]
    run, qrels = _held(runs, door, "ir_measures")

    def call() -> dict[str, float]:
        scored, judged = run, qrels
        if door == FILES:
            scored, judged = ir_measures.read_trec_run(run), ir_measures.read_trec_qrels(qrels)
        return {str(measure): mean for measure, mean in ir_measures.calc_aggregate(measures, judged, scored).items()}

    return call


def evaluated_by_numpy(runs: _Runs, door: str = ARRAYS) -> _Means:
    """Prepare the plain formulas of matrices without ties."""
    scores, grades = runs
    ranks = np.arange(1, scores.shape[1] + 1)
    discounts = (ranks <= 10) / np.log2(ranks + 1)

    def means() -> dict[str, float]:
        sorted_by = np.take_along_axis(grades, np.argsort(-scores, axis=1), axis=1)
        hits = sorted_by > 0
        dcg, ideal = ((own * discounts).sum(axis=1) for own in (sorted_by, -np.sort(-grades, axis=1)))
        precision = hits.cumsum(axis=1) / ranks
        columns = dcg / ideal, (precision * hits).sum(axis=1) / hits.sum(axis=1), 1 / (hits.argmax(axis=1) + 1)
        return dict(zip(MEASURES, map(float, map(np.mean, (*columns, precision[:, 9]))), strict=True))

    return means


def evaluated_by_scikit_learn(runs: _Runs, door: str = ARRAYS) -> _Means:
    from sklearn.metrics import ndcg_score

    return lambda: {MEASURES[0]: float(ndcg_score(runs[1], runs[0], k=10, ignore_ties=True))}


# Tables of distributions.

DISTRIBUTED = ("nDCG", "AP", "nRBP")
TABULATED, SAMPLES = 48, 300_000
DRAWN_AT_ONCE, DRAWN_SINGLY = 1_500, 200


def _distributions(quick: bool) -> Iterator[Cell]:
    pairs = losses.movielens_sizes(3 if quick else TABULATED)
    contenders = [
        Contender(OURS, lambda pairs: partial(_tables, "exact", pairs, SAMPLES), own=True),
    ]
    # So many orders of each list are drawn, and the time is scaled up.
    drawn = {"sampled": (partial(_tables, "sampled"), DRAWN_AT_ONCE), "order by order": (_order_by_order, DRAWN_SINGLY)}
    for name, (draw, count) in drawn.items():
        note = f"{count:,} orders a list drawn, times {SAMPLES // count:,}"
        prepare, scale = partial(partial, draw, samples=count), SAMPLES / count
        contenders.append(Contender(name, prepare, own=True, scale=scale, note=lambda *_, note=note: note))
    yield Cell(f"{len(pairs)} sizes x {len(DISTRIBUTED)} metrics", len(pairs), pairs, contenders)


def _tables(method: Any, pairs: list[tuple[int, int]], samples: int) -> None:
    from rankbound.bounds.score_distribution import score_distributions

    for metric in DISTRIBUTED:
        for _ in score_distributions(metric, pairs, method=method, samples=samples):
            pass


def _order_by_order(pairs: list[tuple[int, int]], samples: int) -> None:
    generator = np.random.default_rng(0)
    for n, p in pairs:
        relevance = np.zeros(n)
        relevance[:p] = 1
        discounts = 1 / np.log2(np.arange(n) + 2)
        ideal = discounts[:p].sum()
        scores = np.empty((samples, len(DISTRIBUTED)))
        for row in scores:
            ranks = np.flatnonzero(generator.permutation(relevance)) + 1
            counts = np.arange(1, p + 1)
            row[:] = discounts[ranks - 1].sum() / ideal, (counts / ranks).mean(), (ranks - counts).sum()
        for column in scores.T:
            np.unique(column, return_counts=True)


# LETOR text to parquet.


def _letor(quick: bool) -> Iterator[Cell]:
    with tempfile.TemporaryDirectory(prefix="rankbound-letor-") as name:
        parts = _write_letor(Path(name), 50 if quick else 20_000)
        megabytes = sum(part.stat().st_size for part in parts) / 1e6
        contenders = [
            Contender(OURS, partial(partial, _convert), own=True),
            Contender("scikit-learn, reading only", partial(partial, _read), package="sklearn"),
            Contender("scikit-learn and pyarrow", partial(partial, _read_and_write), package="sklearn"),
        ]
        contenders = [replace(one, note=lambda _, seconds: f"{megabytes / seconds:.0f} MB/s") for one in contenders]
        yield Cell(f"{megabytes:.0f} MB", round(megabytes), parts, contenders)


def _write_letor(folder: Path, topics: int) -> list[Path]:
    """Write five parts of about equal size, and an uncompressed archive of them in MQ2008's layout."""
    judged, random = replace(MQ2008, documents=True), np.random.default_rng(0)
    sizes = sizes_of(random, topics, 20 * topics, judged.spread)
    paths = [folder / f"S{part}.txt" for part in range(1, PARTS + 1)]
    with zipfile.ZipFile(folder / "MQ2008.zip", "w", zipfile.ZIP_STORED) as archive:
        for path, queries in zip(paths, np.array_split(np.arange(topics), PARTS), strict=True):
            with path.open("wb") as file:
                write_queries(file, random, judged, queries, sizes)
            archive.write(path, f"MQ2008/{path.name}")
    return paths


def _convert(parts: list[Path]) -> None:
    from rankbound_study.data.judged_files import convert
    from rankbound_study.data.sources import RawFile

    folder = parts[0].parent
    archive = folder / "MQ2008.zip"
    convert(RawFile(generated_source("mq2008", archive), archive), folder / "ours.parquet")


def _read(parts: list[Path]) -> list[tuple[Any, ...]]:
    from sklearn.datasets import load_svmlight_file

    return [load_svmlight_file(str(path), n_features=MQ2008.width, dtype=np.float32, query_id=True) for path in parts]


def _read_and_write(parts: list[Path]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"topic": pa.int64(), "relevance": pa.float64(), "features": pa.list_(pa.float32(), MQ2008.width)}
    with pq.ParquetWriter(parts[0].with_name("peer.parquet"), pa.schema(columns), compression="zstd") as writer:
        for features, relevance, query in (_read([part])[0] for part in parts):
            dense = pa.FixedSizeListArray.from_arrays(pa.array(features.toarray().ravel()), MQ2008.width)
            writer.write_table(pa.table([query, relevance, dense], schema=pa.schema(columns)))


# Trees: lists, rows of a list, and features.

BOOSTED = {"470 x 20": (470, 20, 46), "2,000 x 120": (2_000, 120, 136)}
PEER = "LightGBM lambdarank"
OBJECTIVES = ("LambdaRank", "RankNet", "nDCG", "nDCG min-max", "nDCG@10 min-max", "AP min-max")
TREES = {
    "num_leaves": 15,
    "learning_rate": 1e-4,
    "feature_fraction": 0.5,
    "metric": "none",
    "num_threads": 1,
    "verbosity": -1,
    "deterministic": True,
    "force_row_wise": True,
}


def _boosting(quick: bool) -> Iterator[Cell]:
    for place, (size, numbers) in enumerate(({"20 x 20": (20, 20, 46)} if quick else BOOSTED).items()):
        data = _rows_of_trees(*numbers)
        for objective in OBJECTIVES:
            contenders = [
                Contender(OURS, partial(_tree, objective), own=True, package="lightgbm"),
                Contender(PEER, partial(_tree, None), package="lightgbm"),
            ]
            yield Cell(f"{objective}, {size}", place, data, contenders)


def _rows_of_trees(lists: int, n: int, features: int) -> dict[str, Any]:
    """Return what a LightGBM data set is made of."""
    random = np.random.default_rng(0)
    data = random.normal(size=(lists * n, features))
    label = np.digitize(data[:, 0] - data[:, 1] + random.normal(size=len(data)), [1.5, 3.0])
    return {"data": data, "label": label, "group": np.full(lists, n), "init_score": random.normal(size=len(data))}


def _tree(objective: str | None, data: Mapping[str, Any]) -> Call:
    import lightgbm as lgb

    import rankbound as rb

    booster = lgb.Booster({**TREES, "objective": "none" if objective else "lambdarank"}, lgb.Dataset(**data))
    return partial(booster.update, fobj=rb.boosting_objective(*objective.split())) if objective else booster.update


# Losses for rerankers.

DOCUMENTS, FEW_DOCUMENTS = (100, 1_000), 10


def _rerankers(quick: bool) -> Iterator[Cell]:
    for n in (FEW_DOCUMENTS,) if quick else DOCUMENTS:
        for loss, makes in {**RERANKED, "training step": TRAINED}.items():
            contenders = [
                Contender(
                    name,
                    partial(step_of_model, make, of_texts=makes is TRAINED),
                    own=name.startswith(OURS),
                    package="sentence_transformers",
                    same=makes is not TRAINED,
                )
                for name, make in makes.items()
            ]
            yield Cell(f"{loss}, {n:,} documents", n, n, contenders, few=FEW_DOCUMENTS)


# Training steps of a model and a loss as one graph.

_STEPS = ((128, 10), (128, 100))


def _compiled(quick: bool) -> Iterator[Cell]:
    for n_lists, n in _STEPS[:1] if quick else _STEPS:
        for name in ("nDCG", "AP", "softmax"):
            backend = "eager" if quick else "inductor"
            contenders = [
                Contender(OURS, partial(_graph_step, None), True),
                Contender(f"{OURS}, compiled", partial(_graph_step, backend), True),
            ]
            yield Cell(f"{name}, {n_lists} lists of {n}", n_lists * n, (name, n_lists, n), contenders)


def _graph_step(backend: str | None, data: tuple[str, int, int]) -> Call:
    """Return a forward and backward step of a small network and a loss, whose value is the mean loss."""
    import rankbound as rb

    name, n_lists, n = data
    draws = torch.Generator().manual_seed(0)
    features = torch.randn((n_lists * n, 46), generator=draws)
    relevance = (torch.rand(n_lists * n, generator=draws) < 0.2).to(torch.int64)
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(46, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    offsets, loss = torch.arange(n_lists + 1) * n, rb.loss(name)

    def mean(features: torch.Tensor) -> torch.Tensor:
        return loss(network(features).squeeze(1), relevance, offsets, reduction="mean")

    forward = mean if backend is None else torch.compile(mean, fullgraph=True, dynamic=True, backend=backend)

    def call() -> dict[str, float]:
        network.zero_grad()
        value = forward(features)
        value.backward()
        return {"loss": value.item()}

    return call


def _same_losses(results: Mapping[str, Mapping[str, float]]) -> None:
    expected = results[OURS]["loss"]
    for name, found in results.items():
        if not abs(found["loss"] - expected) <= 1e-5 * abs(expected):
            raise ArithmeticError(f"{name}: found the mean loss {found['loss']}, expected {expected}")


# What `--guard` compares with `guard.csv`: for each kind of work one ratio, to a common peer or a plain reference.

GUARD = "guard"
_GUARDED = ("softmax, 128 x 10", "nDCG, 128 x 10", "nDCG, 128 x 100", "nDCG, 64 lists of 10 to 324")
_SMALL_LISTS, _SMALL_SIZE, _WIDTH, _TOPICS = 1_000, 20, 46, 32


def _guard(quick: bool) -> Iterator[Cell]:
    def pair(
        size: str, data: Any, ours: Any, name: str, peer: Any, package: str | None = None, few: Any = None
    ) -> Cell:
        """Only means of an evaluation are to be the same."""
        ours, other = (
            Contender(OURS, ours, True, same=few is not None),
            Contender(name, peer, True, package, few is not None),
        )
        return Cell(size, 0, data, (ours, other), few)

    runs, few = _runs(200 if quick else EVALUATED), _runs(10)
    yield pair("evaluation of arrays", runs, evaluated_by_rankbound, "NumPy", evaluated_by_numpy, few=few)
    ours, peer = (partial(by, door=DICTIONARIES) for by in (evaluated_by_rankbound, evaluated_by_pytrec_eval))
    yield pair("evaluation of dictionaries", runs, ours, "pytrec_eval", peer, "pytrec_eval", few)
    for cell in _short(quick):
        if cell.size in _GUARDED:
            yield replace(cell, contenders=[replace(cell.contenders[place], same=False) for place in (0, 2)])
    with tempfile.TemporaryDirectory(prefix="rankbound-letor-") as name:
        parts = _write_letor(Path(name), 50 if quick else 2_000)
        yield pair(
            "LETOR text to lists",
            parts,
            partial(partial, _read_lists),
            "scikit-learn",
            partial(partial, _read),
            "sklearn",
        )
    long = losses.one_list(1_000 if quick else 100_000)
    yield pair("one list of 100,000", long, _BY_CHOICE, "sorting", lambda batch: batch.scores.sort)
    shown = _held(few, FILES, OURS)
    command, imports = ["-m", "rankbound", "evaluate", *shown, "-m", "AP"], ["-c", "import numpy, polars"]
    start = partial(_process, command), "import of NumPy and polars", partial(_process, imports)
    yield pair("command line", None, *start)
    draws = np.random.default_rng(0)
    shape = _SMALL_LISTS // (20 if quick else 1), _SMALL_SIZE
    lists = draws.normal(size=(*shape, _WIDTH)).astype(np.float32), draws.integers(0, 3, shape)
    yield pair("an epoch of a network", lists, _epoch, "torch", _epoch_of_torch)


def _process(arguments: list[str], _: Any) -> Call:
    return partial(subprocess.run, [sys.executable, *arguments], check=True, capture_output=True)


def _read_lists(parts: list[Path]) -> list[Any]:
    import rankbound as rb

    return [rb.read_lists(path) for path in parts]


def _epoch(data: tuple[Any, Any]) -> Call:
    import rankbound as rb

    features, grades = data
    n_lists, n = grades.shape
    names: dict[str, Any] = {"topics": [*map(str, range(n_lists))], "items": [*map(str, range(n))] * n_lists}
    columns: dict[str, Any] = {
        "relevance": grades.ravel(),
        "offsets": np.arange(n_lists + 1) * n,
        "features": features.reshape(-1, _WIDTH),
    }
    lists = rb.JudgedLists(**names, **columns, feature_names=[*map(str, range(_WIDTH))])
    settings: dict[str, Any] = {"model": "mlp", "loss": "softmax", "batch_size": _TOPICS, "validation_share": 0}
    return partial(rb.train_ranker, lists, device="cpu", epochs=1, **settings)


def _epoch_of_torch(data: tuple[Any, Any]) -> Call:
    features, grades = map(torch.from_numpy, data)
    layers = [
        torch.nn.Linear(_WIDTH, 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 32),
        torch.nn.ReLU(),
        torch.nn.Linear(32, 1),
    ]
    model, mask = torch.nn.Sequential(*layers), torch.ones(_TOPICS, _SMALL_SIZE, dtype=torch.bool)
    optimiser = torch.optim.Adam(model.parameters())

    def call() -> None:
        for index in torch.randperm(len(grades)).split(_TOPICS):
            own = grades[index].float()
            optimiser.zero_grad()
            losses.PADDED["softmax"](model(features[index]).squeeze(2), own, mask[: len(index)]).mean().backward()
            optimiser.step()

    return call


_BOTH = ("default", "kept")
QUESTIONS = {
    "loss": Question(partial(_one_list, LENGTHS, LENGTHS[:3]), losses.check_same, settings=_BOTH),
    "ragged": Question(_ragged, losses.check_same, settings=_BOTH),
    "short": Question(_short, partial(losses.check_same, tolerance=1e-4)),
    "memory": Question(partial(_one_list, LONG_LENGTHS, (1_000,)), settings=_BOTH, in_memory=True),
    "evaluation": Question(_evaluation, _same_means),
    "distributions": Question(_distributions),
    "letor": Question(_letor),
    "boosting": Question(_boosting),
    "compiled": Question(_compiled, _same_losses),
    "rerankers": Question(_rerankers, partial(losses.check_same, tolerance=1e-4)),
    "rerankers-memory": Question(_rerankers, in_memory=True),
    GUARD: Question(_guard, _same_means, settings=("kept",), pace=Pace(fewest=7, most=30, seconds=6.0, turn=0.05)),
}

if __name__ == "__main__":
    # In the process of `memory_of`: ignore deprecation warnings of the peers.
    warnings.simplefilter("ignore")
    _, question, quick, size, contender = sys.argv
    (cell,) = [cell for cell in QUESTIONS[question].cells(quick == "True") if cell.size == size]
    (prepare,) = [one.prepare for one in cell.contenders if one.name == contender]
    prepare(cell.few)()
    print(added_peak(prepare(cell.data)))
