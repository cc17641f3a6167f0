"""Public data sets by name, read from a folder, an archive in it or a mirror, or downloaded; none is in this package.

`datasets.toml` describes them: addresses, checksums of the content, terms, citation, and the folds of the publishers.
What is read is compared with the checksums, where some are known, and with the numbers of topics and rows.
"""

import shutil
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import numpy as np

from rankbound.errors import DataError, SourceError
from rankbound.io.fetch import Archive, fetch
from rankbound.io.files import needs_extra, read_lists
from rankbound.io.judged import JudgedLists, Qrels, name_column, of_dictionaries
from rankbound.io.text_files import checksum
from rankbound.lazy import pl
from rankbound.texts import quantity, unknown_name
from rankbound.training.splits import Split

OTHER_NAMES = {"movielens-latest-small": "movielens"}
"""Names of data sets beside those of the table."""

IR_DATASETS = "ir_datasets:"
"""What the names of that package's data sets begin with."""

PARTS = {"train": "training", "validation": "validation", "test": "test"}
MEMBER_BYTES = 2 * 2**30  # of a member of an archive at most
_MEGABYTE = 2**20


@dataclass(frozen=True)
class DataSet:
    """The description of a public data set.

    Args:
        name: its name here.
        row: its row of the table.
    """

    name: str
    row: Mapping[str, Any]

    def __getattr__(self, key: str) -> Any:
        # A copy is asked for attributes before it has a row.
        if key in (row := vars(self).get("row", {})):
            return row[key]
        raise AttributeError(key)

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.row['title']}"]
        lines += [f"  {key}: {self.row[key]}" for key in ("homepage", "terms", "citation", "remark") if key in self.row]
        return "\n".join(lines)

    @property
    def folds(self) -> list[dict[str, list[str]]]:
        """The files of each fold by part: `train`, sometimes `validation`, and `test`; none for ratings without folds.

        Of parts of disjoint topics, fold k trains on parts k, k + 1, ..., validates on the last but one of them and
        tests on the last, in a circle.
        """
        if parts := self.row.get("parts"):
            turned = [[*parts[fold:], *parts[:fold]] for fold in range(len(parts))]
            return [{"train": own[:-2], "validation": own[-2:-1], "test": own[-1:]} for own in turned]
        if pattern := self.row.get("fold_pattern"):
            named = {part: pattern[part] for part in PARTS if part in pattern}
            numbers = range(pattern["first"], pattern["first"] + pattern["count"])
            return [{part: [name.format(fold=n) for name in of] for part, of in named.items()} for n in numbers]
        return list(self.row.get("folds", []))


def names() -> tuple[str, ...]:
    """Return the names of the data sets that `load` knows.

    Returns:
        The names, in alphabetical order.
    """
    return tuple(sorted(table()))


def describe(name: str) -> DataSet:
    """Return the description of a data set.

    Args:
        name: one of `names()`.

    Returns:
        Its title, homepage, terms and citation, and the files that it consists of; printed, they are readable.

    Raises:
        ValueError: an unknown name.

    >>> print(rb.datasets.describe("movielens-100k").terms)
    Research use; no redistribution without permission (README in the archive).
    """
    known = OTHER_NAMES.get(name, name)
    if known not in table():
        raise unknown_name("data set", name, name, [*table(), *OTHER_NAMES])
    return DataSet(known, table()[known])


@cache
def table() -> Mapping[str, Mapping[str, Any]]:
    """Return the table of data sets: its rows by name."""
    return tomllib.loads(files("rankbound").joinpath("datasets.toml").read_text("utf-8"))


