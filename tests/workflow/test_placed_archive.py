"""Raw archives that lie in data/raw before the workflow starts: compared with their sources before anything is made."""

import hashlib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from project import GENERATED, Project

from rankbound_study.warm import OFF, VARIABLE

COLD = {VARIABLE: OFF}
"""One step is sooner begun by itself."""
RAW, RATINGS = "data/raw/ml-latest-small.zip", "data/interactions/movielens.parquet"
CONFIG = {
    **GENERATED,
    "datasets": ["movielens"],
    "lists": {},
    "interactions": {
        "movielens": {
            "archive": Path(RAW).name,
            "threshold": 4,
            "min_relevant": 25,
            "nsr": [1],
            "validation_share": 0.1,
            "seed": 0,
        }
    },
    "training": {"movielens": GENERATED["training"]["synthetic-movielens"]},
}


def test_ratings_of_another_edition_are_refused_and_stay_where_they_are(tmp_path: Path) -> None:
    project = Project.create(tmp_path / "project", CONFIG)
    raw = project.path(RAW)
    raw.parent.mkdir(parents=True)
    with zipfile.ZipFile(raw, "w") as archive:
        archive.writestr("ml-latest-small/ratings.csv", "userId,movieId,rating,timestamp\r\n1,2,4.0,10\r\n")
    content = raw.read_bytes()
    output = project.snakemake("--retries", "0", RATINGS, status=1, **COLD)
    assert (
        f"rankbound_study convert: {RAW}: the content of 'ml-latest-small/ratings.csv' is not that of MovieLens"
        in output
    )
    assert f"run `python -m rankbound_study download movielens --out {RAW}`" in output
    assert not project.path(RATINGS).exists()
    assert [path.name for path in raw.parent.iterdir()] == [raw.name]
    assert raw.read_bytes() == content


DRAWING = {"threshold": 4, "min_relevant": 10, "nsr": [1], "validation_share": 0.1, "seed": 0}
PARTS = {f"S{part}.txt": b"1 qid:%d 1:1\n0 qid:%d 1:0\n" % (part, part) for part in range(1, 4)}
DESCRIBED = {
    "format": "letor",
    "title": "Searches",
    "terms": "ours alone",
    "citation": "none",
    "addresses": ["http://127.0.0.1:9/web.zip"],
    "content": {"members": {name: hashlib.sha256(text).hexdigest() for name, text in PARTS.items()}},
    "limits": {"members": 10, "megabytes": 10},
    "parts": list(PARTS),
}
TABLE = b"query,item,clicked,price\na,1,1,0.5\na,2,0,0.25\n"
WRONG: dict[str, tuple[str, dict[str, Any], dict[str, bytes], str]] = {
    "movielens-1m": (
        "interactions",
        {"archive": "ml-1m.zip", **DRAWING},
        {"ml-1m/ratings.dat": b"1::2::4::10\n"},
        "found 1 rows of 1 topics, but MovieLens 1M has 1,000,209 of 6,040",
    ),
    "web": (
        "lists",
        {"archive": "web.zip", "source": DESCRIBED, "thresholds": [1]},
        {**PARTS, "S3.txt": PARTS["S3.txt"].replace(b"1:0", b"1:2")},
        "the content of 'S3.txt' is not that of Searches",
    ),
    "clicks": (
        "lists",
        {
            "archive": "clicks.zip",
            "source": {
                **{key: DESCRIBED[key] for key in ("title", "terms", "citation", "limits")},
                "format": "table",
                "addresses": ["http://127.0.0.1:9/clicks.zip"],
                "content": {"members": {"clicks.csv": hashlib.sha256(TABLE).hexdigest()}},
                "files": ["clicks.csv"],
                "columns": {"topic": "query", "relevance": "clicked"},
                "random_parts": 3,
            },
            "thresholds": [1],
        },
        {"clicks.csv": TABLE.replace(b"0.25", b"0.75")},
        "the content of 'clicks.csv' is not that of Searches",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_other_data_of_the_right_name_are_refused_in_every_format(tmp_path: Path, name: str) -> None:
    kind, section, files, message = WRONG[name]
    trained = GENERATED["training"]["synthetic-mq2008" if kind == "lists" else "synthetic-movielens"]
    empty = {"interactions": {}, "lists": {}}
    config = {**GENERATED, "datasets": [name], **empty, kind: {name: section}, "training": {name: trained}}
    project = Project.create(tmp_path / "project", config)
    raw = project.path("data/raw") / section["archive"]
    raw.parent.mkdir(parents=True)
    with zipfile.ZipFile(raw, "w") as archive:
        for member, content in files.items():
            archive.writestr(member, content)
    output = project.snakemake("--retries", "0", f"data/{kind}/{name}.parquet", status=1, **COLD)
    assert message in output
    assert not project.path(f"data/{kind}/{name}.parquet").exists()
    assert [path.name for path in raw.parent.iterdir()] == [raw.name]
