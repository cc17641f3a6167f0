"""Evaluate several runs, and compare runs or files of per-topic scores, topic by topic."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from rankbound.compare.comparison import LEVEL, Settings, adjust, compare
from rankbound.compare.report import Report, Row, SystemsTable
from rankbound.compare.scores import SYSTEM, TRAINING, scores_of_frame
from rankbound.compare.statistics import CORRECTIONS
from rankbound.errors import ConfigError, DataError
from rankbound.evaluation import LEFT_OUT, POLICIES, Evaluation, chosen_topics, evaluate_run, judged_by
from rankbound.io.files import needs_extra, read_run
from rankbound.io.judged import Qrels, Run
from rankbound.lazy import pl
from rankbound.metrics import Metric, metric
from rankbound.texts import quantity, require_one_of

_SHOWN = 8


def compare_runs(
    runs: Mapping[str, Any],
    qrels: Any,
    metrics: str | Metric | Sequence[str | Metric],
    *,
    baseline: str | None = None,
    missing: str = "skip",
    topics: Iterable[str] | None = None,
    **settings: Any,
) -> Report:
    """Compare runs by paired tests over topics, with one correction over all tests of the report.

    Args:
        runs: two or more runs by name, each as `evaluate_run` accepts it.
        qrels: the judgements, as `evaluate_run` accepts them.
        metrics: one or more metrics or their texts.
        baseline: the name of the run that all others are compared with; by default all pairs are compared.
        missing: topics of the qrels that a run lacks are skipped (`skip`) or count as topics without retrieved items
            (`zero`).
        topics: the names of the topics to compare on; by default all of the qrels.
        settings: the fields of `rankbound.compare.Settings`, such as `margin=0.01`, `test="t"` or `correction="bh"`.

    Returns:
        The report, which prints as tables; `to_markdown()`, `to_latex()` and `to_polars()` are other forms of it.

    Raises:
        ValueError: for fewer than two runs, a baseline that is none of them, an unknown metric, or a setting out of
            range.
        DataError: as `evaluate_run`, for a file that can't be read, a run without a topic of the qrels, or a topic
            that they lack.
        RankboundError: a library of the extra `statistics` is missing.

    >>> runs = {"old": {"q": {"a": 2, "b": 1}, "r": {"c": 1}}, "new": {"q": {"a": 1, "b": 2}, "r": {"c": 1}}}
    >>> report = rb.compare_runs(runs, {"q": {"b": 1}, "r": {"c": 1}}, "RR", baseline="old")
    """
    with needs_extra("statistics"):
        import polars  # noqa: F401
        import scipy  # noqa: F401
    require_one_of("missing", missing, POLICIES)
    if len(runs) < 2:
        raise ValueError(f"runs: found {len(runs)}, expected two or more")
    if baseline is not None:
        require_one_of("baseline", baseline, runs)
    chosen, judged = judged_by(metrics, qrels)
    # The baseline comes last.
    names = sorted(runs, key=lambda name: name == baseline)
    topics = None if topics is None else list(topics)
    sources = [source_of_run(runs[name], judged, chosen, name, missing=missing, topics=topics) for name in names]
    return compare_sources(names, sources, [str(one) for one in chosen], Settings(**settings), baseline is not None)


def evaluate_runs(
    runs: Mapping[str, Any],
    qrels: Any,
    metrics: str | Metric | Sequence[str | Metric],
    *,
    baseline: str | None = None,
    missing: str | None = None,
    undefined: str = "skip",
    format: str | None = None,
    topics: Iterable[str] | None = None,
    **settings: Any,
) -> SystemsTable:
    """Evaluate several runs, for a table of systems by metrics, with tests of all others against a baseline.

    Args:
        runs: runs by name, in the order of the rows, each as `evaluate_run` accepts it.
        qrels: the judgements, as `evaluate_run` accepts them.
        metrics: one or more metrics or their texts, in the order of the columns.
        baseline: the name of the run that all others are compared with, as by `compare_runs`, with one correction
            over the whole table; by default, nothing is tested.
        missing, undefined, format, topics: as in `evaluate_run`, for each run.
        settings: with a baseline, the fields of `rankbound.compare.Settings` but for the margin, such as `test="t"`
            or `correction="bh"`.

    Returns:
        The table, which prints as text with the best mean of each metric and daggers for significant differences;
        `to_latex()`, `to_markdown()`, `to_csv()`, `to_json()` and `to_polars()` are other forms of it, `means()` has
        the numbers, and `evaluations` the values of every topic.

    Raises:
        ValueError: for no runs, a baseline that is none of them or alone, an unknown metric, or a setting that is out
            of range or has no baseline.
        DataError: as `evaluate_run`, for a file that can't be read, a run without a topic of the qrels, or a topic
            that they lack.
        RankboundError: a library of the extra `statistics`, or of `data` without a baseline, is missing.

    >>> runs = {"old": {"q": {"a": 2, "b": 1}, "r": {"c": 1}}, "new": {"q": {"a": 1, "b": 2}, "r": {"c": 1}}}
    >>> print(rb.evaluate_runs(runs, {"q": {"b": 1}, "r": {"c": 1}}, ["RR", "P@1"]))
    System      RR      P@1
    ────────────────────────
    old     0.7500   0.5000
    new     1.0000*  1.0000*
    <BLANKLINE>
    Means over 2 topics. *: best mean of a metric.
    """
    if not runs:
        raise ValueError("runs: found none, expected one or more")
    if baseline is None and settings:
        raise ValueError(f"{', '.join(settings)}: found without a baseline, expected one, against which to test")
    if settings.get("margin") is not None:
        raise ValueError("margin: found one for a table of systems, which shows no margin tests: use compare_runs")
    if baseline is not None:
        require_one_of("baseline", baseline, runs)
        if len(runs) == 1:
            raise ValueError(f"baseline: found {baseline}, the only run, expected others to compare with it")
        with needs_extra("statistics"):
            import scipy  # noqa: F401
    checked, topics = Settings(**settings), None if topics is None else list(topics)
    chosen, judged = judged_by(metrics, qrels)
    chosen = list({str(one): one for one in chosen}.values())
    policy = "skip" if missing is None else missing
    how = {"missing": policy, "undefined": undefined, "format": format, "topics": topics}
    sources = {name: source_of_run(run, judged, chosen, name, **how) for name, run in runs.items()}
    evaluations = {name: source.evaluation for name, source in sources.items() if source.evaluation is not None}
    lacks = {name: len(one.missing) for name, one in evaluations.items() if one.missing and policy == "skip"}
    if lacks and missing is None:
        several = ", ".join(f"{name} lacks {count}" for name, count in lacks.items())
        warnings.warn(f"{several} of the topics of the qrels, {LEFT_OUT}", stacklevel=2)
    left_out = [f"{name} lacks {quantity(n, 'topic')} of the qrels: left out of its means" for name, n in lacks.items()]
    if baseline is None:
        notes = [note for source in sources.values() for note in source.notes]
        return SystemsTable(evaluations, chosen, notes=[*notes, *left_out])
    names = sorted(sources, key=lambda name: name == baseline)
    texts = list(map(str, chosen))
    report = compare_sources(names, [sources[name] for name in names], texts, checked, True, labels=names)
    return SystemsTable(evaluations, chosen, baseline, report, [*report.all_notes(), *left_out])


def compare_files(
    files: Sequence[Path],
    metrics: Sequence[str],
    settings: Settings,
    baseline: Path | None = None,
    *,
    qrels: Path | None = None,
    columns: Mapping[str, Any] | None = None,
    names: str = "rankbound",
    missing: str = "skip",
    topics: Sequence[str] | None = None,
    format: str | None = None,
) -> Report:
    """Compare files of runs on the topics that two of them have, or files of per-topic scores.

    The files are runs if there are `qrels`, whose `columns` have these names; the other arguments are as in
    `compare_runs`, `rankbound.metric` and `rankbound.read_run`. Without metrics, all that files of scores have in
    common are compared.

    Raises:
        ConfigError: a single file, or runs without metrics to compare them by.
        DataError: a file cannot be read, or lacks a metric, or all of them a topic.
    """
    every = [*files, *([] if baseline is None else [baseline])]
    if len(every) < 2:
        raise ConfigError(f"{every[0]}: found one file, expected two or more")
    if qrels is None:
        sources = [_source_of_file(path) for path in every]
        known = dict.fromkeys(topic for source in sources for topic in source.frame["topic"])
        wanted = chosen_topics(topics, list(known), "the files")
        sources = [replace(one, frame=one.frame.filter(one.frame["topic"].is_in(wanted))) for one in sources]
        for source, path in zip(sources, every, strict=True):
            for name in metrics:
                if name not in source.metrics:
                    raise DataError(f"{path}: there is no metric {name!r}; it has {', '.join(source.metrics)}")
        common = metrics or [name for name in sources[0].metrics if all(name in one.metrics for one in sources)]
        if not common:
            held = "; ".join(", ".join(source.metrics) for source in sources)
            raise DataError(f"{' and '.join(map(str, every))} have no metric in common: {held}")
        return compare_sources(every, sources, common, settings, baseline is not None)
    if not metrics:
        raise ConfigError("metrics: found none, expected at least one to compare the runs by, as in -m nDCG@10 -m AP")
    texts = list(dict.fromkeys(metrics))
    own = names == "rankbound"
    chosen, judged = judged_by(texts if own else [metric(one, names=names) for one in texts], qrels, **(columns or {}))
    how = {"missing": missing, "topics": topics, "format": format}
    labels = zip(every, _labels_of(every), strict=True)
    sources = [source_of_run(path, judged, chosen, label, **how) for path, label in labels]
    return compare_sources(every, sources, sources[0].metrics, settings, baseline is not None)


@dataclass(frozen=True)
class Source:
    """Scores with the columns topic, optionally fold and seed, and one per metric; with notes, and what they are of."""

    frame: "pl.DataFrame"
    metrics: Sequence[str]
    notes: Sequence[str] = ()
    evaluation: Evaluation | None = None


def source_of_run(run: Any, qrels: Qrels, metrics: Sequence[Metric], name: str, **how: Any) -> Source:
    """Evaluate a run, or what `read_run` reads, as `evaluate_run` does; `name` is that of the run in notes."""
    run = run if isinstance(run, Run) else read_run(run, format=how.get("format"))
    evaluation = evaluate_run(run, qrels, metrics, **how)
    n_zero = len(evaluation.missing) if how["missing"] == "zero" else 0
    scores = [part for part in np.split(run.scores, run.offsets[1:-1]) if len(part) > 1]
    n_tied = sum(bool(np.ptp(part) == 0) for part in scores)
    notes = [
        (len(evaluation.unjudged), f"topics of {name} that are not in the qrels don't count"),
        (n_zero, f"topics of the qrels that are not in {name} count as 0"),
        (n_tied, f"topics of {name} with one score for all items: their metrics are means over random orders"),
    ]
    texts = [f"{text} ({count})" for count, text in notes if count]
    return Source(evaluation.to_polars(), list(evaluation.values), texts, evaluation)


def compare_sources(
    names: Sequence[str | Path],
    sources: Sequence[Source],
    metrics: Sequence[str],
    settings: Settings,
    with_last: bool,
    labels: Sequence[str] | None = None,
) -> Report:
    """Compare all pairs of systems or only, `with_last`, all others with the last one; one correction for all tests.

    The `labels` of systems in rows and notes are by default A and B for two, or short names of files. DataError if one
    of two systems has folds or seeds, and the other has none.
    """
    last = len(names) - 1
    pairs = [pair for pair in combinations(range(len(names)), 2) if not with_last or pair[1] == last]
    named = len(pairs) > 1 or labels is not None
    labels = _labels_of(names) if labels is None else labels
    rows = []
    for a, b in pairs:
        only = [name for name in TRAINING if (name in sources[a].frame) != (name in sources[b].frame)]
        if only:
            raise DataError(f"{names[a]} and {names[b]}: only one has the column {only[0]!r}; expected it in both")
        sides = (labels[a], labels[b])
        found = rows_of(sources[a].frame, sources[b].frame, metrics, settings, names=sides)
        if named:
            key = {"a": str(names[a]), "b": str(names[b])}
            found = [replace(row, cell=" - ".join(sides), key=key) for row in found]
        rows += found
    notes = [note for source in sources for note in source.notes]
    first, second = (", ".join(str(names[at]) for at in dict.fromkeys(side)) for side in zip(*pairs, strict=True))
    return report_of(first, second, rows, settings, notes)


def rows_of(
    a: "pl.DataFrame",
    b: "pl.DataFrame",
    metrics: Sequence[str],
    settings: Settings,
    members: bool = False,
    names: tuple[str, str] = ("A", "B"),
) -> list[Row]:
    """Compare two sides on each metric, paired by topics, folds and seeds, with unadjusted p-values.

    Higher values are assumed to be better for metrics that the library does not know, which files may hold.
    """
    keys = [name for name in ("topic", *TRAINING, "loss") if name in a.columns and name in b.columns]
    values = pl.col(list(metrics)).cast(pl.Float64)
    sides = [side.select(pl.lit(name).alias(SYSTEM), *keys, values) for name, side in (("A", a), ("B", b))]
    frame = pl.concat(sides, how="vertical_relaxed")
    rows = []
    for name in metrics:
        try:
            higher_is_better = metric(name).higher_is_better
        except ValueError:
            higher_is_better = True
        pair = scores_of_frame(frame, name, members=members).pair("A", "B")
        found = compare(pair, replace(settings, higher_is_better=higher_is_better), names)
        rows.append(Row("", name, found, higher_is_better=higher_is_better))
    return rows


def report_of(a: str, b: str, rows: Sequence[Row], settings: Settings, notes: Sequence[str]) -> Report:
    """Return the report of comparisons, with p-values adjusted over all of them.

    A note says if the family is too large for any p-value of this many flips to be significant.
    """
    comparisons = adjust([row.found for row in rows], correction=settings.correction)
    adjusted = [replace(row, found=comparison) for row, comparison in zip(rows, comparisons, strict=True)]
    # The least p-values of Benjamini and Hochberg are not raised if all tests have them.
    least = (len(rows) if settings.correction != "bh" else 1) / (settings.flips + 1)
    raised = settings.test == "flips" and least > LEVEL
    name = CORRECTIONS[settings.correction]
    of_flips = f"no p ({name}) of {len(rows)} tests can be below {least:.2g}: raise --flips"
    return Report(a, b, adjusted, settings, [*notes, *([of_flips] if raised else [])])


def _source_of_file(path: Path) -> Source:
    """Read scores from CSV (as `rankbound evaluate --csv` writes), TSV or parquet with a column `topic`.

    All numeric columns except `fold` and `seed` are metrics; those without a name are the index of a data frame.
    DataError for a file that cannot be read, or has no per-topic scores.
    """
    from rankbound.io.table_columns import has_no_name
    from rankbound.io.text_files import separator_of

    try:
        if path.suffix == ".parquet":
            frame = pl.read_parquet(path, glob=False)
        else:
            frame = pl.read_csv(
                path,
                separator=separator_of(path),
                infer_schema_length=None,
                # Topics are text: 007 is not 7.
                schema_overrides={"topic": pl.String},
                null_values=["", "-", "NaN", "nan"],
                glob=False,
            )
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{path}: cannot be read as per-topic scores ({str(error).splitlines()[0]})") from error
    if "topic" not in frame.columns:
        shown = ", ".join(frame.columns[:_SHOWN])
        raise DataError(f"{path}: there is no column 'topic'; it has {shown}. A TREC run needs its --qrels")
    nameless = [name for name in frame.columns if has_no_name(name)]
    others = [name for name in frame.columns if name not in ("topic", "missing", *TRAINING, *nameless)]
    metrics = [name for name in others if frame[name].dtype.is_numeric() or frame[name].dtype == pl.Null]
    if not metrics:
        raise DataError(f"{path}: there is no numeric column besides 'topic'; expected one per metric")
    for name in metrics:
        if frame[name].cast(pl.Float64).is_infinite().any():
            raise DataError(f"{path}: column {name!r} holds inf, expected finite numbers; leave undefined values empty")
    text = sorted(set(others) - set(metrics))
    kept = frame.select(pl.col("topic").cast(pl.String), *(set(TRAINING) & set(frame.columns)), *metrics)
    if kept["topic"].null_count():
        row = int(kept["topic"].is_null().arg_max() or 0) + 1
        raise DataError(f"{path}: row {row} has no topic; expected a name in every row")
    omitted = {"without a name": list(map(repr, nameless)), "not numeric": text}
    notes = [f"left out of {path.name}: {', '.join(names)} ({why})" for why, names in omitted.items() if names]
    return Source(kept, metrics, notes)


def _labels_of(names: Sequence[str | Path]) -> list[str]:
    """Return short names for notes and rows: A and B for two systems, otherwise the names of files if they differ."""
    if len(names) == 2:
        return ["A", "B"]
    short = [Path(name).name for name in names]
    return short if len(set(short)) == len(short) else [str(name) for name in names]