def load(name: str, folder: str | Path | None = None, *, mirror: str | None = None) -> "Folds | pl.DataFrame | Qrels":
    """Return a public data set: the folds of its publishers, or its ratings.

    Files are searched in the folder, at any depth; then in an archive there; then in the archive at a mirror, the
    environment's `RANKBOUND_MIRROR` or the given one, or at its publishers' addresses, which is saved in the folder.
    A `.zip` is read as it is; other archives have to be unpacked into the folder.

    Args:
        name: one of `names()`; or `ir_datasets:` and the name of a data set of that package, whose judgements are read.
        folder: where the files are, or where an archive is to be saved.
        mirror: a folder or a base URL that has the archives by their names.

    Returns:
        For judged lists, and ratings with published folds, a sequence of `rankbound.Split`, each read when it is taken;
        for other ratings, a polars data frame with the columns topic, item, rating and timestamp, which
        `rankbound.split_by_time` and `rankbound.leave_last_out` split; for `ir_datasets`, `rankbound.Qrels`.

    Raises:
        ValueError: an unknown name, or no folder.
        SourceError: no place has the files, or their content is not the publishers'; the message has all that was
            tried, and what to do by hand.
        DataError: a file is damaged or has other numbers of topics and rows than were published.
        RankboundError: a library of the extra `datasets`, or ir_datasets, is not installed.

    >>> folds = rb.datasets.load("mq2008", "data")  # doctest: +SKIP
    >>> rb.cross_validate_splits(folds, loss="nDCG").evaluate("nDCG@10").means()  # doctest: +SKIP
    >>> ratings = rb.datasets.load("movielens-latest-small", "data")  # doctest: +SKIP
    >>> split = rb.split_by_time(ratings, time="timestamp", relevance="rating")  # doctest: +SKIP
    """
    if name.startswith(IR_DATASETS):
        with needs_extra("ir-datasets"):
            import ir_datasets  # type: ignore[import-not-found,import-untyped,unused-ignore]
        try:
            rows = ir_datasets.load(name.removeprefix(IR_DATASETS)).qrels_iter()
        except (KeyError, AttributeError) as error:
            raise ValueError(f"data set {name}: ir_datasets has none of that name with judgements") from error
        judged: dict[str, dict[str, int]] = {}
        for row in rows:
            judged.setdefault(row.query_id, {})[row.doc_id] = row.relevance
        return of_dictionaries(Qrels, judged)
    described = describe(name)
    if folder is None:
        raise ValueError(f"folder: found none for {name}, expected the folder of its files, or to save them in")
    source = _Files(described, Path(folder), mirror)
    if described.folds:
        return Folds(described, source)
    (file,) = described.files
    with needs_extra("datasets"), source.open(file) as path:
        frame = _frame(described, path)
    low, high = described.scale["lowest"], described.scale["highest"]
    for one in frame.filter(~frame["rating"].is_between(low, high)).head(1).iter_rows(named=True):
        found = f"{one['rating']:g} of item {one['item']} by {one['topic']}"
        raise DataError(f"{described.title}: found a rating of {found}, expected {low} to {high}")
    _require_sizes(described, frame["topic"].n_unique(), len(frame))
    return frame


class Folds(Sequence[Split]):
    """The published folds of a data set; a fold is read when it is taken, parts that folds share once.

    Args:
        described: the data set.
        source: its files.
    """

    def __init__(self, described: DataSet, source: "_Files") -> None:
        self.described, self._source = described, source
        self._parts: dict[str, JudgedLists] = {}

    def __len__(self) -> int:
        return len(self.described.folds)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        of_parts = self.described.folds[number]
        lists = {PARTS[part]: _joined([self._read(name) for name in of]) for part, of in of_parts.items()}
        topics, rows = sum(map(len, lists.values())), sum(len(one.items) for one in lists.values())
        _require_sizes(self.described, topics, rows)
        return Split(**lists, name=f"{self.described.title}, fold {number + 1}")

    def _read(self, name: str) -> JudgedLists:
        if name in self._parts:
            return self._parts[name]
        with self._source.open(name) as path:
            if self.described.format != "letor":
                named = {key: self.described.columns[key] for key in ("topic", "item")}
                return read_lists(_frame(self.described, path), **named, features=[])
            lists = read_lists(path)
        if "parts" in self.described.row:
            self._parts[name] = lists
        return lists


def _require_sizes(described: DataSet, topics: int, rows: int) -> None:
    if (sizes := described.row.get("sizes")) and (topics, rows) != (sizes["topics"], sizes["rows"]):
        raise DataError(
            f"{described.title}: found {rows:,} rows of {topics:,} topics, expected {sizes['rows']:,} of "
            f"{sizes['topics']:,}, as published: it is incomplete, or of another edition"
        )


def _joined(parts: Sequence[JudgedLists]) -> JudgedLists:
    """Return the lists of several parts, whose topics and features they keep."""
    if len(parts) == 1:
        return parts[0]
    for part in parts:
        if part.feature_names != parts[0].feature_names:
            widths = " and ".join(quantity(len(one.feature_names), "feature") for one in (parts[0], part))
            raise DataError(f"features: found parts with {widths}, expected the same in all")
    sizes = np.concatenate([np.diff(part.offsets) for part in parts])
    return JudgedLists(
        topics=[topic for part in parts for topic in part.topics],
        items=pl.concat([name_column(part.items) for part in parts]),
        offsets=np.append(0, np.cumsum(sizes)),
        relevance=np.concatenate([part.relevance for part in parts]),
        features=np.concatenate([part.features for part in parts]),
        feature_names=parts[0].feature_names,
    )


