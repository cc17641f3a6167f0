"""Ratings become interactions, and odd rows are refused by name."""

import zipfile
from pathlib import Path

import pytest

from rankbound.errors import DataError
from rankbound_study.data.contracts import read_metadata, read_table
from tests.raw_files import convert_as

HEADER = "userId,movieId,rating,timestamp\r\n"


def convert(folder: Path, text: str) -> Path:
    with zipfile.ZipFile(folder / "raw.zip", "w") as archive:
        archive.writestr("ml-latest-small/ratings.csv", text)
    convert_as("movielens", folder / "raw.zip", folder / "x.parquet")
    return folder / "x.parquet"


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_rows_are_sorted_by_user_and_movie(tmp_path: Path, line_end: str) -> None:
    text = f"{HEADER}2,5,4.5,30\r\n1,9,0.5,20\r\n1,3,5,10".replace("\r\n", line_end)
    path = convert(tmp_path, text)
    assert read_table(path, "interactions").to_pylist() == [
        {"topic": 1, "item": 3, "rating": 5.0, "timestamp": 10},
        {"topic": 1, "item": 9, "rating": 0.5, "timestamp": 20},
        {"topic": 2, "item": 5, "rating": 4.5, "timestamp": 30},
    ]
    assert read_metadata(path, "interactions")["rankbound.dataset"] == "movielens"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "userId,rating\r\n1,2\r\n",
            r"line 1: found 'userId,rating', which has no column 'movieId'; expected",
        ),
        ("", r"it has no ratings"),
        (HEADER + "1,2,4.0,1\r\n1,3,4.0\r\n", r"Row #3: Expected 4 columns, got 3.*rows count from 1"),
        (HEADER + "1,2,four,1\r\n", r"Row #2.*invalid value 'four'"),
        (HEADER + "1,,4,1\r\n", r"Row #2.*invalid value ''"),
        (HEADER + "1,99999999999,4,1\r\n", r"invalid value '99999999999'"),
        (HEADER + "1,2,4.2,1\r\n", r"user 1 rates item 2 with 4\.2.*expected 0\.5, 1, \.\. 5"),
        (HEADER + "1,2,0,1\r\n", r"user 1 rates item 2 with 0;"),
        (HEADER + "1,2,nan,1\r\n", r"user 1 rates item 2 with nan"),
        (HEADER + "1,2,4,1\r\n3,1,1,1\r\n1,2,5,1\r\n", r"user 1 rates item 2 more than once"),
        (HEADER, r"it has no ratings"),
    ],
)
def test_malformed_rows_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=rf"raw\.zip: ml-latest-small/ratings\.csv.*{message}"):
        convert(tmp_path, text)
    assert not (tmp_path / "x.parquet").exists()
