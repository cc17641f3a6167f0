"""`python -m rankbound_study new`: what it finds in files is what they are, and what it writes is a valid study."""

import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
import yaml

from rankbound.metrics.cumulative_gain import largest_grade
from rankbound_study.cli import main
from rankbound_study.commands import own_study
from rankbound_study.commands.data import convert
from rankbound_study.commands.own_study import study_name
from rankbound_study.config.check import merged
from rankbound_study.config.sections.description import DescriptionKeys
from rankbound_study.data import sampling
from tests.described_files import LISTS, RATINGS, splits_of_ratings
from tests.library.refusals import problems
from tests.public_layouts import LAYOUTS, asin, isbn, plays, rows, written

ROOT = Path(__file__).resolve().parents[2]
Told = Callable[..., str]


def section(path: Path, out: Path, told: Told, *flags: str) -> tuple[str, dict[str, Any]]:
    """The kind and the section of the data set in the configuration that is written for a file."""
    told("new", str(path), "--out", str(out), "--name", "mine", *flags)
    said = told("check-config", str(ROOT / "config.yaml"), str(out))
    config = merged([out])
    is_graded = config.get("lists", {}).get("mine", {}).get("thresholds") == ["graded"]
    assert len(config["boundings"]) == (4 if is_graded else 5)
    assert said.startswith(f"valid: study 'mine', 1 data set, {3 * len(config['boundings'])} training jobs, ")
    (kind,) = {"lists", "interactions"} & set(config)
    return kind, config[kind]["mine"]


@pytest.mark.parametrize("name", [name for name in LISTS | RATINGS if name not in ("repeated", "by-time")])
def test_what_is_found_describes_the_files(tmp_path: Path, told: Told, name: str) -> None:
    described = (LISTS | RATINGS)[name](tmp_path)
    kind, found = section(Path(described["path"]), tmp_path / "mine.yaml", told)
    assert kind == ("lists" if name in LISTS else "interactions")
    parts = {"random_parts": 5} if "random_parts" in described else {}
    assert DescriptionKeys(**found["source"]) == DescriptionKeys(**{**described, **parts})


