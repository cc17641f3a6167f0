"""Compare runs in memory, or in files, topic by topic."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rankbound.evaluation import POLICIES, needs_intents
from rankbound.io.files import needs_extra, read_qrels, read_run
from rankbound.io.judged import Qrels, Run
from rankbound.metrics import Metric, metrics_of
from rankbound.texts import require_one_of

if TYPE_CHECKING:
    from rankbound.compare.report import Report


def compare_runs(
    runs: Mapping[str, Any],
    qrels: Any,
    metrics: str | Metric | Sequence[str | Metric],
    *,
    baseline: str | None = None,
    missing: str = "skip",
    **settings: Any,
) -> "Report":
    """Compare runs by paired tests over topics, with Holm's correction over all tests of the report.

    Args:
        runs: two or more runs by name, each as `evaluate_run` accepts it.
        qrels: the judgements, as `evaluate_run` accepts them.
        metrics: one or more metrics or their texts.
        baseline: the name of the run that all others are compared with; by default all pairs are compared.
        missing: topics of the qrels that a run lacks are skipped (`skip`) or count as topics without retrieved items
            (`zero`).
        settings: the fields of `rankbound.compare.Settings`, such as `margin=0.01`.

    Returns:
        The report, which prints as tables; `to_markdown()`, `to_latex()` and `to_polars()` are other forms of it.

    Raises:
        ValueError: for fewer than two runs, a baseline that is none of them, an unknown metric, or a setting out of
            range.
        DataError: as `evaluate_run`, for a file that can't be read or a run without a topic of the qrels.
        RankboundError: a library of the extra `statistics` is missing.

    >>> runs = {"old": {"q": {"a": 2, "b": 1}, "r": {"c": 1}}, "new": {"q": {"a": 1, "b": 2}, "r": {"c": 1}}}
    >>> report = rb.compare_runs(runs, {"q": {"b": 1}, "r": {"c": 1}}, "RR", baseline="old")
    """
    with needs_extra("statistics"):
        from rankbound.compare.compare_files import report_of
        from rankbound.compare.comparison import Settings
        from rankbound.compare.sources import of_run
    require_one_of("missing", missing, POLICIES)
    if len(runs) < 2:
        raise ValueError(f"runs: found {len(runs)}, expected two or more")
    if baseline is not None:
        require_one_of("baseline", baseline, runs)
    chosen = metrics_of(metrics)
    judged = qrels if isinstance(qrels, Qrels) else read_qrels(qrels, intents=needs_intents(chosen))
    # The baseline comes last.
    names = sorted(runs, key=lambda name: name == baseline)
    read = [runs[name] if isinstance(runs[name], Run) else read_run(runs[name]) for name in names]
    evaluated = [of_run(run, judged, chosen, missing, name) for run, name in zip(read, names, strict=True)]
    return report_of(names, evaluated, [str(one) for one in chosen], Settings(**settings), baseline is not None)
