"""The step `generate`: a synthetic stand-in for a data set."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankbound_study.config.sections.planted import PlantedKeys

SUMMARY = "Generate a synthetic stand-in, in the same form as a converted data set"
EXAMPLES = """\
  python -m rankbound_study generate synthetic-movielens --out data/interactions/synthetic-movielens.parquet
  python -m rankbound_study generate synthetic-mq2008 --size full --seed 1 --out data/lists/synthetic-mq2008.parquet
  python -m rankbound_study generate synthetic-spread --size 200 --planted '{"spread": 1.5, "correlation": 1}' \\
      --out data/interactions/synthetic-spread.parquet"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "dataset", metavar="DATASET", help="synthetic-movielens, synthetic-mq2008, synthetic-aaf, or a name for planted"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the parquet file to write")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="random seed (default 0)")
    parser.add_argument(
        "--size",
        default="demo",
        metavar="N",
        help="number of topics or faces, or `demo` (60 users, 120 queries, 240 faces; the default) or `full` (as the "
        "real data set)",
    )
    parser.add_argument(
        "--planted",
        metavar="JSON",
        help="sizes and tastes of ratings (docs/data.md), for a data set of any other name synthetic-*",
    )


def run(arguments: argparse.Namespace) -> None:
    """Generate the data set."""
    from rankbound_study.data.synthetic import generate

    generate(arguments.dataset, arguments.out, arguments.seed, arguments.size, _planted(arguments.planted))


def _planted(text: str | None) -> "PlantedKeys | None":
    """Return the parameters of a JSON object; ConfigError for an unknown key or a wrong value."""
    from pydantic import ValidationError

    from rankbound.errors import ConfigError
    from rankbound_study.config.sections.planted import PlantedKeys
    from rankbound_study.options import parse_options

    if text is None:
        return None
    try:
        return PlantedKeys.model_validate(parse_options(text))
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"--planted: {'.'.join(map(str, first['loc']))}: {first['msg']}: {text}") from error