def placed(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def rated(
    separator: str = ",",
    header: str = "user,item,rating\n",
    users: int = 6,
    items: int = 40,
    each: int = 24,
    rating: Callable[[int], object] = lambda place: 1 + place % 5,
    last: Callable[[int], object] | None = None,
    user: Callable[[int], object] = lambda user: user + 1,
) -> str:
    """Ratings of users, each of as many items; `last` makes a further column."""
    rows = [
        (
            user(place // each),
            1 + (place // each * 5 + place % each) % items,
            rating(place),
            *([last(place)] if last else []),
        )
        for place in range(users * each)
    ]
    return header + "".join(separator.join(map(str, row)) + "\n" for row in rows)


def judged(
    label: Callable[[int], object] = lambda place: place % 2,
    topics: int = 8,
    header: str = "query,doc,label,f,g\n",
    query: Callable[[int], object] = lambda topic: f"q{topic}",
) -> str:
    """Four items of each topic with two features."""
    rows = range(4 * topics)
    return header + "".join(f"{query(row // 4)},d{row % 4},{label(row)},{row % 7},{row % 3}.5\n" for row in rows)


def letor(label: Callable[[int], object] = lambda row: row % 2, topics: int = 8, pairs: str = "1:{} 2:0.5") -> str:
    return "".join(f"{label(row)} qid:{row // 4 + 1} {pairs.format(row % 7)}\n" for row in range(4 * topics))


def test_splits_of_ratings_below_a_folder(tmp_path: Path, told: Told) -> None:
    described = splits_of_ratings(tmp_path / "splits")
    texts = {f"th_0/{path.parent.name}/{path.name}": path.read_text() for path in (tmp_path / "splits").glob("*/*.csv")}
    path = placed(tmp_path / "x", {"users.dat": "2 7 9\n", **texts})
    _, found = section(path, tmp_path / "mine.yaml", told)
    pattern = {"count": 3, "first": 0, "train": ["th_0/fold_{fold}/train.csv"], "test": ["th_0/fold_{fold}/test.csv"]}
    assert DescriptionKeys(**found["source"]) == DescriptionKeys(
        **{**described, "path": str(path), "fold_pattern": pattern}
    )


def test_pairs_without_ratings_and_with_texts(tmp_path: Path, told: Told) -> None:
    pairs = [(user, f"red shoes {(5 * user + place) % 40}") for user in range(5) for place in range(12)]
    (tmp_path / "x.tsv").write_text("user\titem\n" + "".join(f"{user}\t{item}\n" for user, item in pairs))
    _, found = section(tmp_path / "x.tsv", tmp_path / "mine.yaml", told)
    described = {"format": "ratings", "path": str(tmp_path / "x.tsv"), "separator": "\t", "ids": "texts"}
    assert found["source"] == {**described, "columns": {"topic": "user", "item": "item"}}
    assert found["threshold"] == 1
    text = (tmp_path / "mine.yaml").read_text()
    assert "# There is no rating: every pair is relevant." in text
    assert "so both are read as texts" in text


def test_an_index_is_neither_a_feature_nor_a_rating(tmp_path: Path, told: Told) -> None:
    rows = "".join(f"{row},{row // 4},{row % 2},{row % 7}.5,a,{row % 5}\n" for row in range(32))
    (tmp_path / "x.csv").write_text(f",query,label,price,title,score\n{rows}")
    kind, _ = section(tmp_path / "x.csv", tmp_path / "mine.yaml", told)
    assert kind == "lists"
    text = (tmp_path / "mine.yaml").read_text()
    assert "# The features are price.\n" in text
    left_out = "'' (without a name), title (text), score (given by a ranking)"
    assert f"# Left out, unless `features` names them, are {left_out}.\n" in text
    pairs = "".join(f"{row},{row // 12},{(5 * (row // 12) + row % 12) % 40}\n" for row in range(72))
    (tmp_path / "y.csv").write_text(f",user,item\n{pairs}")
    kind, found = section(tmp_path / "y.csv", tmp_path / "yours.yaml", told)
    assert (kind, found["source"]["columns"]) == ("interactions", {"topic": "user", "item": "item"})


def test_one_of_several_files_has_to_be_named_and_an_archive_to_be_unpacked(tmp_path: Path, told: Told) -> None:
    path = placed(tmp_path / "y", {"u.data": "1\t2\t3\t4\n", "u1.base": "1\t2\t3\t4\n"})
    message = told("new", str(path), "--out", str(tmp_path / "yours.yaml"), status=2)
    assert f"{path}: found u.data, u1.base; expected" in message
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("x.csv", rated())
    message = told("new", str(tmp_path / "x.zip"), "--out", str(tmp_path / "yours.yaml"), status=2)
    assert "x.zip: it is an archive: unpack it, and give the folder" in message
    path = placed(tmp_path / "z", dict.fromkeys(("train.csv", "test.csv"), rated(rating=counts)))
    message = told("new", str(path), "--out", str(tmp_path / "yours.yaml"), status=2)
    assert re.search(f"z/train.csv: .*{NOT_COUNTS}", message)


def test_parts_in_a_folder_and_one_file_of_lightgbm_with_its_sizes(tmp_path: Path, told: Told) -> None:
    folder, out = tmp_path / "parts", tmp_path / "mine.yaml"
    folder.mkdir()
    for part in (1, 2, 10):
        (folder / f"S{part}.txt").write_text(f"2 qid:{part} 1:0.5\n1 qid:{part} 1:0.1\n0 qid:{part} 1:0.25\n")
    _, found = section(folder, out, told)
    assert found["source"]["parts"] == ["S1.txt", "S2.txt", "S10.txt"]
    assert "The first lines have 0, 1, 2." in out.read_text()
    assert found["thresholds"] == ["graded"]
    (tmp_path / "rank.train").write_text("1 1:0.5\n0 1:0.25\n" * 5)
    (tmp_path / "rank.train.query").write_text("2\n" * 5)
    _, found = section(tmp_path / "rank.train", tmp_path / "yours.yaml", told)
    assert found["source"] == {"format": "lightgbm", "path": str(tmp_path / "rank.train"), "random_parts": 5}


def test_names_are_free_grades_fit_and_nothing_is_overwritten(told: Told, tmp_path: Path) -> None:
    names = {"MovieLens": "my-movielens", "My Data_2": "my-data-2", "synthetic-x": "my-synthetic-x", "...": "mine"}
    assert {text: study_name(text) for text in names} == names
    assert study_name("web") == "web"
    assert largest_grade(torch.float32) == sampling.LARGEST_GRADE
    (tmp_path / "mine.yaml").write_text("study: thesis\n")
    assert "there is a file of that name" in told("new", "x", "--out", str(tmp_path / "mine.yaml"), status=2)
    assert (tmp_path / "mine.yaml").read_text() == "study: thesis\n"
    assert "there is no such file or folder" in told("new", "x", "--out", str(tmp_path / "other.yaml"), status=2)


def counts(place: int) -> int:
    return 13_000 // (1 + place)


def iso(place: int) -> str:
    return f"2026-01-31T12:00:{place % 60:02}"


TIMED = "user,item,rating,time\n"
ACCEPTED: dict[str, tuple[str, str, list[str], dict[str, Any]]] = {
    "counts, all relevant": ("x.csv", rated(rating=counts, items=60), ["--threshold", "any"],
                             {"threshold": 1, "min_relevant": 10}),
    "counts from 100 on": ("x.csv", rated(rating=counts, items=60), ["--threshold", "300"],
                           {"threshold": 300, "min_relevant": 10}),
    "ratings of 0 to 100": ("x.csv", rated(rating=lambda place: place * 37 % 101, each=48, items=99), [],
                            {"threshold": 75, "min_relevant": 10}),
    "users with few relevant items": ("x.csv", rated(each=15), [], {"threshold": 4, "min_relevant": 5}),
    "times in milliseconds": ("x.csv", rated(header=TIMED, last=lambda place: 10**12 + place), [], {}),
    "times with fractions": ("x.csv", rated(header=TIMED, last=lambda place: f"{place}.5"), [], {}),
    "ISO times": ("x.csv", rated(header=TIMED, last=iso),
                  [], {}),
    "ISO times with a zone": ("x.csv", rated(header=TIMED, last=lambda _: "2026-01-31 12:00:00Z"), [],
                              {}),
    "dates": ("x.csv", rated(header=TIMED, last=lambda _: "2026-01-31"), [], {}),
    "users as floats": ("x.csv", rated(user=float), [], {"source.ids": "texts"}),
    "users beyond 32 bits": ("x.csv", rated(user=lambda user: 3_000_000_000 + user), [], {"source.ids": "texts"}),
    **{f"stars {stars}": ("x.csv", rated(each=25, items=99, rating=lambda place, of=stars: of[place % len(of)]), [],
                          {"threshold": threshold})
       for stars, threshold in (((1, 2, 3, 4, 5), 4), ((0.5, 1, 3.5, 4, 4.5, 5), 4), ((1,), 1), ((-10, 0, 10), 10))},
    "names in quotes": ("x.csv", rated(header='"user","item","rating"\n'), [], {}),
    "binary labels": ("x.csv", judged(), [], {"thresholds": [1]}),
    "graded labels": ("x.csv", judged(lambda row: row % 4), [], {"thresholds": ["graded"]}),
    "graded labels, binary at 2": ("x.csv", judged(lambda row: row % 4), ["--threshold", "2"], {"thresholds": [2]}),
    "labels without 0": ("x.csv", judged(lambda row: 1 + row % 5), ["--threshold", "4"], {"thresholds": [4]}),
    "whole labels with a point": ("x.csv", judged(lambda row: f"{row % 3}.0"), [], {"thresholds": ["graded"]}),
    "the same in LETOR text": ("x.txt", letor(lambda row: f"{row % 3}.0"), [], {"thresholds": ["graded"]}),
}  # fmt: skip
"""Files, flags, and what the section of the data set has."""


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_is_accepted_is_described_and_tried(tmp_path: Path, told: Told, name: str) -> None:
    file, text, flags, expected = ACCEPTED[name]
    (tmp_path / file).write_text(text)
    told("new", str(tmp_path / file), "--out", str(tmp_path / "mine.yaml"), "--name", "mine", *flags)
    config = merged([tmp_path / "mine.yaml"])
    found = (config.get("lists") or config["interactions"])["mine"]
    flat = {**found, **{f"source.{key}": value for key, value in found["source"].items()}}
    assert {key: flat[key] for key in expected} == expected


NOT_COUNTS = "these may be counts .* or ratings on a scale. Say which: --threshold any if .* --threshold"
TIMES = "expected .* for times whole numbers, or dates such as 2026-01-31"
REFUSED: dict[str, tuple[str, str, list[str], str]] = {
    "no table": ("x.txt", "hello\n", [], "x.txt: neither LETOR text nor columns with a separator"),
    "nothing": ("x.csv", "", [], "x.csv: neither LETOR text nor columns"),
    "no topics": ("x.csv", "a,b\n1,2\n", [], r"x.csv: found the columns a, b; expected a topic \(such as query\)"),
    "two columns": ("x.dat", "1::2\n", [], "no user has 5 ratings of at least 1; the most"),
    "a label in words": ("x.csv", "query,label\nq,high\n", [], "x.csv: the column 'label' holds 'high', expected"),
    "notes": ("folder/notes.md", "# Notes\n", [], "folder: found notes.md; expected LETOR text as Fold1/train.txt"),
    "play counts": ("x.csv", rated(rating=counts), [], f"90 to 13,000, median .*{NOT_COUNTS}"),
    "few counts": ("x.csv", rated(rating=lambda place: 1 + 12 * (place == 7) + place % 6), [], NOT_COUNTS),
    "counts by name": ("x.csv", rated(header="user,item,plays\n"), [], f"'plays' holds 1 to 5.*{NOT_COUNTS}"),
    "a threshold beyond all": ("x.csv", rated(), ["--threshold", "9"], "the largest rating is 5"),
    "a threshold of a fraction": ("x.csv", judged(), ["--threshold", "0.5"], "whole number 1 .. 127, a label"),
    "implicit labels": ("x.csv", judged(), ["--threshold", "any"], "--threshold any is for ratings"),
    "too few relevant": ("x.csv", rated(each=6), [], "no user has 5 ratings of at least 4; the most"),
    "nothing irrelevant": ("x.csv", rated(items=24, rating=lambda _: 1), [], "only 0 of the 24 rated items are left"),
    "American dates": ("x.csv", rated(header=TIMED, last=lambda _: "01/31/2026"), ["--timestamp", "time"],
                       "--timestamp time: found '01/31/2026', expected for times whole"),
    "an empty time": ("x.csv", rated(header=TIMED, last=lambda row: row or ""), [], TIMES),
    "an empty user": ("x.csv", rated(user=lambda user: user or ""), [], "invalid value ''; expected rows of 3 columns"),
    "an empty rating": ("x.csv", rated(rating=lambda row: row % 5 or ""), [], "invalid value ''"),
    "a rating twice": ("x.csv", rated() + "1,1,5\n", [], "user 1 rates item 1 more than once"),
    "no ratings": ("x.csv", "user,item,rating\n", [], "no finite numbers in the column 'rating'"),
    "no pairs": ("x.csv", "user,item\n", [], "x.csv: there are no rows; expected a row for each pair"),
    "no finite rating": ("x.csv", "user,item,rating\n1,2,nan\n", [], "no finite numbers in the column 'rating'"),
    "fractions of labels": ("x.csv", judged(lambda row: row % 3 / 2), [], "found relevance 0.5.* as 0, 1 and 2"),
    "negative labels": ("x.csv", judged(lambda row: row % 3 - 1), [], "'label' holds -1, expected grades from 0"),
    "many clicks": ("x.csv", judged(lambda row: row * 9), [], "found relevance 135, expected whole"),
    "grades without a gain": ("x.csv", judged(lambda row: row * 4), [], "grades at most 108"),
    "labels without 0": ("x.csv", judged(lambda row: 1 + row % 5), [], "the smallest label is 1.* --threshold N"),
    "one topic": ("x.csv", judged(topics=1), [], "it has 1 topic, too few .* a study needs 3 topics"),
    "two topics of LETOR text": ("x.txt", letor(topics=2), [], "it has 2 topics, too few"),
    "all relevant": ("x.csv", judged(lambda _: 1), ["--threshold", "1"], "in no list is an item more"),
    "none relevant": ("x.csv", judged(lambda _: 0), [], "in no list is an item more relevant"),
    "one informative topic": ("x.csv", judged(lambda row: int(row == 5)), [], "lists of fold . is an item more"),
    "no features in LETOR text": ("x.txt", letor(pairs=""), [], "there are no features in it"),
    "an empty label": ("x.csv", judged(lambda row: row % 2 if row else ""), [], "column 'label' is empty"),
    "a rating in words": ("x.csv", rated(rating=lambda row: "good" if row == 9 else row), [], "'rating' holds 'good'"),
    "labels in words": ("x.csv", judged(lambda _: "so so"), [], "the column 'label' holds 'so so', expected numbers"),
    "a query twice": ("x.txt", letor() + letor(), [], "query 1 occurs again after other queries"),
    "fractions in LETOR text": ("x.txt", letor(lambda row: row % 3 / 2), [], "found '0.5', expected a label"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_not_run_is_refused_before_anything_is_written(tmp_path: Path, told: Told, name: str) -> None:
    file, text, flags, message = REFUSED[name]
    path = tmp_path / Path(file).parts[0]
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    said = told("new", str(path), "--out", str(tmp_path / "mine.yaml"), *flags, status=2)
    assert re.search(message, said), said
    assert "rankbound-" not in said
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("times", [pl.Date, pl.Datetime("us"), pl.Datetime("ns", "UTC"), pl.String, pl.Float64])
def test_times_of_any_type_in_parquet(tmp_path: Path, told: Told, times: Any) -> None:
    frame = pl.read_csv(rated(header=TIMED, last=lambda place: place * 86400).encode())
    moments = pl.from_epoch("time", "s")
    written = moments.dt.to_string("iso") if times == pl.String else pl.col("time") if times == pl.Float64 else moments
    frame.with_columns(written.cast(times)).write_parquet(tmp_path / "x.parquet")
    told("new", str(tmp_path / "x.parquet"), "--out", str(tmp_path / "mine.yaml"))


def test_a_large_file_is_described_and_not_tried(tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_study, "WHOLE", 100)
    (tmp_path / "x.csv").write_text(rated(each=6))
    assert "wrote" in told("new", str(tmp_path / "x.csv"), "--out", str(tmp_path / "mine.yaml"))


def test_files_that_changed_or_do_not_fit_the_losses_are_refused(tmp_path: Path, told: Told) -> None:
    own, (data, out) = ("check-config", str(ROOT / "config.yaml")), (tmp_path / "x.csv", tmp_path / "mine.yaml")
    data.write_text(judged(lambda row: 1 + row % 5))
    told("new", str(data), "--out", str(out), "--name", "mine", "--threshold", "4")
    text = out.read_text().replace("thresholds: [4]", "thresholds: [graded]")
    text = text.replace("mine-label4", "mine-graded").replace(", distribution]", "]")
    out.write_text(text)
    said = told(*own, str(out), status=2)
    assert "AP, nRBP count every label above 0 as relevant, and no training list of fold 1" in said
    out.write_text(text.replace("losses: [nDCG, AP, nRBP]", "losses: [nDCG]"))
    told(*own, str(out))
    data.write_text(judged(topics=2))
    said = told(*own, str(out), status=2)
    place = r"mine.yaml, line \d+: lists.mine.source: .*x.csv: it has 2 topics, too few for 5 random parts"
    assert re.search(place, said)


# Layouts in which public data sets are published: by names, or by flags

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
    assert ("\n  JSON lines, which names the columns\n" in plan) == path.read_bytes().startswith(b"{")
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
    "yelp": lambda row: (f"mh_-eMZ6K5RLWhZyISBhw{row[0]}", f"XQfwVwDr-v0ZS3_CbbE5X{row[1]}", row[2], 10**6 * row[3]),
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
    with pytest.raises(Exception, match="line 52: column 'label' holds 'awful', expected one of the grades good, fair"):
        convert("mine", [path], tmp_path / "again.parquet", text)


REFUSED_TABLES = yaml.safe_load((ROOT / "tests/reference/refused_tables.yaml").read_text("utf-8"))


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, rows in REFUSED_TABLES.items() for name in rows])
def test_what_is_unclear_or_a_mistake_is_refused_by_flag(tmp_path: Path, called: Called, kind: str, name: str) -> None:
    text, flags, message = REFUSED_TABLES[kind][name]
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


@pytest.mark.parametrize(("lines", "named"), problems("first lines"))
def test_a_line_of_names_is_told_from_data(tmp_path: Path, called: Called, lines: str, named: bool) -> None:
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
