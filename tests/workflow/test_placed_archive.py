"""Raw archives that lie in data/raw before the workflow starts: compared with their sources before anything is made."""

import zipfile
from pathlib import Path

from project import GENERATED, Project

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
    output = project.snakemake("--retries", "0", RATINGS, status=1)
    assert (
        f"rankbound_study convert: {RAW}: the content of 'ml-latest-small/ratings.csv' is not that of MovieLens"
        in output
    )
    assert f"run `python -m rankbound_study download movielens --out {RAW}`" in output
    assert not project.path(RATINGS).exists()
    assert [path.name for path in raw.parent.iterdir()] == [raw.name]
    assert raw.read_bytes() == content
