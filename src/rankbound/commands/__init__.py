"""The subcommands of `rankbound`, a module each; here, the flags and checks that several of them share."""

import argparse
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankbound.errors import ColumnWarning, ConfigError, OutputError, RankboundError, plain_errors
from rankbound.texts import LONGEST, is_number, names, printable, shortened, widths

if TYPE_CHECKING:
    from rankbound.io.judged import JudgedLists

USUAL_METRICS = ("nDCG@10", "AP", "RR", "P@10", "Recall@100")
"""What a run is evaluated by where no metric is named."""

STANDARD_INPUT = "-"


class Source(type(Path())):  # type: ignore[misc]
    """A file to read: `-` is standard input, and it may be a pipe."""


UNKNOWN = "topics and items that a model without features was not trained on"

_START_BYTES = 2**16

_RECIPE: Mapping[str, tuple[Callable[[str], Any], str | None, str]] = {
    "bound": (str, "BOUND", "none (default), min-max, expectation, expectation-max, ..."),
    "model": (
        str,
        None,
        "linear (default), mlp, attention, ranksvm, adarank, rankboost, coordinate-ascent, subset-ranking or prank; "
        "trees: mart, lambdamart, random-forest, mcrank or boosted-trees (for any loss); or, without features, "
        "matrix-factorization, neural-mf, popularity, item-knn or ease",
    ),
    "hidden": (widths, "WIDTHS", "widths of a network's layers; of attention, those before it (default: 64,32)"),
    "blocks": (int, "N", "blocks of a model attention (default: 2)"),
    "heads": (int, "N", "heads of each block's attention (default: 2)"),
    "scale": (str, None, "scaling of features: standard (default), query (within each list) or none"),
    "features": (names, "NAMES", "feature columns, as in a,b (default: those of numbers)"),
    "exclude": (names, "NAMES", "columns that are no features"),
    "categorical": (names, "NAMES", "feature columns whose values are categories: texts or whole numbers"),
    "missing_features": (
        str,
        None,
        "missing values of features: refuse (default), mean of the training items, zero, or indicator (mean, and an "
        "input that is 1 where the value is missing)",
    ),
    "weights": (str, "NAME", "column of the items' weights in the loss"),
    "list_weights": (str, "NAME", "column of the topics' weights in the loss, the same in all rows of a topic"),
    "bias": (str, None, "bias of a matrix factorisation: item (default) or none"),
    "unknown": (str, None, f"{UNKNOWN}: refuse (default), or mean"),
    "validation_share": (
        float,
        "SHARE",
        "share of topics, or of each topic's items for a matrix factorisation, held out for validation without a file "
        "of them (default: 0.2)",
    ),
    "metric": (str, "METRIC", "metric that selects the epoch (default: nDCG@10)"),
    "temperature": (float, "T", "temperature of the smooth ranks, in units of the scores (default: 1.0)"),
    "factors": (int, "N", "factors of each topic and item of a matrix factorisation (default: 32)"),
    "neighbours": (int, "N", "similar items of each item that an item-knn counts (default: 50)"),
    "ridge": (float, "WEIGHT", "weight of the squares of an ease's weights (default: 100.0)"),
    "cost": (
        float,
        "C",
        "factor of the mean loss of a ranksvm or subset-ranking; None (default): the validation topics choose",
    ),
    "pair_weights": (str, None, "of a ranksvm or rankboost: equal (default), or list, by which topics weigh the same"),
    "starts": (int, "N", "initial weights from which a coordinate-ascent climbs (default: 2)"),
    "top": (int, "K", "items of a list whose gains count in full in a subset-ranking (default: 10)"),
    "rest_weight": (float, "WEIGHT", "weight of other items whose scores exceed their gains there (default: 1.0)"),
    "classification": (str, None, "of a mcrank: multiclass (default), or ordinal, a classifier of each grade"),
    "leaves": (int, "N", "most leaves of a tree (default: 31)"),
    "min_rows": (int, "N", "fewest items of a tree's leaf (default: 20)"),
    "shrinkage": (float, "RATE", "factor of each boosted tree (default: 0.1)"),
    "negatives": (
        int,
        "N",
        "for a matrix factorisation, items drawn for each relevant one, as not relevant (default: 0)",
    ),
    "negative_sampling": (
        str,
        "HOW",
        "how these are drawn: in every epoch anew, uniform (default), popularity or in-batch; or once",
    ),
    "epochs": (int, "N", "passes over the training topics, rounds or sweeps (default: 100)"),
    "patience": (
        int,
        "N",
        "epochs without a better validation score that end a training; None (default): those of 2,000 steps; 0: none",
    ),
    "learning_rate": (float, "RATE", "rate of Adam; None (default): 0.01, of an mlp from 20,000 items on 0.003"),
    "batch_size": (int, "N", "topics per step (default: 16)"),
    "seed": (int, "N", "seed of initial weights, order of topics and validation topics (default: 0)"),
}
"""The flags of `rankbound.training.recipe.Recipe` and of the columns that a training reads: type, metavar and help.

Omitted ones keep the defaults."""


