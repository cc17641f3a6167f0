"""The description of a data set: where its files are, what they hold, how they split, and what is known of them.

The data sets that the project knows are rows of the library's table, and files in the folder `known`.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from rankbound_study.config.sections.base import Axis, Fold, Keys, Positive, Problem, Seed, allowed, listed, optional

LISTS, RATINGS, FACES, WEIGHTS = ("letor", "lightgbm", "table"), "ratings", "faces", "weights"
CONVERTED = (*LISTS, RATINGS, FACES)
FORMATS = (*CONVERTED, WEIGHTS)
NUMBERS, TEXTS = "numbers", "texts"
"""What the names of users and items may be: whole numbers of 32 bits, or any texts."""

UTF_8, LATIN_1 = "utf-8", "latin-1"
LAST, HIGHEST, SUM = REPEATS = ("last", "highest", "sum")
"""What becomes of several ratings of an item by a user."""

SPLIT_KEYS = ("parts", "folds", "fold_pattern", "random_parts", "by_time")
OF_FORMATS = {
    **dict.fromkeys(("columns", "labels"), ("table", RATINGS)),
    **dict.fromkeys(("encoding", "repeats", "by_time"), (RATINGS,)),
    **dict.fromkeys(("parts", "random_parts", "validation_share", "seed"), LISTS),
    **dict.fromkeys(("folds", "fold_pattern"), (*LISTS, RATINGS)),
}
"""Keys that descriptions of some formats have."""

NUMBER = "{fold}"
"""Stands for the number of a fold in the names of its files."""

ORDINARY_FOLDS = 5
"""Folds of ratings and of generated data."""

FEWEST_PARTS = 3
"""One part for testing, one for validation, and one for training."""

Checksum = Annotated[
    str, allowed(pattern="[0-9a-f]{32}|[0-9a-f]{64}", expected="a checksum in small hexadecimal digits")
]
Text = Annotated[str, Field(min_length=1, max_length=2000)]
Title = Annotated[
    str,
    allowed(
        # A dollar or a backslash would begin a formula in a figure.
        pattern=r"[^\x00-\x1f\x7f$\\]+",
        expected="a title of one line without $ and \\",
        longest=60,
    ),
]
Files = Axis[Text]
Rating = Annotated[float, Field(ge=-1_000_000, le=1_000_000)]
Size = Annotated[int, Field(ge=1, le=2**31 - 1)]


class ContentKeys(Keys):
    """The checksums of a data set's files; steps refuse other content."""

    algorithm: Annotated[str, allowed("sha256", "md5")] = Field("sha256", description="Of the checksums of members")
    line_ends: Annotated[str, allowed("as-is", "any")] = Field("as-is", description="any: CRLF counts as LF")
    members: dict[Text, Checksum] = Field({}, description="Checksums by the ends of the members' paths")
    file: Checksum | None = optional("SHA-256 of a file that is no archive")


class FolderKeys(Keys):
    """A folder of many files in an archive, compared as a whole."""

    path: Text = Field(description="Its name in the archive")
    count: Positive = Field(description="Number of files")
    names: Checksum = Field(description="SHA-256 of the sorted names, a line each")
    editions: dict[str, Checksum] = Field({}, description="Bytes of all files: SHA-256 of their checksums and names")
    unknown_from: Positive | None = optional("Megabytes from which the names alone are compared")


class SizeKeys(Keys):
    """The size of a data set; another one is an error."""

    topics: Size = Field(description="Number of queries or users")
    rows: Size = Field(description="Number of judged items or ratings, each counted once")


class ColumnKeys(Keys):
    """The columns of a table, by their names; by their numbers from 1 where no line names them."""

    topic: Text = Field(description="Query or user")
    item: Text | None = optional("Document or item (judged items: topic and row number by default)")
    relevance: Text | None = optional("Label of a judged item")
    rating: Text | None = optional("Rating (absent: every row is a rating of 1)")
    timestamp: Text | None = optional("Time of a rating: a whole number, or an ISO date (absent: 0)")
    features: Files | None = optional("Features of a judged item (default: all other numeric columns)")


class ScaleKeys(Keys):
    """The ratings that occur."""

    lowest: Rating = Field(description="Lowest rating")
    highest: Rating = Field(description="Highest rating")
    step: Annotated[float, Field(gt=0, le=1_000_000)] = Field(description="Difference of neighbouring ratings")


