"""`rankbound evaluate`: compute the metrics of a run."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankbound.commands import USUAL_METRICS, columns_of, topics_of
from rankbound.commands.compare import settings_of
from rankbound.errors import ConfigError, DataError, plain_errors
from rankbound.texts import printable, quantity, shortened

if TYPE_CHECKING:
    from rankbound.evaluation import Evaluation


_ENDINGS = (".txt", ".run", ".trec", ".res", ".json", ".jsonl", ".csv", ".tsv", ".parquet", ".arrow", ".feather")
"""Endings of files that are not part of a system's name."""

_LONGEST_NAME = 200
"""Characters of a topic's name in a table; --json has all of them."""


def run(arguments: argparse.Namespace) -> None:
    """Evaluate and print."""
    from rankbound.evaluation import evaluate_run, judged_by
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
    with plain_errors():
        metrics: list[Any] = arguments.metrics or list(USUAL_METRICS)
        if arguments.names != "rankbound":
            metrics = [metric(text, names=arguments.names) for text in metrics]
        chosen, qrels = judged_by(metrics, arguments.qrels, **columns)
        how = {name: getattr(arguments, name) for name in ("undefined", "format")}
        how |= {"missing": arguments.missing or "skip", "topics": topics_of(arguments)}
        settings = settings_of(arguments)
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
        print(
            f"rankbound evaluate: warning: {lack} of the qrels, which are left "
            "out of the means; count them as topics without retrieved items, as trec_eval -c does, by --missing zero, "
            "or leave them out without this warning by --missing skip",
            file=sys.stderr,
        )


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
    """Return the names of files without endings, with as many endings and folders as make them distinct."""
    from rankbound.io.text_files import plain_name

    plain = [file.with_name(plain_name(file)) if file.name else file for file in files]
    short = [one.with_suffix("") if one.suffix in _ENDINGS else one for one in plain]
    for paths in (short, plain, files):
        for depth in range(1, max(len(one.parts) for one in paths) + 1):
            names = ["/".join(one.parts[-depth:]) for one in paths]
            if len({*names}) == len(names):
                return names
    twice = next(one for one in files if files.count(one) > 1)
    raise ConfigError(f"{twice}: found twice among the runs, expected each once, or names for them (--name)")


def _write_csv(evaluations: Mapping[str, "Evaluation"], path: Path) -> None:
    """Write a row per topic (of each system, if there are several) and a column per metric; undefined values are empty.

    If a run lacks topics, they have rows, too, and a column says which ones they are.
    """
    import polars as pl

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
    rows = [
        (shortened(printable(topic), _LONGEST_NAME), *map(shown, row)) for topic, *row in evaluation.to_polars().rows()
    ]
    return f"{aligned([('topic', *evaluation.values), *rows])}\n\n{evaluation}"
