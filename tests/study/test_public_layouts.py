"""`python -m rankbound_study new` of the layouts in which public data sets are published: by names, or by flags."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from rankbound_study.cli import main
from rankbound_study.commands.data import convert
from rankbound_study.config.check import merged
from rankbound_study.config.sections.description import DescriptionKeys
from tests.public_layouts import LAYOUTS, asin, isbn, plays, rows, written

ROOT = Path(__file__).resolve().parents[2]
Told = Callable[..., str]
Called = Callable[..., tuple[str, str]]


@pytest.fixture
def called(capsys: pytest.CaptureFixture[str]) -> Called:
    """Both outputs of a step, whose exit status has to be `status`."""

    def call(*arguments: object, status: int = 0) -> tuple[str, str]:
        assert main(list(map(str, arguments))) == status
        return tuple(capsys.readouterr())

    return call


def described(out: Path) -> dict[str, Any]:
    config = merged([out])
    (found,) = (config.get("lists") or config["interactions"]).values()
    return found


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_becomes_a_study_by_new_alone(tmp_path: Path, told: Told, name: str) -> None:
    layout, path, out = LAYOUTS[name], written(name, tmp_path), tmp_path / "mine.yaml"
    said = told("new", path, "--out", out, "--name", "mine", *layout.flags)
    found = described(out)
    source = DescriptionKeys(**{"format": "ratings", "path": str(path), **layout.source})
    assert DescriptionKeys(**found["source"]) == source
    threshold = found["threshold"] if "threshold" in found else found["thresholds"][0]
    assert layout.threshold is None or threshold == layout.threshold
    plan, _, tried = said.partition("wrote ")
    assert re.search(r"\d+ rows, the whole file(: 5 users, 22 items|, 5 topics)", plan)
    assert [f"row {number}: topic '" in plan for number in (1, 2, 3, 4)] == [True, True, True, False]
    assert re.search(r"\n  (relevant: a rating of at least [\d.]+|labels are grades of relevance)\n", plan)
    assert "check-config" in tried
    # It converts, splits and draws as the study will.
    assert told("check-config", ROOT / "config.yaml", out).startswith("valid: study 'mine', 1 data set, ")


def interactions(name: str, folder: Path, told: Told, *flags: str) -> pl.DataFrame:
    """The ratings of a layout as the study reads them, with the file's names of users and items."""
    layout, path, out = LAYOUTS[name], written(name, folder), folder / "mine.yaml"
    told("new", path, "--out", out, *(flags or layout.flags))
    text = DescriptionKeys(**described(out)["source"]).model_dump_json(exclude_defaults=True)
    convert("mine", [path], folder / "mine.parquet", text)
    frame = pl.read_parquet(folder / "mine.parquet")
    notes = pl.read_parquet_metadata(folder / "mine.parquet")
    for key in ("topic", "item"):
        if (names := notes.get(f"rankbound.{key}_names")) is not None:
            texts = pl.Series(pl.Series([names]).str.json_decode(pl.List(pl.String))[0])
            frame = frame.with_columns(texts.gather(frame[key]).alias(key))
    return frame


READ: dict[str, Callable[[tuple[int, int, int, int]], tuple[Any, Any, float, int]]] = {
    **{name: lambda row: row for name in ("ml-1m", "ml-100k", "spaces", "recbole")},
    "headerless": lambda row: (*row[:2], 1.0, 0),
    "goodbooks": lambda row: (*row[:3], 0),
    "book-crossing": lambda row: (str(276724 + row[0]), isbn(row[1]).replace("195153441", "19515344\u00e9"), 1.0, 0),
    "last.fm": lambda row: (f"{row[0]:040x}", f'the "{row[1]}" men', plays(row), 0),
    # A view is 0, a cart 1: the highest of the first events.
    "retailrocket": lambda row: (257597 + row[0], 355908 + row[1], float(row[2] > 3), 1000 * (row[3] + row[2] - 1)),
    "amazon": lambda row: (f"A2CX7LUOHB{row[0]}NDG", asin(row[1]), *row[2:]),
}


