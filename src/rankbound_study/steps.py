"""The steps of the study as a table: each step's name, function, help and flags.

A step is a function of its flags, by their names. Its module is imported when the step runs. The digest of a step's
code (`config/code_digests.py`) is that of its row here and of its function: another row never reruns it. The examples
of its help are in `steps.md` beside it.
"""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from rankbound.texts import names, positive

Flag = Callable[[argparse.ArgumentParser], Any]


class Step(NamedTuple):
    """A step.

    Attributes:
        name: on the command line.
        function: `module:function` below `rankbound_study`; it may return an exit status.
        summary: one line of help.
        flags: what declares its arguments; the recorder takes paths for inputs, and `out` or `out_dir` for outputs.
        named: a name for the record of a step without `--out`.
        also_read: `module:function` of the flags that returns further inputs by name.
    """

    name: str
    function: str
    summary: str
    flags: Sequence[Flag]
    named: str = ""
    also_read: str = ""

    @property
    def help(self) -> str:
        """The examples as they are shown."""
        return re.sub(r"^\$ ", "  python -m rankbound_study ", _examples()[self.name], flags=re.M)

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        for declare in self.flags:
            declare(parser)
        if self.named:
            parser.set_defaults(name=self.named)

    def run(self, arguments: argparse.Namespace) -> int | None:
        """Run the step, and return its exit status; None for success."""
        values = {name: value for name, value in vars(arguments).items() if name not in ("run", "subcommand")}
        status: int | None = loaded(self.function)(**values)
        return status


@cache
def _examples() -> Mapping[str, str]:
    """Return the examples of every step; a line that begins with `$` is a command."""
    text = Path(__file__).with_suffix(".md").read_text("utf-8")
    _, *parts = re.split(r"^## (\S+)\n", text, flags=re.M)
    return {name: part.strip("\n") for name, part in zip(parts[::2], parts[1::2], strict=True)}


def loaded(path: str) -> Callable[..., Any]:
    """Return a function by its `module:function`."""
    module, name = path.split(":")
    function: Callable[..., Any] = getattr(import_module(f"rankbound_study.{module}"), name)
    return function


def flag(names: str, help: str | None = None, metavar: str | None = None, **options: Any) -> Flag:
    shown: dict[str, Any] = {} if metavar is None else {"metavar": metavar}
    return lambda parser: parser.add_argument(*names.split(), help=help, **shown, **options)


def file(names: str, help: str | None = None, metavar: str = "FILE", **options: Any) -> Flag:
    return flag(names, help, metavar, type=Path, **options)


def json(name: str, help: str, **options: Any) -> Flag:
    return flag(f"--{name}", help, "JSON", **{"default": "{}", **options})


def flags_of(*declared: Flag) -> Flag:
    def declare(parser: argparse.ArgumentParser) -> None:
        for one in declared:
            one(parser)

    return declare


PARQUET = file("--out", "the parquet file to write", required=True)
DATA = file("--in", "interactions, judged lists or images", dest="data", required=True)
DESCRIPTION = json("description", "what the data set is (docs/data.md), unless it is a known one", default="")
TITLES = json("titles", "titles of data sets by name, as described")
INSTANCES = flag("--instances", "parquet file of instances", type=Path, required=True)
OUT_DIR = file("--out-dir", "the new folder to write", "DIR", required=True)
CONFIGURATIONS = file(
    "files",
    "configuration files, merged in this order (default: config.yaml)",
    nargs="*",
    default=[Path("config.yaml")],
)

OF_STUDY = flags_of(
    TITLES,
    file("--runs", "the runs table"),
    file("--epochs", "the table of epochs, whose validation scores select the best methods"),
    file("--experiments", "the experiments' runs"),
    file("--experiment-epochs", "the table of the experiments' epochs"),
    file("--rates", "the table of the rates of all grids"),
    file("--regimes", "the table of regimes (CSV)"),
    file("--images", "the images file, for the ages of the faces"),
    file("--leaderboard", "the leaderboard's CSV files", nargs="*", default=[]),
    file("--law", "the CSV files of table_law", nargs="*", default=[]),
    file("--effects", "the CSV files of table_effects", nargs="*", default=[]),
    file("--instances", "the instances files of the study's data sets", nargs="*", default=[]),
    file("--predictions", "the predictions of methods on faces", nargs="*", default=[]),
    file("--weights", "the weights of methods on faces", nargs="*", default=[]),
)
"""The files of a study that figures, tables and claims are made from."""

