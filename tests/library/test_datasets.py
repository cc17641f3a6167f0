"""Public data sets by name: their table, and what is read from folders and archives; all of it generated."""

import copy
import hashlib
import sys
import zipfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankbound as rb
from rankbound import datasets
from rankbound.errors import DataError, SourceError
from rankbound.io.fetch import MIRROR_VARIABLE

PARTS = ["S1.txt", "S2.txt", "S3.txt", "S4.txt"]
RATINGS = "1::7::4.5::100\n1::8::3::90\n2::7::0.5::80\n"


def letor(part: int) -> str:
    """Three queries, of which the second has no relevant document."""
    return "".join(
        f"{label} qid:{part}{query} 1:{part}.{query} 2:{place / 8} #docid = D{part}{query}{place}\n"
        for query, labels in enumerate(([0, 2, 1], [0, 0], [1, 0]))
        for place, label in enumerate(labels)
    )


@pytest.fixture
def row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A known set of four parts, and a mirror with its archive, whose lines end in CRLF."""
    monkeypatch.delenv(MIRROR_VARIABLE, raising=False)
    sums = {name: hashlib.sha256(letor(part).encode()).hexdigest() for part, name in enumerate(PARTS)}
    common = {"title": "Planted lists", "homepage": "https://example.org"}
    planted = {**common, "format": "letor", "archives": ["planted.zip", "planted.rar"], "parts": PARTS}
    planted["content"] = {"line_ends": "any", "members": sums}
    rated = {**common, "format": "ratings", "archives": ["rated.zip"], "files": ["r.dat"], "separator": "::"}
    rated |= {"header": False, "columns": {"topic": "1", "item": "2", "rating": "3", "timestamp": "4"}}
    rated |= {"scale": {"lowest": 0.5, "highest": 5}, "sizes": {"topics": 2, "rows": 3}}
    monkeypatch.setattr(datasets, "table", lambda: {"planted": planted, "rated": rated})
    (tmp_path / "mirror").mkdir()
    pack(tmp_path / "mirror/planted.zip", {f"Sets/{n}": letor(k).replace("\n", "\r\n") for k, n in enumerate(PARTS)})
    pack(tmp_path / "mirror/rated.zip", {"r.dat": RATINGS})
    return planted


def pack(path: Path, members: dict[str, str]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


@pytest.mark.usefixtures("row")
@pytest.mark.parametrize("unpacked", [False, True])
def test_folds_are_those_of_the_parts_in_a_circle(tmp_path: Path, unpacked: bool) -> None:
    folder = tmp_path / "data"
    if unpacked:
        (folder / "deep").mkdir(parents=True)
        for part, name in enumerate(PARTS):
            (folder / "deep" / name).write_text(letor(part), "utf-8")
    folds = rb.datasets.load("planted", folder, mirror=str(tmp_path / "mirror"))
    assert len(folds) == 4
    whole = tmp_path / "whole.txt"
    for number, split in enumerate(folds):
        order = [(number + place) % 4 for place in range(4)]
        for parts, found in ((order[:2], split.training), (order[2:3], split.validation), (order[3:], split.test)):
            whole.write_text("".join(map(letor, parts)), "utf-8")
            expected = rb.read_lists(whole)
            assert list(found.topics) == list(expected.topics)
            assert list(found.items) == list(expected.items)
            for name in ("offsets", "relevance", "features"):
                np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert (folder / "planted.zip").exists() is not unpacked
    assert folds[-1].name == "Planted lists, fold 4"
    assert [split.name for split in folds[1:3]] == ["Planted lists, fold 2", "Planted lists, fold 3"]


@pytest.mark.usefixtures("row")
def test_other_content_is_set_aside_and_named(tmp_path: Path) -> None:
    folder, wrong = tmp_path / "data", {name: letor(part) for part, name in enumerate(PARTS)}
    folder.mkdir()
    pack(folder / "planted.zip", wrong | {"S3.txt": letor(7)})
    with pytest.raises(SourceError) as caught:
        rb.datasets.load("planted", folder)[0]
    expected, found = (hashlib.sha256(letor(part).encode()).hexdigest() for part in (2, 7))
    assert f"S3.txt: its content is not that of Planted lists: expected {expected}" in str(caught.value)
    assert f"found {found}" in str(caught.value)
    assert f"set aside as {folder / 'planted.zip.rejected'}" in str(caught.value)
    assert "may also be unpacked into" in str(caught.value)
    (folder / "S1.txt").write_text(letor(7), "utf-8")
    with pytest.raises(SourceError, match=r"S1.txt: its content is not that of Planted lists"):
        rb.datasets.load("planted", folder, mirror=str(tmp_path / "mirror"))[0]
    (folder / "again").mkdir()
    (folder / "again/S1.txt").write_text(letor(0), "utf-8")
    with pytest.raises(SourceError, match=r"S1.txt, expected one file S1.txt: remove one"):
        rb.datasets.load("planted", folder)[0]


def test_sizes_features_and_limits_are_checked(
    tmp_path: Path, row: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = str(tmp_path / "mirror")
    row["sizes"] = {"topics": 12, "rows": 29}
    with pytest.raises(DataError, match="found 28 rows of 12 topics, expected 29 of 12, as published"):
        rb.datasets.load("planted", tmp_path / "data", mirror=mirror)[0]
    with monkeypatch.context() as patch:
        patch.setattr("rankbound.datasets.MEMBER_BYTES", 104)
        with pytest.raises(SourceError, match=r"S1.txt would have 2\d\d bytes, expected at most 104 "):
            rb.datasets.load("planted", tmp_path / "data", mirror=mirror)[0]
    del row["content"], row["sizes"]
    (tmp_path / "loose").mkdir()
    for part, name in enumerate(PARTS):
        text = letor(part) if part else letor(part).replace(" #", " 3:1 #")
        (tmp_path / "loose" / name).write_text(text, "utf-8")
    with pytest.raises(DataError, match="found parts with 3 features and 2 features, expected the same in all"):
        rb.datasets.load("planted", tmp_path / "loose")[0]


@pytest.mark.usefixtures("row")
def test_ratings_are_a_table_that_can_be_split(tmp_path: Path) -> None:
    mirror = str(tmp_path / "mirror")
    ratings = rb.datasets.load("rated", tmp_path / "data", mirror=mirror)
    expected = {"topic": [1, 1, 2], "item": [7, 8, 7], "rating": [4.5, 3.0, 0.5], "timestamp": [100, 90, 80]}
    assert isinstance(ratings, pl.DataFrame)
    assert ratings.to_dict(as_series=False) == expected
    split = rb.split_by_time(ratings, time="timestamp", relevance="rating", at=95)
    assert (list(split.test.items), len(split.training.items)) == (["7"], 2)
    for text, message in (
        (RATINGS.replace("4.5", "9"), "found a rating of 9 of item 7 by 1, expected 0.5 to 5"),
        (RATINGS + "3::7::1::70\n", "found 4 rows of 3 topics, expected 3 of 2"),
        ("", "not readable as a table"),
    ):
        (tmp_path / "other").mkdir(exist_ok=True)
        (tmp_path / "other/r.dat").write_text(text, "utf-8")
        with pytest.raises(DataError, match=message):
            rb.datasets.load("rated", tmp_path / "other")


def test_the_table_says_of_each_set_what_people_have_to_know(tmp_path: Path) -> None:
    assert set(rb.datasets.names()) >= {"mq2008", "movielens", "mslr-web10k", "istella-s", "citeulike-a"}
    assert rb.datasets.describe("movielens-latest-small").name == "movielens"
    for name in rb.datasets.names():
        described = rb.datasets.describe(name)
        assert {"title", "homepage", "terms", "citation", "format"} <= {*described.row}
        assert described.terms in str(described)
        assert copy.deepcopy(described) == described
        assert described.folds or described.format == "ratings"
        assert all({"train", "test"} <= {*fold} <= {*datasets.PARTS} for fold in described.folds)
        assert "content" in described.row or "no checksums are known" in described.remark
    assert rb.datasets.describe("citeulike-a").folds[2] == {
        "train": ["th_0/fold_2/train.csv"],
        "test": ["th_0/fold_2/test.csv"],
    }
    assert rb.datasets.describe("mq2008").folds[4]["train"] == ["S5.txt", "S1.txt", "S2.txt"]
    with pytest.raises(SourceError, match=r"Istella LETOR is not there: expected full/train.txt and full/test.txt"):
        rb.datasets.load("istella", tmp_path)[0]


def test_names_and_folders_that_are_missing_are_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown name .mq2009.; known are .* Did you mean mq2008\?"):
        rb.datasets.load("mq2009", "data")
    with pytest.raises(ValueError, match="folder: found none for mq2008, expected the folder of its files"):
        rb.datasets.load("mq2008")
    with pytest.raises(AttributeError, match="colour"):
        _ = rb.datasets.describe("mq2008").colour


def test_judgements_of_ir_datasets_are_read_through_its_own_package(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [SimpleNamespace(query_id=q, doc_id=d, relevance=r) for q, d, r in (("1", "a", 2), ("2", "b", 0))]

    def found(name: str) -> Any:
        if name != "vaswani":
            raise KeyError(name)
        return SimpleNamespace(qrels_iter=lambda: iter(rows))

    package = ModuleType("ir_datasets")
    package.load = found  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ir_datasets", package)
    qrels = rb.datasets.load("ir_datasets:vaswani")
    assert rb.evaluate_run({"1": {"a": 1.0}, "2": {"b": 1.0}}, qrels, "P@1").values["P@1"].tolist() == [1.0, 0.0]
    with pytest.raises(ValueError, match="data set ir_datasets:none: ir_datasets has none of that name"):
        rb.datasets.load("ir_datasets:none")
