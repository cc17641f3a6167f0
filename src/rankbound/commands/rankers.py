"""`rankbound pack`, `train`, `cross-validate` and `score`: rankers of one's own lists."""

import argparse
import glob
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankbound.commands import columns_of
from rankbound.errors import ColumnWarning, ConfigError, OutputError, naming, plain_errors
from rankbound.lazy import pl, tqdm
from rankbound.texts import LONGEST, is_number, names, printable, quantity, shortened

if TYPE_CHECKING:
    from rankbound.io.judged import JudgedLists, Run
    from rankbound.io.packed import Pack
    from rankbound.metrics import Metric
    from rankbound.training.splits import CrossValidated

FOLD = "{fold}"
FOLDS = 5

JUDGEMENTS = "judgements.csv"
"""The file of judgements beside runs, if some topic is tested in several folds."""

_REPORTED: Any = {"action": "ignore", "category": ColumnWarning}
"""Warnings of columns are not shown: a command reports them in its output."""


@plain_errors()
def pack(arguments: argparse.Namespace) -> None:
    """Write judged lists as an Arrow file that may be larger than memory, and print what was packed."""
    from rankbound.io.files import pack_lists

    columns = {**columns_of(arguments), "groups": arguments.groups, "features": arguments.features}
    with warnings.catch_warnings(**_REPORTED), tqdm.tqdm(unit="topic", disable=None) as progress:
        packed = pack_lists(arguments.lists, arguments.out, **columns, on_topics=progress.update)
    parts = {"topic": packed.n_topics, "item": packed.n_items, "feature": packed.n_features}
    print(f"packed {', '.join(quantity(number, what) for what, number in parts.items())}")
    _report_columns(arguments.lists, packed)
    print(f"wrote {arguments.out}")


@plain_errors()
def train(arguments: argparse.Namespace) -> None:
    """Train and save a ranker, and print a summary."""
    from rankbound.training.ranker import train_ranker
    from rankbound.training.recipe import Recipe

    if arguments.folds is not None:
        raise ConfigError(
            "--folds: this command trains one model; to train, score and evaluate across folds, run `rankbound "
            "cross-validate`, which takes the other flags, too, but for --out and --validation, and -m METRIC"
        )
    if arguments.out is None:
        raise ConfigError("--out: found none, expected the file of the model to write, such as --out model.safetensors")
    settings = _recipe_of(arguments)
    recipe = Recipe(**settings)
    lists = _read_named(arguments.lists, arguments, groups=arguments.groups)
    validation, files = None, str(arguments.lists)
    if arguments.validation is not None:
        validation = _read_named(arguments.validation, arguments, groups=arguments.validation_groups, like=lists)
        files = f"{files}, {arguments.validation}"
    _require_writable(arguments.out)
    _report_columns(arguments.lists, lists)
    with naming(files), tqdm.tqdm(total=recipe.epochs, unit="epoch", disable=None) as progress:
        ranker = train_ranker(
            lists, validation, device=arguments.device, on_epoch=lambda epoch: progress.update(), **settings
        )
    ranker.save(arguments.out)
    record, vocabulary = ranker.record, ranker.vocabulary
    topics, items = quantity(record["training_topics"], "topic"), quantity(record["training_items"], "item")
    read = quantity(len(ranker.feature_names), "feature") if vocabulary is None else f"{len(vocabulary.items)} distinct"
    print(f"trained on {topics}, {items}, {read}")
    bound = "" if recipe.bound == "none" else f", bound {recipe.bound}"
    loss = f"loss {recipe.loss}{bound}, " if recipe.takes_loss else ""
    cost = f", cost {record['cost']:g}" if "cost" in record else ""
    # Models that are counted have no epochs, and a cost has as many as it takes.
    count = f" of {record.get('epochs', recipe.epochs)}" if not cost else ""
    epochs = f": epoch {record['epoch']}{count}{cost}" if record["epoch"] else ""
    print(f"{loss}{recipe.model} model{epochs}")
    if record["validation"] is not None:
        topics = quantity(record["validation_topics"], "validation topic")
        print(f"{recipe.metric} on {topics}: {record['validation']:.4f}")
    print(f"wrote {arguments.out}")


