"""`rankbound fuse`, `evaluate` and `compare`: runs, judged and tested."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankbound.commands import columns_of
from rankbound.errors import ConfigError, DataError, plain_errors
from rankbound.lazy import pl
from rankbound.texts import is_number, names, printable, quantity, shortened

if TYPE_CHECKING:
    from rankbound.compare.comparison import Settings
    from rankbound.compare.report import Report
    from rankbound.evaluation import Evaluation

USUAL_METRICS = ("nDCG@10", "AP", "RR", "P@10", "Recall@100")
"""What a run is evaluated by where no metric is named."""

_ENDINGS = (".txt", ".run", ".trec", ".res", ".json", ".jsonl", ".csv", ".tsv", ".parquet", ".arrow", ".feather")
"""Endings of files that are not part of a system's name."""


@plain_errors()
def fuse(arguments: argparse.Namespace) -> None:
    """Fuse several runs into one, and write it."""
    from rankbound.fusion import Fusion, tune_fusion
    from rankbound.io.files import read_run, write_run
    from rankbound.metrics import metric

    weights, topics, several = arguments.weights, _topics_of(arguments), len(arguments.metrics)
    if weights is not None and weights != ["grid"] and not all(map(is_number, weights)):
        raise ConfigError(f"--weights: found {','.join(weights)}, expected numbers, as in 0.3,0.7, or grid")
    if arguments.qrels is None and (weights == ["grid"] or several or topics is not None):
        raise ConfigError("--qrels: found none, expected judgements, on which -m, --topics and --weights grid tune")
    if several > 1:
        raise ConfigError(f"-m: found {', '.join(arguments.metrics)}, expected the one metric to tune by")
    vector = weights if weights is None or weights == ["grid"] else list(map(float, weights))
    runs = [read_run(path, format=arguments.format) for path in arguments.run_files]
    how = {"normalise": arguments.normalise}
    if arguments.qrels is None:
        fusion = Fusion(arguments.method, **how, weights=None if vector is None else tuple(vector))
    else:
        how |= {"weights": "grid" if vector == ["grid"] else vector, "topics": topics}
        chosen = metric(*(arguments.metrics or ["nDCG@10"]), names=arguments.names)
        fusion = tune_fusion(runs, arguments.method, arguments.qrels, chosen, **how)
        print(f"{fusion}: {chosen} {fusion.tried[str(fusion)]:.4f}, of {quantity(len(fusion.tried), 'setting')}")
    fused = fusion(runs)
    write_run(arguments.out, fused, tag=arguments.tag)
    print(f"fused {quantity(len(fused.items), 'item')} of {quantity(len(fused.topics), 'topic')}")
    print(f"wrote {arguments.out}")


