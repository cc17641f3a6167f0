"""`rankbound pack`: write judged lists as an Arrow file that may be larger than memory."""

import argparse
from pathlib import Path

from rankbound.commands import Source, add_file_flags, columns_of, report_columns, without_warnings
from rankbound.errors import plain_errors
from rankbound.texts import names

SUMMARY = "Pack judged lists into a file from which training reads features a batch at a time"
EXAMPLES = """\
  rankbound pack train.letor train.arrow
  rankbound pack clicks.parquet clicks.arrow --topic query --relevance clicked
  rankbound train train.arrow --validation vali.arrow --model mlp --out model.safetensors

LETOR text is read a chunk at a time, so it may be larger than memory, and so may the packed file: `rankbound train`
and `rankbound score` map it instead of reading it. It opens at once, where text takes minutes."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("lists", type=Source, metavar="FILE", help="judged lists: LETOR text, .csv, .tsv or .parquet")
    parser.add_argument("out", type=Path, metavar="OUT", help="the file to write (.arrow)")
    parser.add_argument(
        "--features", type=names, metavar="NAMES", help="feature columns, as in a,b (default: those of numbers)"
    )
    add_file_flags(parser)


def run(arguments: argparse.Namespace) -> None:
    """Pack, and print what was packed."""
    from rankbound.io.files import needs_extra, pack_lists
    from rankbound.texts import quantity

    with needs_extra("data"):
        from tqdm import tqdm

    columns = {**columns_of(arguments), "groups": arguments.groups}
    with plain_errors(), without_warnings(), tqdm(unit="topic", disable=None) as progress:
        packed = pack_lists(
            arguments.lists, arguments.out, **columns, features=arguments.features, on_topics=progress.update
        )
    parts = {"topic": packed.n_topics, "item": packed.n_items, "feature": packed.n_features}
    print(f"packed {', '.join(quantity(number, what) for what, number in parts.items())}")
    report_columns(arguments.lists, packed.feature_names, packed.left_out, packed.doubtful)
    print(f"wrote {arguments.out}")
