"""`rankbound cross-validate`: train, score and evaluate across folds, for one loss or several."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankbound.commands._columns import add_column_flags, add_group_flag, read_named, report_columns
from rankbound.commands._outputs import require_writable
from rankbound.commands._recipe_flags import add_recipe_flags, features_of, recipe_of
from rankbound.commands._split_files import SplitFiles, split_files
from rankbound.errors import ConfigError, naming, plain_errors
from rankbound.texts import positive

if TYPE_CHECKING:
    from rankbound.compare.runs import Source
    from rankbound.metrics import Metric
    from rankbound.training.cross_validation import CrossValidated
    from rankbound.training.splits import Split

FOLDS = 5

JUDGEMENTS = "judgements.csv"
"""The file of judgements beside runs, if some topic is tested in several folds."""

SUMMARY = "Train across folds: every list is scored by a ranker that was not trained on it; compare losses"
EXAMPLES = """\
  rankbound cross-validate lists.csv -m nDCG@10
  rankbound cross-validate lists.letor --loss nDCG --loss LambdaRank --loss RankNet -m nDCG@10 -m AP --runs runs
  rankbound cross-validate clicks.parquet --topic query --relevance clicked --folds 10 -m RR
  rankbound cross-validate ratings.csv --topic user --item film --model matrix-factorization -m nDCG
  rankbound cross-validate --split "Fold{fold}/train.txt,Fold{fold}/vali.txt,Fold{fold}/test.txt" -m nDCG@10
  rankbound cross-validate --split a_train.csv,a_test.csv --split b_train.csv,b_test.csv -m AP

The topics are dealt to the folds at random, the same for all losses; for a matrix factorisation, the items of each
topic. Each fold's rankers are trained on the others, a share of which selects the epoch. Several losses are compared by
paired tests over topics, with Holm's correction; more is in `rankbound compare`, from the runs that --runs keeps."""


@dataclass(frozen=True)
class _Tests:
    """What a command cross-validates: a number of folds, and the function that tests a loss on them."""

    folds: int
    test: "Callable[..., CrossValidated]"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "lists", type=Path, nargs="?", metavar="FILE", help="judged lists: LETOR, .csv, .tsv, .parquet or .arrow"
    )
    parser.add_argument("--folds", type=positive, metavar="N", help=f"number of folds to draw (default: {FOLDS})")
    parser.add_argument(
        "--split",
        dest="splits",
        action="append",
        metavar="FILES",
        help="instead of FILE, the files of a split: TRAIN,TEST or TRAIN,VALIDATION,TEST; may be repeated, or name all "
        "folds by {fold}",
    )
    parser.add_argument(
        "--loss", dest="losses", action="append", metavar="LOSS", help="may be repeated (default: nDCG)"
    )
    parser.add_argument(
        "-m", "--evaluate", dest="metrics", action="append", required=True, metavar="METRIC", help="may be repeated"
    )
    parser.add_argument(
        "--runs",
        type=Path,
        metavar="FOLDER",
        help=f"also write the run of each loss there, LOSS.csv; and {JUDGEMENTS} to evaluate them by, if topics are "
        "tested in several folds, as topic/fold",
    )
    add_recipe_flags(parser)
    add_group_flag(parser)
    add_column_flags(parser)


def run(arguments: argparse.Namespace) -> None:
    """Cross-validate, evaluate and compare."""
    from rankbound.metrics import metric
    from rankbound.training.recipe import Recipe

    losses = list(dict.fromkeys(arguments.losses or ["nDCG"]))
    with plain_errors():
        metrics = [metric(text) for text in dict.fromkeys(arguments.metrics)]
        recipes = {loss: {**recipe_of(arguments), "loss": loss} for loss in losses}
        epochs = max(Recipe(**recipe).epochs for recipe in recipes.values())
    tests = _of_splits(arguments) if arguments.splits else _of_folds(arguments)
    if arguments.runs is not None:
        require_writable(arguments.runs / JUDGEMENTS)
    tested = {loss: _tested(tests, recipe, epochs, arguments) for loss, recipe in recipes.items()}
    for loss, found in tested.items():
        with plain_errors():
            print(_report(loss, found, metrics))
    if len(tested) > 1:
        _compare(tested, metrics)


