"""Question 5: how long does it take to evaluate a run?"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.rows import OURS, Row, rows_of
from benchmarks.run import Run
from benchmarks.timing import Contender, race

TITLE = "Evaluation"
ABOUT = """\
nDCG@10 (linear gain), AP, RR and P@10 of every list, all at once: 120 items a list, grades 0 to 4, no two scores of
a list equal. Every library starts from what it works on in memory: ours from flat arrays, ranx from its Run and
Qrels, pytrec_eval and ir_measures from dicts with an evaluator that has read the judgments, scikit-learn (nDCG
only, told that there are no ties) from matrices. Making these from flat arrays is not in the time; it is noted
beside it. All means agree to 1e-9."""
SETTINGS = ("default",)

LISTS, _QUICK_LISTS, _FEW_LISTS = 10_000, 200, 10
ITEMS = 120
_GRADE_SHARES = (0.52, 0.23, 0.19, 0.04, 0.02)

_Means = dict[str, float]
_NAMES = ("nDCG@10", "AP", "RR", "P@10")


@dataclass(frozen=True)
class _Runs:
    """A run as matrices `(n_lists, n_items)` of distinct scores and of relevance labels."""

    scores: npt.NDArray[np.float64]
    grades: npt.NDArray[np.int64]

    def dicts(self, values: npt.NDArray[Any]) -> dict[str, dict[str, Any]]:
        """Return topic -> item -> value, the input of TREC's tools."""
        items = [f"d{place}" for place in range(values.shape[1])]
        return {f"q{row}": dict(zip(items, line, strict=True)) for row, line in enumerate(values.tolist())}


def measure(run: Run) -> list[Row]:
    """Check that all results agree, and race the contenders once."""
    lists = _QUICK_LISTS if run.quick else LISTS
    runs = _generate(lists)
    entrants = _ENTRANTS if run.peers else _ENTRANTS[:1]
    size = f"{lists:,} lists of {ITEMS}"
    rows: list[Row] = []
    contenders: list[Contender] = []
    notes: dict[str, str] = {}
    for name, package, prepare in entrants:
        if package is not None and find_spec(package) is None:
            rows.append(Row(size, lists, name, note=f"{package} is not installed"))
            continue
        run.tell(f"preparing {name}")
        # The first call loads and compiles.
        prepare(_generate(_FEW_LISTS))()
        begin = time.perf_counter()
        call = prepare(runs)
        if package is not None:
            notes[name] = f"its input was made in {time.perf_counter() - begin:.2f} s, not counted"
        contenders.append(Contender(name, call))
    _check_agreement(contenders)
    run.tell("racing")
    return rows_of(race(contenders, run.pace), size, lists, notes) + rows


def _generate(lists: int) -> _Runs:
    generator = np.random.default_rng(0)
    scores = generator.permuted(np.tile(np.arange(ITEMS) / ITEMS, (lists, 1)), axis=1)
    scores += generator.random(scores.shape) / (2 * ITEMS)
    grades = generator.choice(len(_GRADE_SHARES), size=scores.shape, p=_GRADE_SHARES)
    # Libraries treat undefined metrics differently, so every list has a relevant item.
    grades[:, 0] = np.maximum(grades[:, 0], 1)
    return _Runs(scores, grades)


def _check_agreement(contenders: list[Contender]) -> None:
    expected: Any = contenders[0].call()
    for contender in contenders[1:]:
        means: Any = contender.call()
        for name, mean in means.items():
            if not abs(mean - expected[name]) <= 1e-9:
                raise ArithmeticError(f"{contender.name}: found {mean} as the mean {name}, expected {expected[name]}")


def _ours(runs: _Runs) -> Callable[[], _Means]:
    import torch

    import rankbound as rb

    texts = ("nDCG(gain=linear)@10", *_NAMES[1:])
    metrics = [rb.metric(text) for text in texts]
    scores, grades = torch.from_numpy(runs.scores.ravel()), torch.from_numpy(runs.grades.ravel())
    offsets = torch.arange(len(runs.scores) + 1) * runs.scores.shape[1]

    def call() -> _Means:
        values = rb.evaluate(metrics, scores, grades, offsets)
        return {name: float(values[str(kind)].mean()) for name, kind in zip(_NAMES, metrics, strict=True)}

    return call


def _ranx(runs: _Runs) -> Callable[[], _Means]:
    import ranx

    names = dict(zip(("ndcg@10", "map", "mrr", "precision@10"), _NAMES, strict=True))
    qrels, run = ranx.Qrels(runs.dicts(runs.grades)), ranx.Run(runs.dicts(runs.scores))
    return lambda: {names[name]: float(mean) for name, mean in ranx.evaluate(qrels, run, list(names)).items()}


def _pytrec_eval(runs: _Runs) -> Callable[[], _Means]:
    import pytrec_eval

    names = dict(zip(("ndcg_cut_10", "map", "recip_rank", "P_10"), _NAMES, strict=True))
    evaluator = pytrec_eval.RelevanceEvaluator(runs.dicts(runs.grades), {"ndcg_cut.10", "map", "recip_rank", "P.10"})
    run = runs.dicts(runs.scores)

    def call() -> _Means:
        topics = evaluator.evaluate(run).values()
        return {name: sum(topic[key] for topic in topics) / len(topics) for key, name in names.items()}

    return call


def _ir_measures(runs: _Runs) -> Callable[[], _Means]:
    import ir_measures

    measures = [ir_measures.parse_measure(name) for name in _NAMES]
    evaluator = ir_measures.evaluator(measures, runs.dicts(runs.grades))
    run = runs.dicts(runs.scores)
    return lambda: {str(measure): mean for measure, mean in evaluator.calc_aggregate(run).items()}


def _scikit_learn(runs: _Runs) -> Callable[[], _Means]:
    from sklearn.metrics import ndcg_score

    return lambda: {_NAMES[0]: float(ndcg_score(runs.grades, runs.scores, k=10, ignore_ties=True))}


_ENTRANTS: tuple[tuple[str, str | None, Callable[[_Runs], Callable[[], _Means]]], ...] = (
    (OURS, None, _ours),
    ("ranx", "ranx", _ranx),
    ("pytrec_eval", "pytrec_eval", _pytrec_eval),
    ("ir_measures", "ir_measures", _ir_measures),
    ("scikit-learn (nDCG only)", "sklearn", _scikit_learn),
)