@plain_errors()
def cross_validate(arguments: argparse.Namespace) -> None:
    """Train, score and evaluate across folds, for one loss or several, and compare these."""
    from rankbound.io.files import write_qrels, write_run
    from rankbound.metrics import metric
    from rankbound.training.recipe import Recipe

    losses = list(dict.fromkeys(_loss_of(text, arguments) for text in arguments.losses or ["nDCG"]))
    metrics = [metric(text, names=arguments.names) for text in dict.fromkeys(arguments.metrics)]
    recipes = {loss: {**_recipe_of(arguments), "loss": loss} for loss in losses}
    checked = [Recipe(**recipe) for recipe in recipes.values()]
    epochs = max(recipe.epochs for recipe in checked)
    if not checked[0].takes_loss:
        # A model whose loss is its own is called by its name.
        recipes = {checked[0].model: recipes[losses[0]]}
    folds, test = _test_of(arguments)
    if arguments.runs is not None:
        _require_writable(arguments.runs / JUDGEMENTS)
    tested: dict[str, CrossValidated] = {}
    for loss, recipe in recipes.items():
        with tqdm.tqdm(total=epochs * folds, unit="epoch", desc=loss, disable=None) as progress:
            found = test(device=arguments.device, on_epoch=lambda epoch, progress=progress: progress.update(), **recipe)
        tested[loss] = found
        if arguments.runs is not None:
            write_run(arguments.runs / f"{loss.replace('/', '_')}.csv", found.run)
            if [topic for topic, _ in found.tests] != list(found.run.topics):
                write_qrels(arguments.runs / JUDGEMENTS, found.judged)
    for loss, found in tested.items():
        print(_report(loss, found, metrics))
    if len(tested) > 1:
        _compare(tested, metrics)


@plain_errors()
def score(arguments: argparse.Namespace) -> None:
    """Score lists with a trained ranker, and write the run."""
    from rankbound.io.files import stream_lists, write_run, write_runs
    from rankbound.training.ranker import load

    ranker, parts, counts = load(arguments.model), None, [0, 0]
    columns = {name: getattr(arguments, name) for name in ("topic", "item", "relevance", "groups")}

    def scored(lists: Any, **named: Any) -> "Run":
        run = ranker.score_lists(lists, arguments.unknown, **named)
        counts[:] = counts[0] + len(run.items), counts[1] + len(run.topics)
        return run

    with naming(arguments.lists), warnings.catch_warnings(**_REPORTED):
        # JSON and packed text are written in one piece.
        in_parts = arguments.out.suffix not in (".json", ".jsonl", ".gz", ".bz2", ".zst")
        if in_parts and ranker.vocabulary is None and not ranker.encoding.categories:
            keep = ranker.encoding.missing != "refuse"
            parts = stream_lists(arguments.lists, ranker.feature_names, keep_missing=keep, **columns)
        if parts is None:
            write_run(arguments.out, scored(arguments.lists, **columns), tag=arguments.tag)
        else:
            write_runs(arguments.out, map(scored, parts), tag=arguments.tag)
    items, topics = quantity(counts[0], "item"), quantity(counts[1], "topic")
    print(f"scored {items} of {topics}\nwrote {arguments.out}")


def _test_of(arguments: argparse.Namespace) -> tuple[int, Callable[..., "CrossValidated"]]:
    """Return the number of folds that are dealt, or of given splits, and the test of a recipe on them."""
    from rankbound.training.splits import Split, cross_validate, cross_validate_splits

    if not arguments.splits:
        if arguments.lists is None:
            raise ConfigError("found no file: expected one to deal into folds, or the files of given splits by --split")
        lists = _read_named(arguments.lists, arguments, groups=arguments.groups)
        _report_columns(arguments.lists, lists)
        folds = FOLDS if arguments.folds is None else arguments.folds
        return folds, naming(arguments.lists)(partial(cross_validate, lists, folds))
    for flag, found in (("FILE", arguments.lists), ("--folds", arguments.folds), ("--groups", arguments.groups)):
        if found is not None:
            raise ConfigError(f"{flag}: found {found} beside --split, which names all files; expected one or the other")
    files, reported = _split_files(arguments.splits), list[Any]()

    def splits() -> Iterator[Split]:
        """Read one split after the other, which need not fit into memory together."""
        for first, *others in files:
            training = _read_named(first, arguments)
            columns = training.feature_names, training.left_out, training.doubtful
            if columns not in reported:
                _report_columns(first, training)
                reported.append(columns)
            *held_out, test = [_read_named(path, arguments, like=training) for path in others]
            validation = held_out[0] if held_out else None
            yield Split(training=training, validation=validation, test=test, name=", ".join(map(str, (first, *others))))

    return len(files), lambda **options: cross_validate_splits(splits(), **options)


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
                others = ", ".join(str(path) for path in paths if path != lacking)
                raise ConfigError(f"--split: {lacking}: there is no such file; expected it beside {others}")
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
    columns = zip(found.folds, found.rankers, found.seconds, *by_fold.values(), strict=True)
    rows = [
        (number, len(topics), *map(shown, values), ranker.record["epoch"], f"{seconds:.1f}")
        for number, (topics, ranker, seconds, *values) in enumerate(columns, start=1)
    ]
    folds = aligned([("fold", "topics", *by_fold, "epoch", "seconds"), *rows])
    counts = f"{quantity(len(rows), 'fold')}, {quantity(len(means.topics), 'topic')}"
    text = f"{loss}, {counts}\n{means}\n\n{folds}\n"
    if unknown := sum(found.unknown):
        text += f"items scored by the mean of others, as no training list had them or their topic: {unknown}\n"
    return text