@plain_errors()
def evaluate(arguments: argparse.Namespace) -> None:
    """Compute the metrics of a run, or of several, and print them."""
    from rankbound.evaluation import LEFT_OUT, evaluate_run, judged_by
    from rankbound.metrics import metric

    path, form = arguments.csv, arguments.form
    if path is not None and path.suffix not in (".csv", ".tsv"):
        raise DataError(f"--csv: found {path}, expected a name that ends in .csv or .tsv")
    runs, baseline = _runs_of(arguments)
    if path is not None and path.resolve() in (one.resolve() for one in (*runs.values(), arguments.qrels)):
        raise DataError(f"--csv: found {path}, which is read here: choose another name, so that it isn't overwritten")
    if arguments.names != "rankbound" and not arguments.metrics:
        raise DataError(f"--names: found {arguments.names} without -m METRIC, whose name it explains: give both")
    columns = {**columns_of(arguments), "groups": arguments.groups}
    metrics: list[Any] = arguments.metrics or list(USUAL_METRICS)
    if arguments.names != "rankbound":
        metrics = [metric(text, names=arguments.names) for text in metrics]
    chosen, qrels = judged_by(metrics, arguments.qrels, **columns)
    how = {name: getattr(arguments, name) for name in ("undefined", "format")}
    how |= {"missing": arguments.missing or "skip", "topics": _topics_of(arguments)}
    settings = _settings_of(arguments)
    if len(runs) == 1 and form in (None, "json") and not (arguments.system_names or baseline or settings):
        evaluations = {name: evaluate_run(file, qrels, chosen, **how) for name, file in runs.items()}
        (evaluation,) = evaluations.values()
        shown = (_as_json if form else _as_text)(evaluation, arguments)
    else:
        from rankbound.compare.runs import evaluate_runs

        if arguments.per_topic:
            raise ConfigError(
                "--per-topic: found beside a table of systems, expected one run: --csv FILE writes the values of "
                "every topic of all runs"
            )
        table = evaluate_runs(runs, qrels, chosen, baseline=baseline, **how, **settings)
        evaluations = dict(table.evaluations)
        shown = str(table) if form is None else getattr(table, f"to_{form}")()
    if path is not None:
        _write_csv(evaluations, path)
    print(shown)
    named = evaluations if len(evaluations) > 1 else {"the run": next(iter(evaluations.values()))}
    lacking = {name: quantity(len(one.missing), "topic") for name, one in named.items() if one.missing}
    if lacking and arguments.missing is None:
        lack = printable(", ".join(f"{name} lacks {topics}" for name, topics in lacking.items()))
        print(f"rankbound evaluate: warning: {lack} of the qrels, {LEFT_OUT}", file=sys.stderr)


def compare(arguments: argparse.Namespace) -> None:
    """Test runs for differences, or for equivalence, and print the report."""

    def report(settings: "Settings") -> "Report":
        from rankbound.compare.runs import compare_files

        return compare_files(
            arguments.files,
            arguments.metrics,
            settings,
            arguments.baseline,
            qrels=arguments.qrels,
            columns=columns_of(arguments),
            names=arguments.names,
            missing=arguments.missing,
            topics=_topics_of(arguments),
            format=arguments.format,
        )

    print_report(arguments, report)


def print_report(arguments: argparse.Namespace, report_of: Callable[["Settings"], "Report"]) -> None:
    """Print the report of a comparison with the settings, and in the format, of the flags; ConfigError for wrong ones.

    Without the extra `statistics`, RankboundError names it.
    """
    from rankbound.io.files import needs_extra

    with needs_extra("statistics"):
        import scipy  # noqa: F401

    from rankbound.compare.comparison import MARGIN, NOISE, Settings

    margin: Any = MARGIN if arguments.margin == "default" else arguments.margin
    if margin not in (None, NOISE):
        try:
            margin = float(margin)
        except ValueError:
            raise ConfigError(f"--margin: found {margin!r}, expected a number or `{NOISE}`") from None
    settings = {name: getattr(arguments, name) for name in ("confidence", "interval", "resamples")}
    with plain_errors():
        report = report_of(Settings(**settings, **_settings_of(arguments), margin=margin))
    print(report if arguments.form is None else getattr(report, f"to_{arguments.form}")())