def add_recipe_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of a ranker's recipe, but for the loss."""
    for name, (kind, shown, meaning) in _RECIPE.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar=shown, help=meaning)
    add_names_flag(parser, "losses and metrics")
    # Other smooth steps are gone; commands that name the sigmoid still run.
    parser.add_argument("--kernel", choices=("sigmoid",), help=argparse.SUPPRESS)
    parser.add_argument(
        "--device", default="auto", choices=("auto", "cpu", "cuda"), help="auto (default) takes a GPU if there is one"
    )


def add_evaluation_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the flags for the metrics and topics of an evaluation, and for the columns of runs."""
    meaning = "may be repeated"
    parser.add_argument("-m", "--metric", dest="metrics", action="append", default=[], metavar="METRIC", help=meaning)
    add_names_flag(parser, "metrics")
    meaning = "topics to evaluate, as in q1,q2, or @FILE with a name on each line (default: all)"
    parser.add_argument("--topics", metavar="NAMES", help=meaning)
    meaning = "columns of runs in text that doesn't name them: msmarco, or names, as in 'topic item score'"
    parser.add_argument("--format", metavar="COLUMNS", help=meaning)


def add_names_flag(parser: argparse.ArgumentParser, kinds: str) -> None:
    """Declare the flag for the tool whose names of these kinds are meant."""
    meaning = f"whose names of {kinds} are used: rankbound (default), ir_measures, trec_eval, LightGBM, CatBoost, ..."
    parser.add_argument("--names", default="rankbound", metavar="LIBRARY", help=meaning)


def topics_of(arguments: argparse.Namespace) -> list[str] | None:
    """Return the topics that the flag names, if it does."""
    text: str | None = arguments.topics
    if text is None or not text.startswith("@"):
        return None if text is None else names(text)
    from rankbound.io.text_files import read_unpacked

    lines = read_unpacked(Path(text[1:])).decode("utf-8", "replace").splitlines()
    return [line.strip() for line in lines if line.strip()]


@contextmanager
def copied_pipes(arguments: argparse.Namespace) -> Iterator[None]:
    """Replace standard input and pipes among the arguments by copies for this time: files are opened more than once.

    Messages name the originals. The ending of a copy's name tells the format of its content.
    """
    found = {
        name: [one for one in (value if isinstance(value, list) else [value]) if _is_pipe(one)]
        for name, value in vars(arguments).items()
    }
    pipes = [pipe for several in found.values() for pipe in several]
    if not pipes:
        yield
        return
    if len({*pipes}) < len(pipes):
        raise ConfigError(f"{pipes[0]}: found twice among the files to read, expected once: it can be read only once")
    copies: dict[Path, Path] = {}
    with tempfile.TemporaryDirectory(prefix="rankbound-") as folder:
        for place, pipe in enumerate(pipes):
            copy = Path(folder, str(place), "standard-input" if str(pipe) == STANDARD_INPUT else pipe.name)
            copy.parent.mkdir()
            opened = nullcontext(sys.stdin.buffer) if str(pipe) == STANDARD_INPUT else pipe.open("rb")
            with copy.open("wb") as file, opened as stream:
                shutil.copyfileobj(stream, file)
            copies[pipe] = copy.rename(copy.with_name(copy.name + _ending_of(copy)))
        for name in filter(found.get, found):
            value = getattr(arguments, name)
            several = [copies.get(one, one) for one in (value if isinstance(value, list) else [value])]
            setattr(arguments, name, several if isinstance(value, list) else several[0])
        try:
            yield
        except RankboundError as error:
            message = str(error)
            for pipe, copy in copies.items():
                message = message.replace(str(copy), "standard input" if str(pipe) == STANDARD_INPUT else str(pipe))
            raise type(error)(message) from error


def _is_pipe(value: Any) -> bool:
    return isinstance(value, Source) and (str(value) == STANDARD_INPUT or value.is_fifo())


def _ending_of(path: Path) -> str:
    """Return the ending that a file's name would have by its content, if it is no text of LETOR or TREC."""
    from rankbound.io.text_files import open_unpacked

    with open_unpacked(path) as stream:
        start = stream.read(_START_BYTES).lstrip()
    for begin, ending in {b"PAR1": ".parquet", b"ARROW1": ".arrow", b"{": ".json", b"[": ".json"}.items():
        if start.startswith(begin):
            return ending
    line = start.partition(b"\n")[0]
    if b" qid:" in line or b"\tqid:" in line:
        return ""
    if b"\t" in line:
        return ".tsv"
    return ".csv" if line.count(b",") > line.count(b" ") else ""