def _of_folds(arguments: argparse.Namespace) -> _Tests:
    from rankbound.training.cross_validation import cross_validate

    if arguments.lists is None:
        raise ConfigError("found no file: expected one to deal into folds, or the files of given splits by --split")
    lists = read_named(arguments.lists, arguments, features_of(arguments), groups=arguments.groups)
    report_columns(arguments.lists, lists.feature_names, lists.left_out, lists.doubtful)
    folds = FOLDS if arguments.folds is None else arguments.folds

    def test(**options: Any) -> "CrossValidated":
        with naming(arguments.lists):
            return cross_validate(lists, folds, **options)

    return _Tests(folds, test)


def _of_splits(arguments: argparse.Namespace) -> _Tests:
    from rankbound.training.cross_validation import cross_validate_splits

    for flag, found in (("FILE", arguments.lists), ("--folds", arguments.folds), ("--groups", arguments.groups)):
        if found is not None:
            raise ConfigError(f"{flag}: found {found} beside --split, which names all files; expected one or the other")
    files, reported = split_files(arguments.splits), list[Any]()
    return _Tests(len(files), lambda **options: cross_validate_splits(_read(files, arguments, reported), **options))


def _read(files: Sequence[SplitFiles], arguments: argparse.Namespace, reported: list[Any]) -> "Iterator[Split]":
    """Read one split after the other, which need not fit into memory together; report columns unless `reported`."""
    from rankbound.training.splits import Split

    features = features_of(arguments)
    for of_split in files:
        training = read_named(of_split.training, arguments, features)
        columns = training.feature_names, training.left_out, training.doubtful
        if columns not in reported:
            report_columns(of_split.training, *columns)
            reported.append(columns)
        others = [
            None if path is None else read_named(path, arguments, training.feature_names)
            for path in (of_split.validation, of_split.test)
        ]
        validation, test = others
        assert test is not None
        yield Split(training=training, validation=validation, test=test, name=of_split.name)


def _tested(tests: _Tests, recipe: Mapping[str, Any], epochs: int, arguments: argparse.Namespace) -> "CrossValidated":
    from rankbound.io.files import needs_extra, write_qrels, write_run

    with needs_extra("data"):
        from tqdm import tqdm

    with plain_errors(), tqdm(total=epochs * tests.folds, unit="epoch", desc=recipe["loss"], disable=None) as progress:
        found = tests.test(device=arguments.device, on_epoch=lambda epoch: progress.update(), **recipe)
    if arguments.runs is not None:
        write_run(arguments.runs / f"{recipe['loss'].replace('/', '_')}.csv", found.run)
        if [topic for topic, _ in found.tests] != list(found.run.topics):
            write_qrels(arguments.runs / JUDGEMENTS, found.judged)
    return found


def _report(loss: str, found: "CrossValidated", metrics: "Sequence[Metric]") -> str:
    """Return the means over topics, and below those of each fold with its epoch and costs."""
    from rankbound.evaluation import aligned, shown
    from rankbound.texts import quantity

    means = found.evaluate(metrics)
    by_fold = found.evaluate_folds(metrics)
    rows = [
        (number, len(topics), *map(shown, values), ranker.record["epoch"], f"{seconds:.1f}")
        for number, (topics, ranker, seconds, *values) in enumerate(
            zip(found.folds, found.rankers, found.seconds, *by_fold.values(), strict=True), start=1
        )
    ]
    folds = aligned([("fold", "topics", *by_fold, "epoch", "seconds"), *rows])
    counts = f"{quantity(len(rows), 'fold')}, {quantity(len(means.topics), 'topic')}"
    text = f"{loss}, {counts}\n{means}\n\n{folds}\n"
    if any(found.unknown):
        text += (
            f"items scored by the mean of others, as no training list had them or their topic: {sum(found.unknown)}\n"
        )
    return text


def _compare(tested: "Mapping[str, CrossValidated]", metrics: "Sequence[Metric]") -> None:
    """Compare all losses with the first; a topic's value is its mean over the folds that test it."""
    from rankbound.compare.comparison import Settings
    from rankbound.compare.runs import compare_sources

    first, *others = tested
    with plain_errors():
        # The baseline comes last.
        sources = [_source(name, tested[name], metrics) for name in (*others, first)]
        print(compare_sources([*others, first], sources, [str(one) for one in metrics], Settings(), True))


def _source(name: str, found: "CrossValidated", metrics: "Sequence[Metric]") -> "Source":
    import polars as pl

    from rankbound.compare.runs import Source, source_of_run

    by_list = source_of_run(found.run, found.judged, metrics, "skip", name)
    topics, folds = zip(*found.tests, strict=True)
    frame = by_list.frame.with_columns(topic=pl.Series(topics), fold=pl.Series(list(map(str, folds))))
    return Source(frame, by_list.metrics, by_list.notes)