def _settings_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of p-values that flags name."""
    names = {"test": "test", "correction": "correction", "flips": "flips", "random_seed": "seed"}
    found = {name: getattr(arguments, flag) for flag, name in names.items()}
    return {name: value for name, value in found.items() if value is not None}


def _topics_of(arguments: argparse.Namespace) -> list[str] | None:
    """Return the topics that the flag names, if it does."""
    text: str | None = arguments.topics
    if text is None or not text.startswith("@"):
        return None if text is None else names(text)
    from rankbound.io.text_files import read_unpacked

    lines = read_unpacked(Path(text[1:])).decode("utf-8", "replace").splitlines()
    return [line.strip() for line in lines if line.strip()]


def _runs_of(arguments: argparse.Namespace) -> tuple[dict[str, Path], str | None]:
    """Return the files of the runs by name, with a baseline that is none of them first, and the baseline's name."""
    files, names, baseline = arguments.run_files, arguments.system_names, arguments.baseline
    if names is not None and (len(names), len({*names})) != (len(files), len(files)):
        runs = quantity(len(files), "run")
        raise ConfigError(f"--name: found {', '.join(names)} for {runs}, expected a name of its own for each")
    own = names or _names_of(files)
    if baseline is None:
        return dict(zip(own, files, strict=True)), None
    of_name = [name for name in own if name == str(baseline)]
    of_file = [name for name, file in zip(own, files, strict=True) if file.resolve() == baseline.resolve()]
    found = list(dict.fromkeys([*of_name, *of_file]))
    if len(found) > 1:
        raise ConfigError(f"--baseline: found {baseline}, the name of one run and the file of {of_file[0]}: rename one")
    if not found and not baseline.exists():
        raise ConfigError(f"--baseline: found {baseline}, expected a run's name ({', '.join(own)}), or its file")
    if not found:
        files, own = [baseline, *files], [*_names_of([baseline]), *names] if names else _names_of([baseline, *files])
        found = own[:1]
    return dict(zip(own, files, strict=True)), found[0]


def _names_of(files: Sequence[Path]) -> list[str]:
    """Return the names of files without endings; their paths where these are not distinct."""
    from rankbound.io.text_files import plain_name

    plain = [Path(plain_name(file)) for file in files]
    short = [one.stem if one.suffix in _ENDINGS else one.name for one in plain]
    for known in (short, list(map(str, files))):
        if len({*known}) == len(known):
            return known
    twice = next(one for one in files if files.count(one) > 1)
    raise ConfigError(f"{twice}: found twice among the runs, expected each once, or names for them (--name)")


def _write_csv(evaluations: Mapping[str, "Evaluation"], path: Path) -> None:
    """Write a row per topic (of each system, if there are several) and a column per metric; undefined values are empty.

    If a run lacks topics, they have rows, too, and a column says which ones they are.
    """
    from rankbound.io.atomic import atomic_path
    from rankbound.io.text_files import separator_of

    parts = []
    for name, evaluation in evaluations.items():
        rows = evaluation.to_polars().fill_nan(None)
        if any(one.missing for one in evaluations.values()):
            evaluated = set(evaluation.topics)
            left_out = pl.DataFrame({"topic": [topic for topic in evaluation.missing if topic not in evaluated]})
            rows = pl.concat([rows, left_out.cast(pl.String)], how="diagonal")
            rows = rows.with_columns(missing=pl.col("topic").is_in(list(evaluation.missing)))
        parts.append(rows.select(pl.lit(name).alias("system"), pl.all()) if len(evaluations) > 1 else rows)
    with atomic_path(path) as temporary:
        pl.concat(parts).write_csv(temporary, separator=separator_of(path))


def _as_json(evaluation: "Evaluation", arguments: argparse.Namespace) -> str:
    from rankbound.evaluation import summary

    found = summary(evaluation)
    content = {"topics": found["topics"], "missing": arguments.missing or "skip", **found}
    if arguments.per_topic:
        rows = evaluation.to_polars().fill_nan(None).rows()
        content["per_topic"] = {topic: dict(zip(evaluation.values, row, strict=True)) for topic, *row in rows}
    return json.dumps(content, indent=2, ensure_ascii=False)


def _as_text(evaluation: "Evaluation", arguments: argparse.Namespace) -> str:
    from rankbound.evaluation import aligned, shown

    if not arguments.per_topic:
        return str(evaluation)
    # A topic's name may be of any length; --json has all of it.
    rows = [(shortened(printable(topic), 200), *map(shown, row)) for topic, *row in evaluation.to_polars().rows()]
    return f"{aligned([('topic', *evaluation.values), *rows])}\n\n{evaluation}"
