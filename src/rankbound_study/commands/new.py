"""The step `new`: a configuration for one's own data."""

import argparse
from pathlib import Path

SUMMARY = "Look at files of your own, and write the configuration of a study of them"
EXAMPLES = """\
  python -m rankbound_study new searches.csv --out mine.yaml
  python -m rankbound_study new /data/MQ2007 --out mine.yaml    # a folder: Fold1/train.txt, ..., or S1.txt, S2.txt, ...
  python -m rankbound_study new ml-1m/ratings.dat --out mine.yaml
  python -m rankbound_study new clicks.zip --out mine.yaml
  python -m rankbound_study new plays.csv --implicit --out mine.yaml         # every user-item pair is relevant
  python -m rankbound_study new plays.csv --threshold 5 --out mine.yaml      # those with 5 plays or more

It reads the beginning of the files, packed or not, and refuses what has two meanings. Small files are tried whole: what
is written runs. The file that it writes says in comments what was found and what to run; edit it as you like. Known
layouts: LETOR text (also LightGBM's, with group sizes beside it), CSV, TSV and parquet with a row per item, ratings in
any of these or separated by `::`, in one file or in files of folds."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("path", type=Path, metavar="PATH", help="a file, a folder or an archive")
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the configuration to write (.yaml)")
    parser.add_argument("--name", metavar="NAME", help="name of the data set (default: by the name of PATH)")
    relevance = parser.add_mutually_exclusive_group()
    relevance.add_argument(
        "--threshold",
        type=float,
        metavar="N",
        help="smallest relevant rating or label (default: 4 of ratings 1 .. 5, likewise; labels are grades)",
    )
    relevance.add_argument(
        "--implicit", action="store_true", help="every pair of a user and an item is relevant, whatever its number"
    )


def run(arguments: argparse.Namespace) -> None:
    """Inspect, write, and try what is written."""
    from rankbound.errors import ConfigError
    from rankbound.io.atomic import atomic_path
    from rankbound_study.commands._rehearsal import rehearse
    from rankbound_study.config.lines import merged
    from rankbound_study.config.new_study import new_study, study_name
    from rankbound_study.config.study import Study
    from rankbound_study.data.inspection import inspect, with_relevance

    if arguments.out.exists():
        raise ConfigError(f"{arguments.out}: there is a file of that name: choose another one")
    path = arguments.path
    name = study_name(arguments.name or path.resolve().name.partition(".")[0])
    found, relevance = with_relevance(inspect(path), arguments.threshold, implicit=arguments.implicit)
    found.notes.extend(_known_as(path.name))
    size = sum(file.stat().st_size for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())
    text = new_study(
        name, str(arguments.out), found.kind, found.description, found.labels, found.notes, size, **relevance
    )
    with atomic_path(arguments.out) as temporary:
        temporary.write_text(text, "utf-8")
        tried = rehearse(Study(merged([temporary])))
    print(f"{path}: {found.description['format']}, {found.kind}")
    for note in (*found.notes, *tried):
        print(f"  {note}")
    print(f"wrote {arguments.out}. Now:\n  python -m rankbound_study check-config config.yaml {arguments.out}")
    print(f"  snakemake --configfile {arguments.out} --cores 2")


def _known_as(file: str) -> list[str]:
    """Return a note if a known data set has an archive of that name."""
    from rankbound_study.config.sections.known_sets import known_names, known_set

    known = [name for name in known_names() if file in (known_set(name).archives or ())]
    return [
        f"an archive of this name is known as {name}: with that name, and archive: {file}, nothing needs describing"
        for name in known
    ]