def _compare(tested: "Mapping[str, CrossValidated]", metrics: "Sequence[Metric]") -> None:
    """Compare all losses with the first; a topic's value is its mean over the folds that test it."""
    from rankbound.compare.comparison import Settings
    from rankbound.compare.runs import Source, compare_sources, source_of_run

    first, *others = tested
    # The baseline comes last.
    losses, sources = [*others, first], []
    for loss in losses:
        found = tested[loss]
        by_list = source_of_run(found.run, found.judged, metrics, loss, missing="skip")
        topics, folds = zip(*found.tests, strict=True)
        frame = by_list.frame.with_columns(topic=pl.Series(topics), fold=pl.Series(list(map(str, folds))))
        sources.append(Source(frame, by_list.metrics, by_list.notes))
    print(compare_sources(losses, sources, [str(one) for one in metrics], Settings(), with_last=True))


def _recipe_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of the recipe that flags set."""
    from rankbound.training.recipe import Recipe

    flags = {setting.name: getattr(arguments, setting.name, None) for setting in fields(Recipe)}
    recipe = {name: value for name, value in flags.items() if value is not None}
    if "loss" in recipe:
        recipe["loss"] = _loss_of(recipe["loss"], arguments)
    if "metric" in recipe and arguments.names != "rankbound":
        from rankbound.metrics import metric

        recipe["metric"] = str(metric(recipe["metric"], names=arguments.names))
    return recipe


def _loss_of(text: str, arguments: argparse.Namespace) -> str:
    """Return a loss's text here, given that of the tool that --names names."""
    if arguments.names == "rankbound":
        return text
    from rankbound.losses import loss

    return loss(text, names=arguments.names).text


def _read_named(
    path: Path, arguments: argparse.Namespace, *, groups: Path | None = None, like: "JudgedLists | None" = None
) -> "JudgedLists":
    """Read judged lists from `path`, with the columns of the flags, or with the features of others, `like` them.

    Lists for a factorisation have no features; ConfigError if flags name some.
    """
    from rankbound.io.files import read_lists
    from rankbound.training.recipe import PAIR_MODELS

    is_of_pairs, keeps = arguments.model in PAIR_MODELS, arguments.missing_features not in (None, "refuse")
    columns: dict[str, Any] = {**columns_of(arguments), "missing_features": "keep" if keeps else "refuse"}
    if like is None:
        if is_of_pairs and arguments.features:
            raise ConfigError(
                f"--features: found {','.join(arguments.features)} beside --model {arguments.model}, which reads "
                "topics and items alone; expected no features, or --model linear or mlp"
            )
        flags = {name: getattr(arguments, name) for name in ("weights", "list_weights", "exclude", "categorical")}
        columns |= {name: value for name, value in flags.items() if value is not None}
        columns["features"] = [] if is_of_pairs else arguments.features
    else:
        columns |= {"features": like.feature_names, "categorical": list(like.categories)}
    with warnings.catch_warnings(**_REPORTED):
        return read_lists(path, **columns, groups=groups)


def _report_columns(path: Path, lists: "JudgedLists | Pack") -> None:
    """Print the names of features, unless they are numbers, and what was left out; note doubtful ones on stderr."""
    from rankbound.io.judged import doubt, listed

    if not all(map(is_number, lists.feature_names)):
        print(f"features: {printable(shortened(', '.join(lists.feature_names), LONGEST))}")
    if lists.left_out:
        print(f"left out, as --features does not name them: {listed(lists.left_out)}")
    if lists.doubtful:
        print(f"note: {path}: {doubt(lists.doubtful)}", file=sys.stderr)


def _require_writable(path: Path) -> None:
    """Raise OutputError for a file that cannot be written, before the work whose result it will hold."""
    from rankbound.io.atomic import temporary_beside

    with temporary_beside(path, path.suffix):
        if path.is_dir():
            raise OutputError(f"{path}: could not be written: found a folder, expected the name of a file")