def _frame(described: DataSet, path: Path) -> "pl.DataFrame":
    """Return the table of a file of ratings, or of relevant items: those have the relevance 1."""
    columns, separator = described.columns, described.row.get("separator", ",")
    content: Any = path
    if len(separator) > 1:
        content, separator = path.read_bytes().replace(separator.encode(), b"\t"), "\t"
    try:
        frame = pl.read_csv(content, separator=separator, has_header=described.row.get("header", True))
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path.name}: not readable as a table: {error}") from error
    if "rating" not in columns:
        return frame.with_columns(relevance=1)
    if not described.row.get("header", True):
        columns = {key: frame.columns[int(place) - 1] for key, place in columns.items()}
    return frame.select(pl.col(found).alias(key) for key, found in columns.items())


@dataclass(frozen=True)
class _Files:
    """The files of a data set: in a folder, at any depth, or members of its archive, which is fetched once."""

    described: DataSet
    folder: Path
    mirror: str | None
    _checked: set[Path] = field(default_factory=set)

    @contextmanager
    def open(self, name: str) -> Iterator[Path]:
        """Yield the path of a file with the right content, a temporary one of a member of the archive."""
        named = sorted(self.folder.rglob(PurePosixPath(name).name))
        found = [path for path in named if path.is_file() and f"/{path.as_posix()}".endswith(f"/{name}")]
        if len(found) > 1:
            raise SourceError(f"{self.folder}: found {found[0]} and {found[1]}, expected one file {name}: remove one")
        if found:
            if found[0] not in self._checked:
                with found[0].open("rb") as stream:
                    self._require(name, stream, str(found[0]))
                self._checked.add(found[0])
            yield found[0]
            return
        with TemporaryDirectory(prefix="rankbound-") as folder, zipfile.ZipFile(self._archive) as archive:
            path = Path(folder, PurePosixPath(name).name)
            with archive.open(self._member(archive, name)) as stream, path.open("wb") as file:
                shutil.copyfileobj(stream, file, _MEGABYTE)
            yield path

    @cached_property
    def _archive(self) -> Path:
        described = self.described
        zips = [name for name in described.row.get("archives", []) if name.endswith(".zip")]
        if not zips:
            wanted = " and ".join(self._members)
            raise SourceError(
                f"{self.folder}: {described.title} is not there: expected {wanted}, unpacked from the archive of "
                f"{described.homepage}"
            )
        addresses = [one for one in described.row.get("addresses", []) if not one.endswith(".rar")]
        homepage = f"{described.homepage}, whose files may also be unpacked into {self.folder},"
        archive = Archive(described.title, zips, addresses, homepage, self._check, "content" in described.row)
        return fetch(archive, self.folder / zips[0], self.mirror)

    @property
    def _content(self) -> Mapping[str, Any]:
        return {"members": {}, "algorithm": "sha256", "line_ends": "", **self.described.row.get("content", {})}

    @property
    def _members(self) -> list[str]:
        of_folds = [name for fold in self.described.folds for of in fold.values() for name in of]
        return list(dict.fromkeys([*self._content["members"], *self.described.row.get("files", of_folds)]))

    def _check(self, path: Path) -> None:
        """Raise SourceError unless an archive has the members, with the right content where it is known."""
        try:
            with zipfile.ZipFile(path) as archive:
                for name in self._members:
                    with archive.open(self._member(archive, name)) as stream:
                        self._require(name, stream, f"{path}: {name}")
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError) as error:
            raise SourceError(f"{path}: not readable as a .zip archive: {error}") from error

    def _member(self, archive: zipfile.ZipFile, wanted: str) -> zipfile.ZipInfo:
        found = [one for one in archive.infolist() if f"/{one.filename}".endswith(f"/{wanted}")]
        if len(found) != 1:
            raise SourceError(f"{archive.filename}: found {quantity(len(found), 'member')} {wanted}, expected one")
        if found[0].file_size > MEMBER_BYTES:
            size = f"{found[0].file_size:,} bytes"
            raise SourceError(f"{archive.filename}: {wanted} would have {size}, expected at most {MEMBER_BYTES:,}")
        return found[0]

    def _require(self, name: str, stream: BinaryIO | Any, where: str) -> None:
        """Raise SourceError for another checksum than that of the described content, if there is one."""
        expected, any_ends = self._content["members"].get(name), self._content["line_ends"] == "any"
        if expected is None or (found := checksum(stream, self._content["algorithm"], any_ends=any_ends)) == expected:
            return
        how = f"{self._content['algorithm']}{', CRLF read as LF' if any_ends else ''}"
        title = self.described.title
        raise SourceError(f"{where}: its content is not that of {title}: expected {expected} ({how}), found {found}")
