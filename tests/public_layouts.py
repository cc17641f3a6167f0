"""Files of 50 rows in the layouts in which public data sets are published, generated: none of their content."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

USERS, EACH, ITEMS = 5, 10, 24
START = 978_300_760

Row = tuple[int, int, int, int]
"""User, item, stars from 1 to 5, and a time."""


class Layout(NamedTuple):
    """A layout: the file's name, its writer, the description and threshold of it, and the flags that it takes."""

    file: str
    text: Callable[[], str | bytes]
    source: dict[str, Any]
    threshold: Any = 4
    flags: tuple[str, ...] = ()


def rows() -> list[Row]:
    """Five users, each of whom rates ten of 24 items, mostly well."""
    random = np.random.default_rng(40)
    return [
        (user, int(item), int(random.choice((1, 3, 4, 5), p=(0.1, 0.2, 0.4, 0.3))), START + 60 * place)
        for user in range(1, USERS + 1)
        for place, item in enumerate(random.choice(ITEMS, EACH, replace=False) + 1)
    ]


def lines(write: Callable[[Row], object], first: str = "") -> str:
    return first + "".join(f"{write(row)}\n" for row in rows())


def isbn(item: int) -> str:
    """An ISBN, with a zero in front or an X at the end."""
    return f"0{195153440 + item}" if item % 4 else f"04404234{item:02}X"


def day(time: int) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S")


def asin(item: int) -> str:
    return f"B00{item:03}AV9K" if item % 3 else f"01327{item:05}"


def plays(row: Row) -> int:
    user, item, stars, _ = row
    return 13_000 // (1 + (7 * user + 3 * item) % 40) + stars


def books() -> bytes:
    """Ratings of books; most are not rated, which 0 says, and one name is no UTF-8."""
    rated = lines(
        lambda row: f'"{276724 + row[0]}";"{isbn(row[1])}";"{2 * row[2] * (row[1] % 3 == 0)}"',
        '"User-ID";"ISBN";"Book-Rating"\r\n',
    )
    return rated.replace("195153441", "19515344\u00e9").encode("latin-1")


def clicks() -> str:
    """Events of visitors, of which a pair has several, as RetailRocket's."""
    kinds = ("view", "view", "view", "addtocart", "addtocart", "transaction")
    first = "timestamp,visitorid,event,itemid,transactionid\n"
    return first + "".join(
        f"{1000 * (time + n)},{257597 + user},{kind},{355908 + item},{time if kind == 'transaction' else ''}\n"
        for user, item, stars, time in rows()
        for n, kind in enumerate(kinds[:stars])
    )


def judged() -> str:
    """Judged documents of queries, with labels in words."""
    random = np.random.default_rng(41)
    words = ("bad", "fair", "good")
    return "query_id,doc_id,label,bm25,pagerank\n" + "".join(
        f"q{query},d{query}-{doc},{words[(query + doc) % 3]},{bm25:.3f},{rank:.3f}\n"
        for query in range(USERS)
        for doc, (bm25, rank) in enumerate(random.random((EACH, 2)))
    )


def reviews() -> str:
    """Objects as in Yelp's reviews, a line each."""
    return lines(
        lambda row: json.dumps(
            {
                "review_id": f"KU_{row[3]}",
                "user_id": f"mh_-eMZ6K5RLWhZyISBhw{row[0]}",
                "business_id": f"XQfwVwDr-v0ZS3_CbbE5X{row[1]}",
                "stars": float(row[2]),
                "text": 'Good, "but" {loud}',
                "date": day(row[3]),
            }
        )
    )


def numbered(*roles: str) -> dict[str, str]:
    return {role: str(place) for place, role in enumerate(roles, start=1)}


FOUR = numbered("topic", "item", "rating", "timestamp")
RECBOLE = dict(zip(FOUR, ("user_id:token", "item_id:token", "rating:float", "timestamp:float"), strict=True))
YELP = dict(zip(FOUR, ("user_id", "business_id", "stars", "date"), strict=True))


def without_names(file: str, separator: str) -> Layout:
    """A layout of MovieLens' older editions: user, item, rating and time."""
    source = {"separator": separator, "header": False, "columns": FOUR}
    return Layout(file, lambda: lines(lambda row: separator.join(map(str, row))), source)


LAYOUTS: dict[str, Layout] = {
    "ml-1m": without_names("ratings.dat", "::"),
    "ml-100k": without_names("u.data", "\t"),
    "spaces": without_names("out.ratings", " "),
    "recbole": Layout(
        "ml-100k.inter",
        lambda: lines(lambda row: "\t".join(map(str, row)), "\t".join(RECBOLE.values()) + "\n"),
        {"separator": "\t", "columns": RECBOLE},
    ),
    "headerless": Layout(
        "pairs.csv",
        lambda: lines(lambda row: f"{row[0]},{row[1]}"),
        {"header": False, "columns": numbered("topic", "item")},
        1,
    ),
    "goodbooks": Layout(
        "ratings.csv",
        lambda: lines(lambda row: ",".join(map(str, row[:3])), "user_id,book_id,rating\n"),
        {"columns": {"topic": "user_id", "item": "book_id", "rating": "rating"}},
    ),
    "book-crossing": Layout(
        "BX-Book-Ratings.csv",
        books,
        {"separator": ";", "encoding": "latin-1", "ids": "texts", "columns": {"topic": "User-ID", "item": "ISBN"}},
        1,
        ("--threshold", "any"),
    ),
    "last.fm": Layout(
        "usersha1-artmbid-artname-plays.tsv",
        lambda: lines(
            lambda row: f'{row[0]:040x}\t{f"{row[1]:08x}-7ff1" if row[1] % 5 else ""}\tthe "{row[1]}" men\t{plays(row)}'
        ),
        {"separator": "\t", "header": False, "ids": "texts", "columns": {"topic": "1", "item": "3", "rating": "4"}},
        None,
        ("--topic", "1", "--item", "3", "--relevance", "4", "--threshold", "q0.4"),
    ),
    "retailrocket": Layout(
        "events.csv",
        clicks,
        {
            "labels": ["view", "addtocart", "transaction"],
            "repeats": "highest",
            "columns": {"topic": "visitorid", "item": "itemid", "rating": "event", "timestamp": "timestamp"},
        },
        1,
        (
            *("--format", "ratings", "--relevance", "event", "--labels", "view,addtocart,transaction"),
            *("--repeats", "highest", "--threshold", "addtocart"),
        ),
    ),
    "labels in words": Layout(
        "judged.csv",
        judged,
        {
            "format": "table",
            "labels": ["bad", "fair", "good"],
            "random_parts": 5,
            "columns": {"topic": "query_id", "item": "doc_id", "relevance": "label"},
        },
        "graded",
        ("--labels", "bad,fair,good"),
    ),
    "amazon": Layout(
        "ratings_Books.csv",
        lambda: lines(lambda row: f"A2CX7LUOHB{row[0]}NDG,{asin(row[1])},{row[2]}.0,{row[3]}"),
        {"header": False, "ids": "texts", "columns": FOUR},
    ),
    "yelp": Layout("yelp_academic_dataset_review.json", reviews, {"ids": "texts", "columns": YELP}),
}


def written(name: str, folder: Path) -> Path:
    """Write the file of a layout."""
    text = LAYOUTS[name].text()
    path = folder / LAYOUTS[name].file
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path