@pytest.mark.parametrize("name", READ)
def test_every_row_is_read_as_it_is_written(tmp_path: Path, told: Told, name: str) -> None:
    found = interactions(name, tmp_path, told).select("topic", "item", "rating", "timestamp").rows()
    assert sorted(found) == sorted(map(READ[name], rows()))


@pytest.mark.parametrize(("repeats", "of"), [("last", lambda n: n - 1), ("highest", max), ("sum", sum)])
def test_several_events_of_a_pair_are_one(tmp_path: Path, told: Told, repeats: str, of: Any) -> None:
    """Ratings 2, 3, 1 of each pair at times 3, 1, 2, the pairs in turn, and what they become."""
    pairs, events = [(user, item) for user in range(5) for item in range(8)], ((2, 3), (3, 1), (1, 2))
    text = "".join(f"{user},{item},{rating},{time}\n" for rating, time in events for user, item in pairs)
    (tmp_path / "x.csv").write_text(f"user,item,rating,time\n{text}")
    description = {"format": "ratings", "path": str(tmp_path / "x.csv"), "repeats": repeats}
    columns = {"topic": "user", "item": "item", "rating": "rating", "timestamp": "time"}
    text = DescriptionKeys(**description, columns=columns).model_dump_json(exclude_defaults=True)
    convert("mine", [tmp_path / "x.csv"], tmp_path / "mine.parquet", text)
    found = pl.read_parquet(tmp_path / "mine.parquet")
    expected = {"last": 2, "highest": 3, "sum": 6}[repeats]
    assert found.select("topic", "item", "rating", "timestamp").rows() == [(*pair, expected, 3) for pair in pairs]


def test_events_without_ratings_are_counted(tmp_path: Path, told: Told) -> None:
    events = [(user, item) for user in range(5) for item in range(12) for _ in range(1 + item % 3)]
    text = "".join(f"{user},{(5 * user + item) % 30}\n" for user, item in events)
    (tmp_path / "x.csv").write_text(f"visitor,song\n{text}")
    said = told("new", tmp_path / "x.csv", "--out", tmp_path / "any.yaml")
    assert "rows with the same user and item are one pair, whose rating is their number" in said
    assert (described(tmp_path / "any.yaml")["threshold"], described(tmp_path / "any.yaml")["source"]["repeats"]) == (
        1,
        "sum",
    )
    told("new", tmp_path / "x.csv", "--out", tmp_path / "two.yaml", "--threshold", "2")
    assert described(tmp_path / "two.yaml")["threshold"] == 2


def test_words_of_judged_items_are_grades(tmp_path: Path, told: Told) -> None:
    path, out = written("labels in words", tmp_path), tmp_path / "mine.yaml"
    told("new", path, "--out", out, "--labels", "good,fair,bad")
    text = DescriptionKeys(**described(out)["source"]).model_dump_json(exclude_defaults=True)
    convert("mine", [path], tmp_path / "mine.parquet", text)
    found = pl.read_parquet(tmp_path / "mine.parquet")
    words = pl.read_csv(path).group_by("query_id", maintain_order=True).agg("label")["label"].to_list()
    assert found["relevance"].to_list() == [[("good", "fair", "bad").index(word) for word in one] for one in words]
    told("new", path, "--out", tmp_path / "two.yaml", "--labels", "bad,fair,good", "--threshold", "fair")
    assert described(tmp_path / "two.yaml")["thresholds"] == [1]
    # A word that turns up later.
    path.write_text(path.read_text() + "q9,d,awful,1.0,2.0\n")
    with pytest.raises(Exception, match="line 52: found the label 'awful', expected good, fair, bad"):
        convert("mine", [path], tmp_path / "again.parquet", text)


REFUSED = yaml.safe_load((ROOT / "tests/reference/refused_tables.yaml").read_text("utf-8"))


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, rows in REFUSED.items() for name in rows])
def test_what_is_unclear_or_a_mistake_is_refused_with_a_plan_and_the_flag(
    tmp_path: Path, called: Called, kind: str, name: str
) -> None:
    text, flags, message = REFUSED[kind][name]
    path = tmp_path / "x.csv"
    path.write_text(text)
    plan, said = called("new", path, "--out", tmp_path / "mine.yaml", *flags, status=2)
    assert re.search(message, said, flags=re.DOTALL), said
    assert list(tmp_path.iterdir()) == [path]
    if kind == "unclear":
        assert plan.startswith(f"{path}: ")
        assert re.search(r"\n  (row|line) 1: ", plan), plan


