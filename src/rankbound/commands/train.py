"""`rankbound train`: train a ranker on judged lists."""

import argparse
from shlex import quote

from rankbound.commands import (
    read_named,
    recipe_of,
    report_columns,
    require_writable,
)
from rankbound.errors import ConfigError, naming, plain_errors
from rankbound.texts import quantity


def run(arguments: argparse.Namespace) -> None:
    """Train and save a ranker, and print a summary."""
    from rankbound.io.files import needs_extra
    from rankbound.training.ranker import train_ranker
    from rankbound.training.recipe import Recipe

    with needs_extra("data"):
        from tqdm import tqdm

    if arguments.folds is not None:
        loss = "" if arguments.loss is None else f" --loss {quote(arguments.loss)}"
        metric = quote(arguments.metric or "nDCG@10")
        raise ConfigError(
            "--folds: this command trains one model; to train, score and evaluate across folds, run `rankbound "
            f"cross-validate {quote(str(arguments.lists))} --folds {quote(arguments.folds)}{loss} -m {metric}`, which "
            "takes the other flags, too, but for --out and --validation"
        )
    if arguments.out is None:
        raise ConfigError("--out: found none, expected the file of the model to write, such as --out model.safetensors")
    settings = recipe_of(arguments)
    with plain_errors():
        recipe = Recipe(**settings)
    lists = read_named(arguments.lists, arguments, groups=arguments.groups)
    validation, files = None, str(arguments.lists)
    if arguments.validation is not None:
        groups = arguments.validation_groups
        validation = read_named(arguments.validation, arguments, groups=groups, like=lists)
        files = f"{files}, {arguments.validation}"
    require_writable(arguments.out)
    report_columns(arguments.lists, lists.feature_names, lists.left_out, lists.doubtful)
    with naming(files), plain_errors(), tqdm(total=recipe.epochs, unit="epoch", disable=None) as progress:
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
