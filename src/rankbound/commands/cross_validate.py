"""`rankbound cross-validate`: train, score and evaluate across folds, for one loss or several."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rankbound.commands._columns import add_column_flags, add_group_flag, read_named
from rankbound.commands._recipe_flags import add_recipe_flags, recipe_of
from rankbound.flags import plain_errors

if TYPE_CHECKING:
    from rankbound.io.judged import JudgedLists, Run

SUMMARY = "Train across folds: every topic is scored by a ranker that was not trained on it; compare losses"
EXAMPLES = """\
  rankbound cross-validate lists.csv -m nDCG@10
  rankbound cross-validate lists.letor --loss nDCG --loss LambdaRank --loss RankNet -m nDCG@10 -m AP --runs runs
  rankbound cross-validate clicks.parquet --topic query --relevance clicked --folds 10 -m RR

The topics are dealt to the folds at random, the same for all losses. Each fold's rankers are trained on the other
topics, a share of which selects the epoch. Several losses are compared by paired tests over topics, with Holm's
correction; more is in `rankbound compare`, from the runs that --runs keeps."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("lists", type=Path, metavar="FILE", help="judged lists: LETOR, .csv, .tsv, .parquet or .arrow")
    parser.add_argument("--folds", type=int, default=5, metavar="N", help="number of folds (default: 5)")
    parser.add_argument(
        "--loss", dest="losses", action="append", metavar="LOSS", help="may be repeated (default: nDCG)"
    )
    parser.add_argument(
        "-m", "--evaluate", dest="metrics", action="append", required=True, metavar="METRIC", help="may be repeated"
    )
    parser.add_argument("--runs", type=Path, metavar="FOLDER", help="also write the run of each loss there, LOSS.csv")
    add_recipe_flags(parser)
    add_group_flag(parser)
    add_column_flags(parser)


def run(arguments: argparse.Namespace) -> None:
    """Cross-validate, evaluate and compare."""
    from rankbound.evaluation import evaluate_run
    from rankbound.metrics import metric

    losses = list(dict.fromkeys(arguments.losses or ["nDCG"]))
    with plain_errors():
        metrics = [metric(text) for text in arguments.metrics]
    lists = read_named(arguments.lists, arguments, arguments.features, groups=arguments.groups)
    runs = {loss: _run_of(lists, loss, arguments) for loss in losses}
    for loss, made in runs.items():
        with plain_errors():
            print(f"{loss}, {arguments.folds} folds, {len(made.topics)} topics\n{evaluate_run(made, lists, metrics)}\n")
    if len(runs) > 1:
        _compare(runs, lists, arguments.metrics)


def _run_of(lists: "JudgedLists", loss: str, arguments: argparse.Namespace) -> "Run":
    from rankbound.io.files import needs_extra, write_run
    from rankbound.training.cross_validation import cross_validate
    from rankbound.training.recipe import Recipe

    with needs_extra("data"):
        from tqdm import tqdm

    recipe = {**recipe_of(arguments), "loss": loss}
    with plain_errors():
        epochs = Recipe(**recipe).epochs * arguments.folds
    with plain_errors(), tqdm(total=epochs, unit="epoch", desc=loss, disable=None) as progress:
        made = cross_validate(
            lists, arguments.folds, device=arguments.device, on_epoch=lambda epoch: progress.update(), **recipe
        ).run
    if arguments.runs is not None:
        arguments.runs.mkdir(parents=True, exist_ok=True)
        write_run(arguments.runs / f"{loss.replace('/', '_')}.csv", made)
    return made


def _compare(runs: "dict[str, Run]", lists: "JudgedLists", metrics: list[str]) -> None:
    from rankbound.compare.compare_runs import compare_runs
    from rankbound.compare.renderers import as_text

    with plain_errors():
        print(as_text(compare_runs(runs, lists, metrics, baseline=next(iter(runs)))))
