"""`rankbound cross-validate`: train, score and evaluate across folds, for one loss or several."""

import argparse
import glob
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankbound.commands import (
    loss_of,
    read_named,
    recipe_of,
    report_columns,
    require_writable,
)
from rankbound.errors import ConfigError, naming, plain_errors
from rankbound.texts import names, quantity

if TYPE_CHECKING:
    from rankbound.metrics import Metric
    from rankbound.training.splits import CrossValidated, Split

FOLD = "{fold}"
FOLDS = 5

JUDGEMENTS = "judgements.csv"
"""The file of judgements beside runs, if some topic is tested in several folds."""


_Test = Callable[..., "CrossValidated"]
"""Tests the ranker of a recipe on all folds."""


def run(arguments: argparse.Namespace) -> None:
    """Cross-validate, evaluate and compare."""
    from rankbound.io.files import needs_extra, write_qrels, write_run
    from rankbound.metrics import metric
    from rankbound.training.recipe import Recipe

    with needs_extra("data"):
        from tqdm import tqdm

    losses = list(dict.fromkeys(loss_of(text, arguments) for text in arguments.losses or ["nDCG"]))
    with plain_errors():
        metrics = [metric(text, names=arguments.names) for text in dict.fromkeys(arguments.metrics)]
        recipes = {loss: {**recipe_of(arguments), "loss": loss} for loss in losses}
        checked = [Recipe(**recipe) for recipe in recipes.values()]
        epochs = max(recipe.epochs for recipe in checked)
    if not checked[0].takes_loss:
        # A model whose loss is its own is called by its name.
        recipes = {checked[0].model: recipes[losses[0]]}
    folds, test = _test_of(arguments)
    if arguments.runs is not None:
        require_writable(arguments.runs / JUDGEMENTS)
    tested: dict[str, CrossValidated] = {}
    for loss, recipe in recipes.items():
        with plain_errors(), tqdm(total=epochs * folds, unit="epoch", desc=loss, disable=None) as progress:
            found = test(device=arguments.device, on_epoch=lambda epoch, progress=progress: progress.update(), **recipe)
        tested[loss] = found
        if arguments.runs is not None:
            write_run(arguments.runs / f"{loss.replace('/', '_')}.csv", found.run)
            if [topic for topic, _ in found.tests] != list(found.run.topics):
                write_qrels(arguments.runs / JUDGEMENTS, found.judged)
    for loss, found in tested.items():
        with plain_errors():
            print(_report(loss, found, metrics))
    if len(tested) > 1:
        _compare(tested, metrics)


def _test_of(arguments: argparse.Namespace) -> tuple[int, _Test]:
    """Return the number of folds that are dealt, or of given splits, and the test of a recipe on them."""
    from rankbound.training.splits import cross_validate, cross_validate_splits

    if not arguments.splits:
        if arguments.lists is None:
            raise ConfigError("found no file: expected one to deal into folds, or the files of given splits by --split")
        lists = read_named(arguments.lists, arguments, groups=arguments.groups)
        report_columns(arguments.lists, lists.feature_names, lists.left_out, lists.doubtful)
        folds = FOLDS if arguments.folds is None else arguments.folds
        return folds, naming(arguments.lists)(partial(cross_validate, lists, folds))
    for flag, found in (("FILE", arguments.lists), ("--folds", arguments.folds), ("--groups", arguments.groups)):
        if found is not None:
            raise ConfigError(f"{flag}: found {found} beside --split, which names all files; expected one or the other")
    files, reported = _split_files(arguments.splits), list[Any]()
    return len(files), lambda **options: cross_validate_splits(_read(files, arguments, reported), **options)


