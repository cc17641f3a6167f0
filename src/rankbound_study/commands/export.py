"""The step `export`: the kept scores of a study as TREC runs and qrels."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rankbound_study.commands._selection_flags import add_selection_flags, given_selection

if TYPE_CHECKING:
    from rankbound_study.export.trec_folder import Exported

SUMMARY = "Write a study's kept scores as TREC runs and qrels, for any evaluator"
EXAMPLES = """\
  python -m rankbound_study export results --out-dir trec --space _
  python -m rankbound_study export results --out-dir trec --dataset mq2008-label1 --protocol honest
  python -m rankbound_study export results --out-dir trec --dataset movielens --nsr 1 --loss AP \\
      --bounding min-max --fold 1 --seed 0
  python -m rankbound_study export results --out-dir trec --study neural --dataset mq2008-label1
  python -m rankbound_study export results --out-dir trec --dataset aaf --space _
  rankbound evaluate trec/mq2008-label1/runs/RUN.txt trec/mq2008-label1/qrels.txt -m nDCG -m AP

Without selecting flags, everything is written. Runs on the same test lists share a folder with their qrels.txt;
runs.csv lists all of them. A training's folds form one run if no topic is in two of them; if topics recur (users of
MovieLens), each fold has a separate folder. The qrels hold every item of the lists, 0 for irrelevant ones. Scores have
enough digits to be restored exactly, so ties stay ties: `rankbound evaluate` reproduces the study's values. trec_eval
breaks ties by name, so its values differ for lists with ties; runs.csv counts the topics with ties."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "results",
        type=Path,
        nargs="?",
        default=Path("results"),
        metavar="RESULTS",
        help="a results folder, or one file of predictions (default: results)",
    )
    parser.add_argument("--out-dir", type=Path, metavar="DIR", required=True, help="the new folder to write")
    parser.add_argument(
        "--data", type=Path, default=Path("data"), metavar="DIR", help="the study's data folder (default: data)"
    )
    parser.add_argument(
        "--space",
        metavar="TEXT",
        help="replaces white space in names, which TREC files cannot hold (names of pairs of faces have it)",
    )
    add_selection_flags(parser, "which runs are written (default: all whose scores were kept)")
    # The step's record is named after it.
    parser.set_defaults(name="runs")


def run(arguments: argparse.Namespace) -> None:
    """Write the folder, and summarise it."""
    from rankbound.errors import ConfigError
    from rankbound.io.files import needs_extra

    space = arguments.space
    if space is not None and (not space or any(letter.isspace() for letter in space)):
        raise ConfigError(f"--space {space!r}: expected one or more characters without white space, such as _")
    with needs_extra("statistics"):
        from rankbound_study.export.trec_folder import export
        from rankbound_study.results.compare_runs import parse_choice
    choice = parse_choice([f"{key}={value}" for key, value in given_selection(arguments).items()], "flag")
    print(_summary(export(arguments.results, arguments.data, arguments.out_dir, choice, space), arguments.out_dir))


def _summary(exported: "Exported", out: Path) -> str:
    from rankbound.texts import quantity
    from rankbound_study.export.kept import METRICS, TOLERANCE
    from rankbound_study.export.trec_folder import INDEX

    index, agreement = exported.index, exported.agreement
    tied, metrics = int(index["tied_topics"].sum()), ", ".join(METRICS)
    compared = f"{metrics} of all lists are those of the study's runs"
    if agreement.differing:
        compared = (
            f"{metrics} of {quantity(agreement.differing, 'list')} differ from those of the study's runs by more than "
            f"{TOLERANCE:g}, at most {agreement.most:.2g}: scores are kept in single precision, which creates some ties"
        )
    return (
        f"wrote {quantity(len(index), 'run')} and {quantity(index['qrels'].n_unique(), 'file')} of qrels to {out}; "
        f"{out / INDEX} lists them\ntied scores in {tied:,} of {quantity(agreement.lists, 'list')}: `rankbound "
        f"evaluate` takes the mean over their orders, trec_eval orders them by name\n{compared}"
    )
