"""`rankbound evaluate`: compute the metrics of a run."""

import argparse
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankbound.commands import USUAL_METRICS, Source, add_file_flags, add_format_flag, add_metric_flags, columns_of
from rankbound.errors import DataError, plain_errors
from rankbound.texts import quantity

if TYPE_CHECKING:
    from rankbound.evaluation import Evaluation

SUMMARY = "Evaluate a run by qrels, with trec_eval's rules and exact ties"
EXAMPLES = """\
  rankbound evaluate run.txt qrels.txt
  rankbound evaluate run.txt qrels.txt -m nDCG@10 -m AP
  rankbound evaluate run.txt lists.csv -m P@5 --per-topic
  rankbound evaluate scores.parquet test.letor -m nDCG@10 --json
  rankbound evaluate run.txt qrels.txt -m nDCG@10 --csv topics.csv
  zcat run.gz | rankbound evaluate - qrels/test.tsv
  rankbound evaluate run.tsv qrels.dev.small.tsv --format msmarco -m RR@10

RUN is a TREC run, JSON, or a table with the columns topic, item and score; QRELS are TREC qrels, JSON, or judged lists.
One of them may be -, standard input. Text may be packed by gzip, bzip2 or zstd.
Without -m, the metrics are nDCG@10, AP, RR, P@10 and Recall@100. Unjudged items count as not relevant, except for Bpref
and infAP. Relevant items that the run lacks count in the ideal DCG and in recall. Tied items have the mean value over
their orders. A topic without relevant items has no nDCG and no AP; means leave it out, or count it as 0 (--undefined
zero). Topics of QRELS that RUN lacks are left out, with a warning, unless --missing says otherwise; the column
`missing` of --csv marks them."""


_LONGEST_NAME = 200
"""Characters of a topic's name in a table; --json has all of them."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("run_file", type=Source, metavar="RUN", help="TREC run, .json, .jsonl, .csv, .tsv or .parquet")
    parser.add_argument(
        "qrels", type=Source, metavar="QRELS", help="TREC qrels, LETOR text, .json, .jsonl, .csv, .tsv or .parquet"
    )
    add_metric_flags(parser)
    parser.add_argument(
        "--missing",
        choices=("skip", "zero", "error"),
        help="topics of QRELS that RUN lacks: left out (default, with a warning unless named), evaluated as empty "
        "results, or refused",
    )
    parser.add_argument(
        "--undefined",
        default="skip",
        choices=("skip", "zero"),
        help="topics where a metric is undefined: left out of its mean (default), or counted as 0",
    )
    parser.add_argument("--per-topic", action="store_true", help="also show the values of every topic")
    parser.add_argument(
        "--csv", type=Path, metavar="FILE", help="also write the values of every topic to a file (.csv, or .tsv)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    add_format_flag(parser)
    add_file_flags(parser)


def run(arguments: argparse.Namespace) -> None:
    """Evaluate and print."""
    from rankbound.evaluation import evaluate_run, judged_by
    from rankbound.metrics import metric

    path = arguments.csv
    if path is not None and path.suffix not in (".csv", ".tsv"):
        raise DataError(f"--csv: found {path}, expected a name that ends in .csv or .tsv")
    if path is not None and path.resolve() in (arguments.run_file.resolve(), arguments.qrels.resolve()):
        raise DataError(f"--csv: found {path}, which is read here: choose another name, so that it isn't overwritten")
    if arguments.names != "rankbound" and not arguments.metrics:
        raise DataError(f"--names: found {arguments.names} without -m METRIC, whose name it explains: give both")
    columns = {**columns_of(arguments), "groups": arguments.groups}
    with plain_errors():
        metrics: list[Any] = arguments.metrics or list(USUAL_METRICS)
        if arguments.names != "rankbound":
            metrics = [metric(text, names=arguments.names) for text in metrics]
        chosen, qrels = judged_by(metrics, arguments.qrels, **columns)
        evaluation = evaluate_run(
            arguments.run_file,
            qrels,
            chosen,
            missing=arguments.missing or "skip",
            undefined=arguments.undefined,
            format=arguments.format,
        )
    if path is not None:
        _write_csv(evaluation, path)
    print(_as_json(evaluation, arguments) if arguments.json else _as_text(evaluation, arguments.per_topic))
    if evaluation.missing and arguments.missing is None:
        lacking = quantity(len(evaluation.missing), "topic")
        print(
            f"rankbound evaluate: warning: the run lacks {lacking} of the qrels, which are left "
            "out of the means; count them as topics without retrieved items, as trec_eval -c does, by --missing zero, "
            "or leave them out without this warning by --missing skip",
            file=sys.stderr,
        )


def _write_csv(evaluation: "Evaluation", path: Path) -> None:
    """Write a row per topic and a column per metric; undefined values are empty.

    If the run lacks topics, they have rows, too, and a column says which ones they are.
    """
    import polars as pl

    from rankbound.io.atomic import atomic_path
    from rankbound.io.text_files import separator_of

    rows = evaluation.to_polars().fill_nan(None)
    if evaluation.missing:
        evaluated = set(evaluation.topics)
        left_out = pl.DataFrame({"topic": [topic for topic in evaluation.missing if topic not in evaluated]})
        rows = pl.concat([rows, left_out.cast(pl.String)], how="diagonal")
        rows = rows.with_columns(missing=pl.col("topic").is_in(list(evaluation.missing)))
    with atomic_path(path) as temporary:
        rows.write_csv(temporary, separator=separator_of(path))


def _as_json(evaluation: "Evaluation", arguments: argparse.Namespace) -> str:
    def or_null(value: float) -> float | None:
        return None if math.isnan(value) else value

    content: dict[str, Any] = {
        "topics": {
            "evaluated": len(evaluation.topics),
            "missing_in_run": len(evaluation.missing),
            "not_in_qrels": len(evaluation.unjudged),
        },
        "missing": arguments.missing or "skip",
        "means": {name: or_null(mean) for name, mean in evaluation.means().items()},
        "undefined": evaluation.undefined(),
    }
    if arguments.per_topic:
        rows = evaluation.to_polars().rows()
        content["per_topic"] = {
            topic: dict(zip(evaluation.values, map(or_null, row), strict=True)) for topic, *row in rows
        }
    return json.dumps(content, indent=2, ensure_ascii=False)


def _as_text(evaluation: "Evaluation", per_topic: bool) -> str:
    from rankbound.evaluation import aligned, shown
    from rankbound.texts import printable, shortened

    if not per_topic:
        return str(evaluation)
    rows = [
        (shortened(printable(topic), _LONGEST_NAME), *map(shown, row)) for topic, *row in evaluation.to_polars().rows()
    ]
    return f"{aligned([('topic', *evaluation.values), *rows])}\n\n{evaluation}"
