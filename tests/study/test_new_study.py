"""`python -m rankbound_study new`: what it finds in files is what they are, and what it writes is a valid study."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rankbound_study import cli
from rankbound_study.config.lines import merged
from rankbound_study.config.new_study import study_name
from rankbound_study.config.sections.description import DescriptionKeys
from tests.described_files import LISTS, RATINGS, searches, splits_of_ratings

ROOT = Path(__file__).resolve().parents[2]
Told = Callable[..., str]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    """What a command prints; checks its status."""

    def call(*arguments: str, status: int = 0) -> str:
        assert cli.main(arguments) == status, capsys.readouterr().err
        printed = capsys.readouterr()
        return printed.err if status else printed.out

    return call


def section(path: Path, out: Path, told: Told) -> tuple[str, dict[str, Any]]:
    """The kind and the section of the data set in the configuration that is written for a file."""
    told("new", str(path), "--out", str(out), "--name", "mine")
    said = told("check-config", str(ROOT / "config.yaml"), str(out))
    assert said.startswith("valid: study 'mine', 1 data set, 15 training jobs, ")
    config = merged([out])
    (kind,) = {"lists", "interactions"} & set(config)
    return kind, config[kind]["mine"]


@pytest.mark.parametrize("name", [name for name in LISTS | RATINGS if name not in ("repeated", "by-time")])
def test_what_is_found_describes_the_files(tmp_path: Path, told: Told, name: str) -> None:
    described = (LISTS | RATINGS)[name](tmp_path)
    kind, found = section(Path(described["path"]), tmp_path / "mine.yaml", told)
    assert kind == ("lists" if name in LISTS else "interactions")
    parts = {"random_parts": 5} if "random_parts" in described else {}
    assert DescriptionKeys(**found["source"]) == DescriptionKeys(**{**described, **parts})


def packed(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


MOVIES = "1::Toy Story (1995)::Animation|Children's|Comedy\n"


@pytest.mark.parametrize("pack", [True, False])
def test_the_ratings_are_found_among_the_files_of_movielens(tmp_path: Path, told: Told, pack: bool) -> None:
    files = {"ml/README": "MovieLens\n=====\n", "ml/movies.dat": MOVIES, "ml/users.dat": "1::F::1::10::48067\n"}
    files["ml/ratings.dat"] = "1::1193::5::978300760\n1::661::3::978302109\n"
    path = packed(tmp_path / "ml.zip", files)
    if not pack:
        zipfile.ZipFile(path).extractall(tmp_path / "unpacked")
        path = tmp_path / "unpacked"
    kind, found = section(path, tmp_path / "mine.yaml", told)
    assert (kind, found["threshold"]) == ("interactions", 5)
    columns = {"topic": "1", "item": "2", "rating": "3", "timestamp": "4"}
    expected = {"format": "ratings", "path": str(path), "separator": "::", "header": False, "columns": columns}
    assert found["source"] == {**expected, "files": ["ml/ratings.dat"]}


def test_splits_of_ratings_in_an_archive(tmp_path: Path, told: Told) -> None:
    described = splits_of_ratings(tmp_path / "splits")
    texts = {f"th_0/{path.parent.name}/{path.name}": path.read_text() for path in (tmp_path / "splits").glob("*/*.csv")}
    path = packed(tmp_path / "x.zip", {"users.dat": "2 7 9\n", **texts})
    _, found = section(path, tmp_path / "mine.yaml", told)
    pattern = {"count": 3, "first": 0, "train": ["th_0/fold_{fold}/train.csv"], "test": ["th_0/fold_{fold}/test.csv"]}
    assert DescriptionKeys(**found["source"]) == DescriptionKeys(
        **{**described, "path": str(path), "fold_pattern": pattern}
    )


def test_pairs_without_ratings_and_with_texts(tmp_path: Path, told: Told) -> None:
    (tmp_path / "x.tsv").write_text("user\titem\n7\tred shoes\n8\t12\n")
    _, found = section(tmp_path / "x.tsv", tmp_path / "mine.yaml", told)
    described = {"format": "ratings", "path": str(tmp_path / "x.tsv"), "separator": "\t", "ids": "texts"}
    assert found["source"] == {**described, "columns": {"topic": "user", "item": "item"}}
    assert found["threshold"] == 1
    text = (tmp_path / "mine.yaml").read_text()
    assert "# There is no rating: every pair is relevant." in text
    assert "so both are read as texts" in text


def test_an_index_is_neither_a_feature_nor_a_rating(tmp_path: Path, told: Told) -> None:
    (tmp_path / "x.csv").write_text(",query,label,price,title,score\n0,1,1,0.5,a,2\n1,1,0,0.25,b,1\n")
    kind, _ = section(tmp_path / "x.csv", tmp_path / "mine.yaml", told)
    assert kind == "lists"
    text = (tmp_path / "mine.yaml").read_text()
    assert "# The features are price.\n" in text
    left_out = "'' (without a name), title (text), score (given by a ranking)"
    assert f"# Left out, unless `features` names them, are {left_out}.\n" in text
    (tmp_path / "y.csv").write_text(",user,item\n0,7,8\n1,7,9\n")
    kind, found = section(tmp_path / "y.csv", tmp_path / "yours.yaml", told)
    assert (kind, found["source"]["columns"]) == ("interactions", {"topic": "user", "item": "item"})


def test_large_numbers_are_names(tmp_path: Path, told: Told) -> None:
    (tmp_path / "x.csv").write_text("user,item,rating\n1,3000000000,5\n")
    _, found = section(tmp_path / "x.csv", tmp_path / "mine.yaml", told)
    assert found["source"]["ids"] == "texts"


def test_one_file_in_an_archive_is_that_file(tmp_path: Path, told: Told) -> None:
    described = searches(tmp_path / "x.csv")
    path = packed(tmp_path / "x.zip", {"a/x.csv": (tmp_path / "x.csv").read_text()})
    _, found = section(path, tmp_path / "mine.yaml", told)
    assert found["source"] == {**described, "path": str(path), "random_parts": 5}


def test_an_archive_of_which_several_files_have_data_is_named(tmp_path: Path, told: Told) -> None:
    path = packed(tmp_path / "x.zip", {"u.data": "1\t2\t3\t4\n", "u1.base": "1\t2\t3\t4\n"})
    message = told("new", str(path), "--out", str(tmp_path / "mine.yaml"), status=2)
    assert f"{path}: found u.data, u1.base, of which several have data; expected" in message


def test_a_known_archive_is_said_to_be_known(tmp_path: Path, told: Told) -> None:
    path = packed(tmp_path / "ml-1m.zip", {"ratings.dat": "1::1193::5::978300760\n"})
    said = told("new", str(path), "--out", str(tmp_path / "mine.yaml"))
    assert "an archive of this name is known as movielens-1m" in said


def test_parts_in_a_folder(tmp_path: Path, told: Told) -> None:
    for part in (1, 2, 10):
        (tmp_path / f"S{part}.txt").write_text(f"2 qid:{part} 1:0.5\n0 qid:{part} 1:0.25\n")
    out = tmp_path.parent / f"{tmp_path.name}.yaml"
    _, found = section(tmp_path, out, told)
    assert found["source"]["parts"] == ["S1.txt", "S2.txt", "S10.txt"]
    assert "the first lines have 0, 2" in out.read_text()


def test_one_file_of_lightgbm_with_its_sizes(tmp_path: Path, told: Told) -> None:
    (tmp_path / "rank.train").write_text("1 1:0.5\n0 1:0.25\n")
    (tmp_path / "rank.train.query").write_text("2\n")
    _, found = section(tmp_path / "rank.train", tmp_path / "mine.yaml", told)
    assert found["source"] == {"format": "lightgbm", "path": str(tmp_path / "rank.train"), "random_parts": 5}


@pytest.mark.parametrize(
    ("stars", "threshold"), [((1, 2, 3, 4, 5), 4), ((0.5, 1, 3.5, 4, 4.5, 5), 4), ((1,), 1), ((-10, 0, 10), 10)]
)
def test_the_upper_quarter_of_the_ratings_is_relevant(
    tmp_path: Path, told: Told, stars: tuple[float, ...], threshold: float
) -> None:
    rows = pl.DataFrame({"userId": 1, "movieId": range(len(stars)), "rating": stars})
    rows.write_csv(tmp_path / "ratings.csv")
    _, found = section(tmp_path / "ratings.csv", tmp_path / "mine.yaml", told)
    assert found["threshold"] == threshold


def test_a_name_that_is_known_or_no_name_is_changed() -> None:
    assert [study_name(text) for text in ("MovieLens", "My Data_2", "synthetic-x", "...", "web")] == [
        "my-movielens",
        "my-data-2",
        "my-synthetic-x",
        "mine",
        "web",
    ]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.txt", "hello\n", r"x.txt: neither LETOR text nor columns with a separator"),
        ("x.csv", "a,b\n1,2\n", r"x.csv: found the columns a, b; expected a topic (such as query)"),
        ("x.dat", "1::2\n", r"x.dat: found 2 columns without names, expected user, item, rating"),
        ("x.csv", "query,label\nq,high\n", r"column 'label' holds 'high', expected numbers"),
        ("x.csv", "", r"x.csv: neither LETOR text nor columns"),
        ("folder/notes.md", "# Notes\n", r"folder: found notes.md; expected LETOR text as Fold1/train.txt"),
    ],
)
def test_unclear_files_are_named(tmp_path: Path, told: Told, name: str, text: str, message: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    path = (tmp_path / name).parent if "/" in name else tmp_path / name
    assert message in told("new", str(path), "--out", str(tmp_path / "mine.yaml"), status=2)
    assert not (tmp_path / "mine.yaml").exists()


def test_nothing_is_overwritten_and_no_file_is_named(tmp_path: Path, told: Told) -> None:
    (tmp_path / "mine.yaml").write_text("study: thesis\n")
    assert "there is a file of that name" in told("new", "x", "--out", str(tmp_path / "mine.yaml"), status=2)
    assert (tmp_path / "mine.yaml").read_text() == "study: thesis\n"
    assert "there is no such file or folder" in told("new", "x", "--out", str(tmp_path / "other.yaml"), status=2)