class FoldKeys(Keys):
    """The files of a fold."""

    train: Files = Field(description="Files to train on")
    validation: Files | None = optional(
        "Files that select the epoch (absent: a share of train's topics, or of each user's items)"
    )
    test: Files = Field(description="Files to test on")

    @property
    def files(self) -> dict[str, list[str]]:
        """The files of each split that has some."""
        return self.model_dump(include={"train", "validation", "test"}, exclude_none=True)


class FoldPatternKeys(FoldKeys):
    """The files of every fold, with {fold} for its number."""

    count: Fold = Field(description="Number of folds")
    first: Annotated[int, Field(ge=0, le=1)] = Field(1, description="Number of the first fold in the files' names")


class TimeKeys(Keys):
    """A split of ratings by time, in one fold: training items are older than those for validation, then testing."""

    cut: Annotated[str, allowed("user", "global")] = Field(
        "user", description="user: each user's latest relevant items are tested; global: all from one moment on"
    )
    test_share: Annotated[float, Field(gt=0, lt=1)] = Field(0.2, description="Share of relevant items to test on")


class DescriptionKeys(Keys):
    """What a data set is."""

    format: Annotated[str, allowed(*FORMATS)] = Field(description="Layout of the files")
    title: Title | None = optional("Name of the data set in tables, figures and messages")
    homepage: Text | None = optional("Where it is published")
    terms: Text | None = optional("Terms of its use")
    citation: Text | None = optional("How to cite it")
    remark: Text | None = optional("What the check of its content does not cover")

    path: Text | None = optional("A file, an archive or a folder of yours, read where it lies")
    archives: Files | None = optional("Names of the archive at a mirror, preferred first")
    addresses: Files | None = optional("URLs of the archive")
    content: ContentKeys | None = optional("Checksums of the content")
    folder: FolderKeys | None = optional("A folder of the archive that is compared as a whole")
    sizes: SizeKeys | None = optional("Numbers of topics and rows; others are errors")

    files: Files | None = optional("Members or files to read (default: those of the folds, or the only one)")
    groups: Text = Field(".query", description="lightgbm: what the names of files with the sizes of queries end in")
    columns: ColumnKeys | None = optional("table and ratings: the columns")
    separator: Annotated[str, Field(min_length=1, max_length=4)] = Field(",", description="ratings: between columns")
    ids: Annotated[str, allowed(NUMBERS, TEXTS)] = Field(NUMBERS, description="ratings: what users and items are")
    encoding: Annotated[str, allowed(UTF_8, LATIN_1)] = Field(UTF_8, description="ratings: of text")
    header: bool = Field(True, description="ratings: the first line names the columns")
    labels: Files | None = optional(
        "table and ratings: labels or ratings that are words, ascending: the first counts as 0"
    )
    repeats: Annotated[str, allowed(*REPEATS)] | None = optional(
        "ratings: several rows of a user and an item are one, with their last or highest rating, or the "
        "sum (without ratings: their number); absent: errors"
    )
    scale: ScaleKeys | None = optional("ratings: those that occur; others are errors")
    features: Positive | None = optional("Number of features (default: as found)")

    parts: Files | None = optional("Files of disjoint topics: fold k trains on k, k+1, ..., tests on the last")
    folds: Annotated[list[FoldKeys], Field(min_length=1, max_length=100)] | None = optional(
        "The files of each fold; its test topics may recur in other folds"
    )
    fold_pattern: FoldPatternKeys | None = optional("The files of every fold")
    random_parts: Annotated[int, Field(ge=FEWEST_PARTS, le=100)] | None = optional(
        "Number of parts to which topics are dealt at random; folds as those of parts"
    )
    by_time: TimeKeys | None = optional("ratings: test on the latest relevant items")
    validation_share: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.2, description="Share of the training topics for validation where no file is given for it"
    )
    seed: Seed = Field(0, description="Seed of random parts and of validation topics")

    def problems(self) -> Iterator[Problem]:
        """Yield keys that contradict each other or the format."""
        for key, formats in OF_FORMATS.items():
            if key in self.model_fields_set and self.format not in formats:
                of_ratings = key in ("validation_share", "seed") and self.format == RATINGS
                beside = ": for ratings it stands beside source" if of_ratings else ""
                yield (key,), f"is for {listed(formats)}, but the format is {self.format}{beside}"
        splits = [key for key in SPLIT_KEYS if getattr(self, key) is not None]
        if len(splits) > 1 or (self.format in LISTS and not splits):
            found = f"has {' and '.join(splits)}" if splits else "names no folds"
            possible = listed([key for key in SPLIT_KEYS if self.format in OF_FORMATS[key]])
            yield (), f"{found}: give one of {possible}{'' if self.format in LISTS else ', or none of them'}"
        if self.parts is not None and len(self.parts) < FEWEST_PARTS:
            yield ("parts",), f"has {len(self.parts)} files: expected at least {FEWEST_PARTS}"
        pattern = self.fold_pattern
        for split, names in pattern.files.items() if pattern is not None and pattern.count > 1 else ():
            if not any(NUMBER in name for name in names):
                yield ("fold_pattern", split), f"has no {NUMBER}, so that all folds would be one"
        if self.format == RATINGS and self.files is not None and self.given_folds:
            yield ("files",), "is set beside the files of folds: remove it"
        if self.format == RATINGS and self.columns is None:
            yield (), "needs columns: those of the topic (user), the item, and usually the rating"
        elif self.columns is not None:
            for key in ("rating", "timestamp") if self.format == "table" else ("relevance", "features"):
                if getattr(self.columns, key) is not None:
                    yield ("columns", key), f"is not for {self.format}"
            if self.format == RATINGS and self.columns.item is None:
                yield ("columns",), "needs an item"
            if self.by_time is not None and self.columns.timestamp is None:
                yield ("columns",), "needs a timestamp, by which by_time splits"

    @property
    def n_folds(self) -> int:
        """The number of folds that its files make; 5 for ratings that are cut at random, 1 by time."""
        if self.by_time is not None:
            return 1
        return len(self.given_folds) or self.random_parts or len(self.parts or ()) or ORDINARY_FOLDS

    @property
    def given_folds(self) -> list[dict[str, list[str]]]:
        """The files of each fold by split, if the folds are given by files."""
        pattern = self.fold_pattern
        if pattern is None:
            return [fold.files for fold in self.folds or ()]
        return [
            {split: [name.replace(NUMBER, str(number)) for name in names] for split, names in pattern.files.items()}
            for number in range(pattern.first, pattern.first + pattern.count)
        ]

    @property
    def splitting(self) -> dict[str, Any]:
        """The options of the folds: nothing for parts by file, and for ratings that are cut at random."""
        if self.format == RATINGS:
            by_time = {"by_time": self.by_time.model_dump()} if self.by_time else {}
            return {"folds": self.given_folds} if self.given_folds else by_time
        drawn = {"validation_share": self.validation_share, "seed": self.seed}
        if self.given_folds:
            return {"folds": self.given_folds, **drawn}
        return {"random_parts": self.random_parts, "seed": self.seed} if self.random_parts else {}

    @property
    def wanted(self) -> list[str]:
        """The members to read, each once; none where the only file is to be read."""
        of_folds = [name for fold in self.given_folds for names in fold.values() for name in names]
        return list(dict.fromkeys(self.files or self.parts or of_folds))


ARCHIVES = (".zip", ".rar")
"""Endings of archives, which hold all files of a data set."""


def own_files(described: DescriptionKeys) -> list[str]:
    """Return the files that conversion reads: the file at the description's path, or those that it names in a folder.

    A folder of which nothing is named has all its files.
    """
    path = Path(described.path or "")
    if path.is_dir() and not described.wanted:
        return sorted(str(file) for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    files = [path / name for name in described.wanted] if path.is_dir() else [path]
    is_grouped = described.format == "lightgbm" and path.suffix not in ARCHIVES
    beside = [f"{file}{described.groups}" for file in files] if is_grouped else []
    return [*map(str, files), *beside]


FOLDER = Path(__file__).parents[1] / "known"


@cache
def known_sets() -> Mapping[str, DescriptionKeys]:
    """Return the data sets that the library's table or a file in the folder `known` describes, by name, sorted."""
    import tomllib
    from importlib.resources import files

    import yaml  # type: ignore[import-untyped]

    public = tomllib.loads(files("rankbound").joinpath("datasets.toml").read_text("utf-8"))
    known = public | {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in FOLDER.glob("*.yaml")}
    return {name: DescriptionKeys.model_validate(known[name]) for name in sorted(known)}