def ratings(first: str, separator: str = ",") -> str:
    return first + "".join(
        separator.join(map(str, (user, 1 + (5 * user + item) % 30, 1 + item % 5, item))) + "\n"
        for user in range(6)
        for item in range(24)
    )


TOLD: dict[str, tuple[str, list[str], dict[str, Any]]] = {
    "by name": (ratings("who,what,liking,n\n"), ["--topic", "who", "--item", "what", "--relevance", "liking",
                "--format", "ratings"], {"topic": "who", "item": "what", "rating": "liking"}),
    "by number": (ratings("who,what,liking,n\n"),
                  ["--topic", "1", "--item", "2", "--relevance", "3", "--timestamp", "4"],
                  {"topic": "who", "item": "what", "rating": "liking", "timestamp": "n"}),
    "in another order": ("\n".join(",".join(line.split(",")[::-1]) for line in ratings("").split()),
                         ["--topic", "4", "--item", "3", "--relevance", "2"],
                         {"topic": "4", "item": "3", "rating": "2"}),
    "over names": (ratings("item,user,rating,n\n"), ["--topic", "item", "--item", "user"],
                   {"topic": "item", "item": "user", "rating": "rating"}),
    "by the user's id": (ratings("user,userId,rating,item\n").replace("item\n", "movieId\n", 1), ["--threshold", "1"],
                         {"topic": "userId", "item": "movieId", "rating": "rating"}),
}  # fmt: skip
"""Ratings whose columns flags name, or that are told from others by their names."""


@pytest.mark.parametrize("name", TOLD)
def test_flags_say_what_names_do_not(tmp_path: Path, told: Told, name: str) -> None:
    text, flags, columns = TOLD[name]
    (tmp_path / "x.csv").write_text(text)
    repeats = ["--repeats", "last"] if name == "by the user's id" else []
    told("new", tmp_path / "x.csv", "--out", tmp_path / "mine.yaml", *flags, *repeats)
    assert described(tmp_path / "mine.yaml")["source"]["columns"] == columns


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ("query,label,0,1\nq,1,0.5,0.25\n", True),
        ("time,dune,5\nanna,emma,3\n", False),
        ("who,item\nanna,dune\n", True),
        ("a,b,c\nanna,emma,3\n", True),
        ("0440423420,A1,x\nB00X,A2,y\n", False),
    ],
)
def test_a_line_of_names_is_told_from_data(tmp_path: Path, called: Called, lines: str, named: bool) -> None:
    """Features named by numbers, a user whose name is that of a column, one usual name, none, and an ISBN."""
    (tmp_path / "x.csv").write_text(lines)
    plan, _ = called("new", tmp_path / "x.csv", "--out", tmp_path / "mine.yaml", status=2)
    assert ("the first line names them" if named else "no line names them") in plan


def test_the_format_decides_between_features_and_ratings(tmp_path: Path, told: Told) -> None:
    text = "user,item,liking,price\n" + "".join(
        f"{user},{1 + (5 * user + item) % 30},{int(item % 5 > 1)},{item}.5\n" for user in range(6) for item in range(24)
    )
    (tmp_path / "x.csv").write_text(text)
    for form in ("table", "ratings"):
        told("new", tmp_path / "x.csv", "--out", tmp_path / f"{form}.yaml", "--relevance", "liking", "--format", form)
        assert described(tmp_path / f"{form}.yaml")["source"]["format"] == form


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_a_quantile_of_the_counts_is_the_threshold(tmp_path: Path, told: Told, share: float) -> None:
    flags = [*LAYOUTS["last.fm"].flags[:-1], f"q{share}"]
    if share < 0.8:
        found = interactions("last.fm", tmp_path, told, *flags)
        assert described(tmp_path / "mine.yaml")["threshold"] == found["rating"].quantile(share, "nearest")
    else:
        # A fifth of ten artists are two, too few of a user.
        path = written("last.fm", tmp_path)
        assert "no user has 5 ratings of at least" in told("new", path, "--out", tmp_path / "x.yaml", *flags, status=2)