SELECTION = {
    "study": "study",
    "protocol": "protocol",
    "dataset": "data set",
    "nsr": "negative sampling ratio of the test part",
    "nsr_train": "negative sampling ratio of the training part",
    "model": "model",
    "options": "options, as in the table",
    "loss": "loss",
    "bounding": "bounding",
    "selection": "the part that selected the epoch: validation, test or last",
    "fold": "fold",
    "seed": "seed",
}
"""Keys of a runs table, each with a flag that selects rows."""


def selection(title: str, *more: Callable[..., Any]) -> Flag:
    """Declare a flag `key_*` for each key of a runs table, and more flags, in a group with this title."""

    def declare(parser: argparse.ArgumentParser) -> None:
        group: Any = parser.add_argument_group(title)
        for key, what in SELECTION.items():
            group.add_argument(f"--{key.replace('_', '-')}", dest=f"key_{key}", metavar="VALUE", help=what)
        for one in more:
            one(group)

    return declare


def one_side(side: str) -> Flag:
    meaning = f"applies to {side.upper()} only"
    return flag(f"--{side}", nargs="+", action="extend", default=[], metavar="KEY=VALUE", help=meaning)


def of_tests(parser: argparse.ArgumentParser) -> None:
    from rankbound.commands.compare import add_test_flags

    add_test_flags(parser)


