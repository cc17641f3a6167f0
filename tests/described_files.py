"""Generated files in the layouts that people have, with the descriptions that read them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

WIDTH, FOLDS = 4, 5


def letor(first: int, topics: int, query_ids: bool = True) -> tuple[str, list[int]]:
    """LETOR text of queries numbered from `first`, whose labels follow the first feature, and the queries' sizes."""
    random = np.random.default_rng(first)
    text, sizes = "", random.integers(4, 12, topics).tolist()
    for query, size in enumerate(sizes, start=first):
        features = random.random((size, WIDTH))
        labels = np.digitize(features[:, 0], (0.5, 0.8))
        labels[np.argmax(features[:, 0])] = 2
        for label, row in zip(labels.tolist(), features.tolist(), strict=True):
            pairs = " ".join(f"{index}:{value:.4f}" for index, value in enumerate(row, start=1))
            text += f"{label} {f'qid:{query} ' if query_ids else ''}{pairs}\n"
    return text, sizes


def folds_of_letor(folder: Path) -> dict[str, Any]:
    """Fold1 .. Fold5 with train.txt, vali.txt and test.txt, as LETOR's archives have them."""
    parts = [letor(100 * part, 12)[0] for part in range(1, FOLDS + 1)]
    for fold in range(FOLDS):
        turned = [*parts[fold:], *parts[:fold]]
        place = folder / f"Fold{fold + 1}"
        place.mkdir(parents=True)
        for name, text in {"train": "".join(turned[:3]), "vali": turned[3], "test": turned[4]}.items():
            (place / f"{name}.txt").write_text(text)
    names = {"train": "train", "validation": "vali", "test": "test"}
    pattern = {split: [f"Fold{{fold}}/{name}.txt"] for split, name in names.items()}
    return {"format": "letor", "path": str(folder), "fold_pattern": {"count": FOLDS, **pattern}}


def lightgbm(folder: Path) -> dict[str, Any]:
    """Training and test file without query ids, each with a file of group sizes beside it."""
    folder.mkdir()
    for name, topics in {"rank.train": 40, "rank.test": 15}.items():
        text, sizes = letor(topics, topics, query_ids=False)
        (folder / name).write_text(text)
        (folder / f"{name}.query").write_text("".join(f"{size}\n" for size in sizes))
    return {"format": "lightgbm", "path": str(folder), "folds": [{"train": ["rank.train"], "test": ["rank.test"]}]}


def repeated_splits(folder: Path) -> dict[str, Any]:
    """Three random splits of the same queries, whose test parts overlap."""
    folder.mkdir()
    random = np.random.default_rng(3)
    texts = [letor(query, 1)[0] for query in range(1, 31)]
    folds = []
    for split in range(1, 4):
        order = random.permutation(len(texts))
        for name, rows in {"train": order[:20], "test": order[20:]}.items():
            (folder / f"{name}-{split}.txt").write_text("".join(texts[row] for row in sorted(rows)))
        folds.append({"train": [f"train-{split}.txt"], "test": [f"test-{split}.txt"]})
    return {"format": "letor", "path": str(folder), "folds": folds, "validation_share": 0.25}


def searches(path: Path) -> dict[str, Any]:
    """A table with a row for each result of a search: CSV or parquet by the name of the file."""
    random = np.random.default_rng(4)
    rows = [
        {"query": f"shoes, size {query}", "sku": f"s{item}", "clicked": int(price > 0.6), "price": price, "age": age}
        for query in range(40)
        for item, (price, age) in enumerate(random.random((6, 2)).round(4).tolist())
    ]
    frame = pl.DataFrame(rows)
    frame.write_parquet(path) if path.suffix == ".parquet" else frame.write_csv(path)
    columns = {"topic": "query", "item": "sku", "relevance": "clicked"}
    return {"format": "table", "path": str(path), "columns": columns, "random_parts": 4}


def ratings(path: Path, separator: str) -> dict[str, Any]:
    """Ratings without a line of names, as MovieLens' older editions have them; or parquet by the name of the file."""
    random = np.random.default_rng(5)
    rows = [
        (user, int(item), int(random.integers(3, 6)), 880_000_000 + int(item))
        for user in range(1, 31)
        for item in random.choice(150, 50, replace=False) + 1
    ]
    is_parquet = path.suffix == ".parquet"
    names = ("user", "movie", "stars", "time") if is_parquet else "1234"
    columns = dict(zip(("topic", "item", "rating", "timestamp"), names, strict=True))
    if is_parquet:
        pl.DataFrame(rows, schema=list(names), orient="row").write_parquet(path)
        return {"format": "ratings", "path": str(path), "columns": columns}
    path.write_text("".join(separator.join(map(str, row)) + "\n" for row in rows))
    return {"format": "ratings", "path": str(path), "separator": separator, "header": False, "columns": columns}


def splits_of_ratings(folder: Path) -> dict[str, Any]:
    """Three random splits of the same ratings, whose test parts overlap: fold_0 .. fold_2 with train.csv, test.csv."""
    random = np.random.default_rng(6)
    rows = [
        (user, int(item), int(random.integers(3, 6)))
        for user in range(20)
        for item in random.choice(120, 25, replace=False)
    ]
    frame = pl.DataFrame(rows, schema=["user", "movie", "stars"], orient="row")
    for fold in range(3):
        place = folder / f"fold_{fold}"
        place.mkdir(parents=True)
        is_test = random.random(len(rows)) < 0.3
        for name, chosen in {"train": ~is_test, "test": is_test}.items():
            frame.filter(chosen).write_csv(place / f"{name}.csv")
    pattern = {"count": 3, "first": 0, **{split: [f"fold_{{fold}}/{split}.csv"] for split in ("train", "test")}}
    columns = {"topic": "user", "item": "movie", "rating": "stars"}
    return {"format": "ratings", "path": str(folder), "columns": columns, "fold_pattern": pattern}


Write = Callable[[Path], dict[str, Any]]
LISTS: dict[str, Write] = {
    "web": lambda folder: folds_of_letor(folder / "web"),
    "grouped": lambda folder: lightgbm(folder / "grouped"),
    "repeated": lambda folder: repeated_splits(folder / "repeated"),
    "searches": lambda folder: searches(folder / "searches.csv"),
    "searches-parquet": lambda folder: searches(folder / "searches.parquet"),
}
RATINGS: dict[str, Write] = {
    "colons": lambda folder: ratings(folder / "ratings.dat", "::"),
    "tabs": lambda folder: ratings(folder / "u.data", "\t"),
    "ratings-parquet": lambda folder: ratings(folder / "ratings.parquet", ""),
    "given-splits": lambda folder: splits_of_ratings(folder / "given-splits"),
    "by-time": lambda folder: {**ratings(folder / "by-time.data", "\t"), "by_time": {"test_share": 0.3}},
}