def _read(files: Sequence[Sequence[Path]], arguments: argparse.Namespace, reported: list[Any]) -> "Iterator[Split]":
    """Read one split after the other, which need not fit into memory together; report columns unless `reported`."""
    from rankbound.training.splits import Split

    for first, *others in files:
        training = read_named(first, arguments)
        columns = training.feature_names, training.left_out, training.doubtful
        if columns not in reported:
            report_columns(first, *columns)
            reported.append(columns)
        *held_out, test = [read_named(path, arguments, like=training) for path in others]
        validation = held_out[0] if held_out else None
        yield Split(training=training, validation=validation, test=test, name=", ".join(map(str, (first, *others))))


def _split_files(texts: Sequence[str]) -> list[list[Path]]:
    """Return the files of each split that flags name, in the order of a pattern's folds; ConfigError if some lack."""
    splits = []
    for text in texts:
        parts = names(text)
        if len(parts) not in (2, 3):
            expected = "expected TRAIN,TEST or TRAIN,VALIDATION,TEST, files with commas between them"
            raise ConfigError(f"--split: found {text}, {expected}")
        pattern = next((part for part in parts if FOLD in part), None)
        for fold in [""] if pattern is None else _folds(pattern):
            paths = [Path(part.replace(FOLD, fold)) for part in parts]
            lacking = next((path for path in paths if not path.exists()), None)
            if lacking is not None:
                whose = "" if pattern is None else f"fold {fold} of "
                others = ", ".join(str(path) for path in paths if path != lacking)
                raise ConfigError(f"--split: {whose}{lacking}: there is no such file; expected it beside {others}")
            splits.append(paths)
    return splits


def _folds(pattern: str) -> list[str]:
    """Return what stands for `{fold}` in the files that there are; whole numbers in their order."""
    first, *others = map(re.escape, pattern.split(FOLD))
    text = re.compile(first + "([^/]+)" + r"\1".join(others), re.DOTALL)
    # Unlike that of `Path`, this function takes absolute patterns.
    paths = glob.glob(glob.escape(pattern).replace(FOLD, "*"))  # noqa: PTH207
    found = {match[1] for path in paths if (match := text.fullmatch(path))}
    # Numbers are sorted by their value.
    folds = sorted(found, key=lambda fold: (len(fold.lstrip("0")) if fold.isdecimal() else 0, fold))
    if not folds:
        raise ConfigError(f"--split: there is no file {pattern}, with any name or number for {FOLD}")
    if all(re.fullmatch("[0-9]{1,9}", fold) for fold in folds):
        missing = sorted({*range(int(folds[0]), int(folds[-1]))} - {int(fold) for fold in folds})
        if missing:
            raise ConfigError(
                f"--split: fold {missing[0]} of {pattern} is missing: found the folds {', '.join(folds)}; add its "
                "files, or name the files of every split by a --split of its own"
            )
    return folds


def _report(loss: str, found: "CrossValidated", metrics: "Sequence[Metric]") -> str:
    """Return the means over topics, and below those of each fold with its epoch and costs."""
    from rankbound.evaluation import aligned, shown

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
    if unknown := sum(found.unknown):
        text += f"items scored by the mean of others, as no training list had them or their topic: {unknown}\n"
    return text


def _compare(tested: "Mapping[str, CrossValidated]", metrics: "Sequence[Metric]") -> None:
    """Compare all losses with the first; a topic's value is its mean over the folds that test it."""
    import polars as pl

    from rankbound.compare.comparison import Settings
    from rankbound.compare.runs import Source, compare_sources, source_of_run

    first, *others = tested
    # The baseline comes last.
    losses, sources = [*others, first], []
    with plain_errors():
        for loss in losses:
            found = tested[loss]
            by_list = source_of_run(found.run, found.judged, metrics, loss, missing="skip")
            topics, folds = zip(*found.tests, strict=True)
            frame = by_list.frame.with_columns(topic=pl.Series(topics), fold=pl.Series(list(map(str, folds))))
            sources.append(Source(frame, by_list.metrics, by_list.notes))
        print(compare_sources(losses, sources, [str(one) for one in metrics], Settings(), with_last=True))
