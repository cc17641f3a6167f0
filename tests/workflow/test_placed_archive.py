"""Raw archives that lie in data/raw before the workflow starts: compared with their sources before anything is made."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from project import GENERATED, Project

from tests.raw_files import pack

DRAWING = {"threshold": 4, "min_relevant": 10, "nsr": [1], "validation_share": 0.1, "seed": 0}
PARTS = {f"S{part}.txt": b"1 qid:%d 1:1\n0 qid:%d 1:0\n" % (part, part) for part in range(1, 4)}
WEB = {
    "format": "letor", "title": "Searches", "terms": "ours alone", "citation": "none",
    "addresses": ["http://127.0.0.1:9/web.zip"], "parts": list(PARTS),
    "content": {"members": {name: hashlib.sha256(text).hexdigest() for name, text in PARTS.items()}},
}  # fmt: skip
WRONG: dict[str, tuple[str, dict[str, Any], dict[str, bytes], str]] = {
    "movielens": (
        "interactions", {"archive": "ml-latest-small.zip", **DRAWING},
        {"ml-latest-small/ratings.csv": b"userId,movieId,rating,timestamp\r\n1,2,4.0,10\r\n"},
        "the content of 'ml-latest-small/ratings.csv' is not that of MovieLens",
    ),
    "movielens-1m": (
        "interactions", {"archive": "ml-1m.zip", **DRAWING}, {"ml-1m/ratings.dat": b"1::2::4::10\n"},
        "found 1 rows of 1 topics, but MovieLens 1M has 1,000,209 of 6,040",
    ),
    "web": (
        "lists", {"archive": "web.zip", "source": WEB, "thresholds": [1]},
        {**PARTS, "S3.txt": PARTS["S3.txt"].replace(b"1:0", b"1:2")}, "the content of 'S3.txt' is not that of Searches",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_other_data_of_the_right_name_are_refused_and_stay_where_they_are(tmp_path: Path, name: str) -> None:
    kind, section, files, message = WRONG[name]
    trained = GENERATED["training"]["synthetic-mq2008" if kind == "lists" else "synthetic-movielens"]
    empty = {"interactions": {}, "lists": {}}
    config = {**GENERATED, "datasets": [name], **empty, kind: {name: section}, "training": {name: trained}}
    project = Project.create(tmp_path / "project", config)
    raw, made = project.path("data/raw") / section["archive"], f"data/{kind}/{name}.parquet"
    content = pack(raw, files).read_bytes()
    # As make runs it, and Snakemake shows no log of a step that failed.
    output = project.snakemake("--retries", "0", "--quiet", "rules", "host", "--", made, status=1)
    assert f"rankbound_study convert: data/raw/{raw.name}: {message}" in output
    advice = f"run `python -m rankbound_study download movielens --out data/raw/{raw.name}`"
    assert (advice in output) == (name == "movielens")
    assert not project.path(made).exists()
    assert [path.name for path in raw.parent.iterdir()] == [raw.name]
    assert raw.read_bytes() == content