def of_columns(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what names do not tell")
    for role, what in (
        ("topic", "user or query"),
        ("item", "item or document"),
        ("relevance", "rating, count or label"),
        ("timestamp", "time of a rating"),
    ):
        group.add_argument(f"--{role}", metavar="COLUMN", help=f"column of the {what}, by its name or number from 1")
    group.add_argument("--format", choices=("table", "ratings"), help="judged items with features, or ratings without")
    group.add_argument(
        "--labels", type=names, metavar="WORDS", help="labels in words, from the least relevant: bad,good"
    )
    group.add_argument("--repeats", choices=("last", "highest", "sum"), help="what several ratings of one pair become")
    either = group.add_mutually_exclusive_group()
    either.add_argument(
        "--threshold",
        metavar="N",
        help="smallest relevant rating or label: a number, a quantile of the ratings (q0.8), or any: every pair of a "
        "user and an item is relevant (default: 4 of ratings 1 .. 5, likewise; labels are grades)",
    )
    either.add_argument(
        "--implicit", dest="threshold", action="store_const", const="any", help="the same as --threshold any"
    )


STEPS = (
    Step(
        "check-config",
        "commands.own_study:check",
        "Check a study's configuration: list every problem with key, line, value found and values allowed",
        [
            CONFIGURATIONS,
            flag(
                "--schema",
                "print the JSON schema of such files for an editor instead, generated from the models",
                action="store_true",
            ),
        ],
    ),
    Step(
        "claim",
        "commands.claim:claim",
        "Say what a claim's verdict rests on, and how long that takes to train; write the configuration that does so",
        [
            flag("names", "such as T45 (default: all that are not theorems)", "CLAIM", nargs="*"),
            file("--evidence", "output of `python -m rankbound_study evidence`", required=True),
            file(
                "--config",
                "configuration files (default: config.yaml)",
                nargs="+",
                dest="files",
                default=[Path("config.yaml")],
            ),
            file("--out", "the configuration to write, for `snakemake --configfile`"),
        ],
    ),
    Step(
        "claims",
        "commands.results:claims",
        "Decide the claims of the sources from a study's results: a verdict for each, with the numbers behind it",
        [
            OF_STUDY,
            file("--theorems", help="the file of the step theorems (default: they are checked again)"),
            json("options", "the study's name in its runs", default='{"study": "thesis"}'),
            file("--out-dir", "where table_claims.* goes", "DIR", required=True),
        ],
        named="table_claims",
    ),
    Step(
        "collect",
        "jobs.collect:collect",
        "Collect the runs of all jobs, with the epochs and rates beside them, into one table each; check them on the "
        "way.",
        [
            flag("--runs", "runs of jobs and controls, not the files beside them", type=Path, nargs="+", required=True),
            flag("--out", "all runs", type=Path, required=True),
            flag("--epochs-out", "all epochs", type=Path, required=True),
            flag("--rates-out", "the rates of all grids", type=Path, required=True),
        ],
        also_read="jobs.collect:beside_runs",
    ),
    Step(
        "compare",
        "commands.results:compare",
        "Compare runs of results topic by topic: difference, interval, tests, effect size, margins",
        [
            file("a_file", "a results folder, or a runs table", "A"),
            file("b_file", "compared with A (default: A itself)", "B", nargs="?"),
            flag("-m --metric", "may be repeated", "METRIC", dest="metrics", action="append", default=[]),
            of_tests,
            selection(
                "which runs are compared (default: the honest protocol, if both have it; its own selection)",
                one_side("a"),
                one_side("b"),
            ),
        ],
    ),
    Step(
        "controls",
        "jobs.controls_job:run_controls",
        "Measure the controls random, popularity, best-feature and oracle on every test part.",
        [
            INSTANCES,
            flag("--lists", "parquet file of judged lists, for the best of their features", type=Path),
            flag("--out", "runs to write", type=Path, required=True),
            flag("--options", "JSON object: study, protocol, dataset, nsr, controls, folds", required=True),
        ],
    ),
    Step(
        "convert",
        "commands.data:convert",
        "Turn raw files into parquet: interactions (ratings), judged lists, or images",
        [
            flag("source", "movielens, mq2008, mslr-web10k, aaf, or a name of your own", "SOURCE"),
            file("--raw", "the archive (.zip or .rar), or the files", nargs="+", required=True),
            PARQUET,
            DESCRIPTION,
        ],
    ),
    Step(
        "crate",
        "commands.results:crate",
        "Pack a finished study as an RO-Crate: results, workflow, environment, and what made each file from what",
        [
            flag("results", "(default: results)", "RESULTS", type=Path, nargs="?", default=Path("results")),
            OUT_DIR,
            flag("--licensed", "include what shows pictures of licensed data", action="store_true"),
        ],
        named="crate",
    ),
    Step(
        "distributions",
        "commands.data:distributions",
        "Tabulate a metric's distribution over random orders for every list size of the instances",
        [
            flag("metric", "nDCG, AP, nRBP (the loss), RR@10, ...", "METRIC"),
            file("--instances", "instances files", nargs="+", required=True),
            PARQUET,
            json("options", "method (exact, sampled or auto), samples, seed and tilt"),
        ],
    ),
    Step(
        "doctor",
        "doctor:doctor",
        "Say on one screen what a study needs here: packages, GPUs, data, programs, memory; and how to get the rest",
        [CONFIGURATIONS],
    ),
    Step(
        "document",
        "commands.results:document",
        "Write the report, findings first: a PDF (Typst) and a self-contained web page",
        [
            file("--results", "a folder of results", "DIR", required=True),
            file("--provenance", "output of `python -m rankbound_study provenance`"),
            file(
                "--instances",
                "output of `python -m rankbound_study sample` at ratio 0, which counts the users that it leaves out",
                nargs="*",
                default=[],
            ),
            TITLES,
            file("--elsewhere", "the tables of other profiles, for the paper's counter-examples", "DIR"),
            file("--out", metavar="PDF", required=True),
            file("--html", metavar="HTML", required=True),
            file("--paper", "the paper of a few pages, as PDF and HTML", "FILE", nargs="*", default=[]),
        ],
    ),
    Step(
        "download",
        "commands.data:download",
        "Get a publisher's raw archive (from disk, a mirror, or its address) and check its content",
        [
            flag("source", "movielens, mq2008, mslr-web10k, aaf, vgg16, or a name of your own", "SOURCE"),
            file("--out", "where to save the archive", required=True),
            flag("--mirror", "a folder or base URL with the archives by name; after RANKBOUND_MIRROR", "M"),
            DESCRIPTION,
        ],
    ),
    Step(
        "evidence",
        "commands.results:evidence",
        "Release what the paper and the verdicts are made from as one file: scores by topic and training",
        [
            file("--results", "a folder of results", "DIR", required=True),
            file("--instances", "instances of the data sets whose list weights are compared", nargs="*", default=[]),
            TITLES,
            PARQUET,
            json("options", "the study's name, and the protocol of Table 5.1", default='{"study": "thesis"}'),
        ],
    ),
    Step(
        "export",
        "commands.results:export",
        "Write a study's kept scores as TREC runs and qrels, for any evaluator",
        [
            file(
                "results",
                "a results folder, or one file of predictions (default: results)",
                "RESULTS",
                nargs="?",
                default=Path("results"),
            ),
            OUT_DIR,
            file("--data", "the study's data folder (default: data)", "DIR", default=Path("data")),
            flag(
                "--space",
                "replaces white space in names, which TREC files cannot hold (names of pairs of faces have it)",
                "TEXT",
            ),
            selection("which runs are written (default: all whose scores were kept)"),
        ],
        named="runs",
    ),
    Step(
        "features",
        "jobs.vgg16:features",
        "Extract the features of images with a pretrained VGG16, resuming where an earlier run stopped",
        [
            file("--images", "output of `python -m rankbound_study convert`", required=True),
            file("--weights", "output of `python -m rankbound_study weights`", required=True),
            PARQUET,
            flag("--side", "enlarge pictures to N x N (default 224)", "N", type=int, default=224),
            flag("--device", "cpu, cuda or auto (default)", "D", default="auto"),
            flag("--code", "its digest; chunks of other code are not reused", "DIGEST", default=""),
        ],
    ),
    Step(
        "figure",
        "commands.results:figure",
        "Draw figures as SVG and PDF, from the runs table or (closed forms) only from the library",
        [
            flag("names", "its name under `figures:` in config.yaml, such as figure_1_1", "NAME", nargs="+"),
            OF_STUDY,
            file("--out", "an .svg or .pdf file; repeatable", nargs="+", action="extend", required=True),
            json("options", "protocol (published, honest), study, model"),
        ],
    ),
    Step(
        "generate",
        "commands.data:generate",
        "Generate a synthetic stand-in, in the same form as a converted data set",
        [
            flag("dataset", "synthetic-movielens, synthetic-mq2008, synthetic-aaf, or a name for planted", "DATASET"),
            PARQUET,
            flag("--seed", "random seed (default 0)", "N", type=int, default=0),
            flag(
                "--size",
                "number of topics or faces, or `demo` (60 users, 120 queries, 240 faces; the default) or `full` "
                "(as the real data set)",
                "N",
                default="demo",
            ),
            json(
                "planted",
                "sizes and tastes of ratings (docs/data.md), for a data set of any other name synthetic-*",
                default=None,
            ),
        ],
    ),
    Step(
        "job",
        "jobs.train_job:job",
        "Train one model with one loss on all folds and seeds, resuming from finished ones.",
        [
            INSTANCES,
            flag("--lists", "parquet file of judged lists, for models that read features", type=Path),
            flag("--images", "parquet file of images, instead of judged lists", type=Path),
            flag("--image-features", "a network's features of the images, instead of pixels", type=Path),
            flag("--distributions", "score distributions of the loss' metric", type=Path),
            flag("--test-instances", "the same ratings at another ratio, for the test lists", type=Path),
            flag("--out", "runs to write, with sidecars beside it", type=Path, required=True),
            flag("--options", "JSON object: the job", required=True),
            flag("--device", "where to train", default="auto", choices=("auto", "cpu", "cuda")),
            flag("--together", "number of folds and seeds trained together", "N", type=positive, default=5),
            flag("--code", "its digest; shards of other code are not reused", "DIGEST", default=""),
        ],
    ),
    Step(
        "new",
        "commands.own_study:new",
        "Look at files of your own, and write the configuration of a study of them",
        [
            file("path", "a file, a folder or an archive", "PATH"),
            file("--out", "the configuration to write (.yaml)", required=True),
            flag("--name", "name of the data set (default: by the name of PATH)", "NAME"),
            of_columns,
        ],
    ),
    Step(
        "provenance",
        "provenance.manifest:collect_manifest",
        "Collect the records of all steps, the configuration and checksums of all results in one file",
        [
            file("--results", "the folder of a study's results", "DIR", required=True),
            json("options", "the study's configuration"),
            file("--out", "DIR/provenance.json", required=True),
        ],
    ),
    Step(
        "report",
        "commands.results:paper_of",
        "Make the paper, its figures and the verdicts from released evidence, without training",
        [
            file("evidence", "output of `python -m rankbound_study evidence`", "EVIDENCE"),
            file("--out-dir", "the folder to write", "DIR", required=True),
            file("--elsewhere", "the tables of other profiles, for the paper's counter-examples", "DIR"),
            flag(
                "--smallest-effect",
                "decide by another smallest difference that matters; repeatable",
                "METRIC=VALUE",
                action="append",
                default=[],
            ),
        ],
        named="paper",
    ),
    Step(
        "sample",
        "commands.data:sample",
        "Make training instances: negatives (interactions), a relevance threshold (judged lists), or pairs (images)",
        [
            flag("dataset", "its name (for lists: with or without `-label<threshold>` or `-graded`)", "DATASET"),
            DATA,
            file("--folds", "output of `python -m rankbound_study split`", required=True),
            PARQUET,
            json(
                "options",
                "interactions: min_relevant, nsr, sampling, seed, threshold, validation_share; lists: threshold or "
                "graded; images: above, seed, test_pairs, train_pairs, validation_pairs",
            ),
        ],
    ),
    Step(
        "settle",
        "workflow.settle:settle_folder",
        "After `dvc pull`: mark the files as current for Snakemake, if all match DVC's lock file",
        [
            file("--folder", "the workflow's root (default: the working folder)", "DIR", default=Path()),
        ],
    ),
    Step(
        "split",
        "commands.data:split",
        "Cut a data set into folds: LETOR's own parts, each user's relevant items, or random splits of images",
        [
            flag("dataset", "its name, on which the drawn folds depend", "DATASET"),
            DATA,
            PARQUET,
            json(
                "options",
                "interactions: min_relevant, seed, threshold, and repeats, or folds, or by_time with validation_share; "
                "images: folds, seed, test_share, validation_share; "
                "lists: nothing for parts that take turns, or folds, random_parts, seed, validation_share",
            ),
        ],
    ),
    Step(
        "table",
        "commands.results:table",
        "Make tables: 5.1 and neural_1 to neural_3 from the runs table, the worked examples only from the library",
        [
            flag(
                "names",
                "its name under `tables:` in config.yaml, such as table_5_1 (table_claims: the step `claims`)",
                "NAME",
                nargs="+",
            ),
            OF_STUDY,
            file("--out-dir", "where NAME.csv (.md, .tex) goes", "DIR", required=True),
            file("--metrics", "also write the means as nested JSON (table_5_1)"),
            json("options", "protocol (published, honest), study, model"),
        ],
    ),
    Step(
        "theorems",
        "commands.results:theorems",
        "Check the theorems of the sources: by all orders of short lists, by formulas, and by other libraries",
        [file("--out", required=True, help="the JSON file to write")],
    ),
    Step(
        "verify",
        "commands.results:verify",
        "Check a results folder against its provenance, or against another results folder",
        [
            file("folder", "results (default: results)", "FOLDER", nargs="?", default=Path("results")),
            file(
                "--config",
                "the study's configuration, merged in this order (default: config.yaml, if its results are this "
                "folder)",
                nargs="+",
            ),
            flag("--strict", "count undecided findings as differences", action="store_true"),
            file("--against", "another results folder to compare with", "FOLDER"),
            flag("--tolerance", "with --against: largest difference in means", "X", type=float),
            flag("--json", "the report as JSON", action="store_true"),
        ],
    ),
    Step(
        "weights",
        "jobs.vgg16:weights",
        "Turn VGG16's published weights into safetensors, or generate a small stand-in",
        [
            flag("source", "vgg16 or synthetic-vgg16", "SOURCE", choices=("vgg16", "synthetic-vgg16")),
            file("--raw", "the publisher's file (vgg16 only)"),
            file("--out", "the safetensors file to write", required=True),
            flag("--seed", "random seed of the stand-in (default 0)", "N", type=int, default=0),
        ],
    ),
)
BY_NAME: Mapping[str, Step] = {step.name: step for step in STEPS}