def add_file_flags(parser: argparse.ArgumentParser, groups: bool = True) -> None:
    """Declare the flags for the sizes of queries beside LETOR text, and for the columns of a table."""
    if groups:
        meaning = "the lines of each query, for LETOR text without qid (LightGBM's)"
        parser.add_argument("--groups", type=Source, metavar="FILE", help=meaning)
    group = parser.add_argument_group("columns of a CSV or parquet file with a row per item")
    group.add_argument("--topic", default="topic", metavar="NAME", help="column of topics (default: topic)")
    group.add_argument("--item", metavar="NAME", help="column of item names (default: item, if it exists)")
    meaning = "column of relevance labels (default: relevance)"
    group.add_argument("--relevance", default="relevance", metavar="NAME", help=meaning)
    meaning = "labels that are no numbers, from 0 upwards, as in bad,fair,good, or with numbers, as in bad=0,good=3"
    group.add_argument("--grades", type=names, metavar="LABELS", help=meaning)


def columns_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the names of columns that the flags give, by their meaning."""
    if "," in arguments.topic and "topics" in arguments:
        found = f"--topic: found {arguments.topic}, expected the name of a column"
        raise ConfigError(f"{found}; to evaluate some topics only, write --topics {arguments.topic}")
    columns = {name: getattr(arguments, name) for name in ("topic", "item", "relevance", "grades")}
    pairs = [label.rpartition("=") for label in arguments.grades or ()]
    if pairs and all(label and is_number(number) for label, _, number in pairs):
        columns["grades"] = {label: float(number) for label, _, number in pairs}
    return columns


def recipe_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of the recipe that flags set."""
    from dataclasses import fields

    from rankbound.training.recipe import Recipe

    flags = {setting.name: getattr(arguments, setting.name, None) for setting in fields(Recipe)}
    recipe = {name: value for name, value in flags.items() if value is not None}
    if "loss" in recipe:
        recipe["loss"] = loss_of(recipe["loss"], arguments)
    if "metric" in recipe and arguments.names != "rankbound":
        from rankbound.metrics import metric

        with plain_errors():
            recipe["metric"] = str(metric(recipe["metric"], names=arguments.names))
    return recipe


def loss_of(text: str, arguments: argparse.Namespace) -> str:
    """Return a loss's text here, given that of the tool that --names names."""
    if arguments.names == "rankbound":
        return text
    from rankbound.losses import loss

    with plain_errors():
        return loss(text, names=arguments.names).text


def read_named(
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
    with without_warnings(), plain_errors():
        return read_lists(path, **columns, groups=groups)


@contextmanager
def without_warnings() -> Iterator[None]:
    """Ignore warnings of columns, which a command reports in its output."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnWarning)
        yield


def report_columns(
    path: Path, features: Sequence[str], left_out: Mapping[str, str], doubtful: Mapping[str, str]
) -> None:
    """Print the names of features, unless they are numbers, and what was left out; note doubtful ones on stderr."""
    from rankbound.io.judged import doubt, listed

    if not all(map(is_number, features)):
        print(f"features: {printable(shortened(', '.join(features), LONGEST))}")
    if left_out:
        print(f"left out, as --features does not name them: {listed(left_out)}")
    if doubtful:
        print(f"note: {path}: {doubt(doubtful)}", file=sys.stderr)


def require_writable(path: Path) -> None:
    """Refuse a file that cannot be written, before the work whose result it will hold.

    Raises:
        OutputError: its folder cannot be made or written, or a folder has its name.
    """
    from rankbound.io.atomic import temporary_beside

    with temporary_beside(path, path.suffix):
        if path.is_dir():
            raise OutputError(f"{path}: could not be written: found a folder, expected the name of a file")
