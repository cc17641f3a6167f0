"""Which columns of a table are features: never an index, nor the shadow of the label, without a word."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rankbound as rb
from rankbound.errors import ColumnWarning, DataError
from rankbound.io import table_columns, tables
from rankbound.io.table_columns import Columns
from rankbound.io.tables import TableStream
from tests.library.conftest import Program
from tests.library.drawn_arguments import ROUNDS
from tests.library.pages import text_of
from tests.row_batches import batches_of

TOPICS, ITEMS = 4, 5
N = TOPICS * ITEMS
DRAWN = np.random.default_rng(0)
GRADES = np.array([0, 1, 2, 0, 1, 1, 0, 2, 2, 0, 0, 1, 0, 2, 1, 2, 1, 0, 0, 2])
PLACES = np.concatenate([DRAWN.permutation(ITEMS) for _ in range(TOPICS)])
TABLE: dict[str, Any] = {
    "topic": np.repeat([f"q{topic}" for topic in range(TOPICS)], ITEMS),
    "item": [f"d{row}" for row in range(N)],
    "relevance": GRADES,
    "price": DRAWN.random(N).round(3),
}

UNNAMED, LABEL = "without a name", "is the relevance label in other units"
ROWS, LISTS = "numbers the rows", "numbers the rows of each topic"


# The name and values of a column beside those of TABLE, and what it is left out as, or why it is doubtful.
CASES: list[tuple[str, Any, str | None]] = [
    ("", range(N), UNNAMED),
    ("", np.arange(N) % 7, UNNAMED),
    ("", [f"row {row}" for row in range(N)], UNNAMED),
    *[(name, range(N), UNNAMED) for name in ("Unnamed: 0", "Unnamed: 0.1", "__index_level_0__")],
    ("index", range(N), "a number of rows"),
    ("title", ["blue", "red"] * (N // 2), "text"),
    *[(name, PLACES, "given by a ranking") for name in ("position", "Rank", "score")],
    ("clicked", GRADES > 1, "a label"),
    *[(name, DRAWN.random(N), "a weight") for name in ("weight", "Sample Weight", "propensity")],
    ("fold", np.arange(N) // 7, "a part of an evaluation"),
    ("split", np.arange(N) % 2, "a part of an evaluation"),
    ("timestamp", np.arange(N) * 60 + 1_700_000_000, "a time"),
    *[(name, DRAWN.random(N), "a time") for name in ("ts", "timeStamp")],
    ("doc_id", DRAWN.integers(0, 10**6, N), "a name"),
    ("date", ["2026-01-01"] * N, "text"),
    ("line", range(N, 0, -1), ROWS),
    ("line", np.arange(N) + 0.0, ROWS),
    # Beyond float32.
    ("line", np.arange(N) + 10**9, ROWS),
    ("place", PLACES, LISTS),
    ("loss", 5 - GRADES**2 / 8, LABEL),
    # Simply features, as are the changed ones of `test_doubtful_features_are_as_defined`.
    ("weight_kg", DRAWN.random(N), None),
    ("clicks", DRAWN.integers(0, 9, N), None),
    ("line", np.arange(N) + 0.5, None),
    ("gain", GRADES > 0, None),
    ("gain", GRADES * 0, None),
]

Read = tuple[list[str], dict[str, str], dict[str, str]]


def columns_of(lists: Any) -> Read:
    return list(lists.feature_names), dict(lists.left_out), dict(lists.doubtful)


WAYS = ("csv", "tsv", "parquet", "csv in batches", "parquet in batches", "pandas", "polars", "arrow")


def source_of(way: str, frame: pd.DataFrame, folder: Path) -> Any:
    """Return a file or frame with these columns; polars itself would name those without a name."""
    columns, path = pl.DataFrame({name: frame[name].tolist() for name in frame}), folder / f"x.{way.split()[0]}"
    if path.suffix == ".parquet":
        columns.write_parquet(path, row_group_size=3)
    elif path.suffix in (".csv", ".tsv"):
        frame.to_csv(path, index=False, sep="\t" if way == "tsv" else ",")
    else:
        return {"pandas": frame, "polars": columns, "arrow": pa.Table.from_pandas(frame)}[way]
    return path


def read(way: str, frame: pd.DataFrame, folder: Path) -> Read:
    source = source_of(way, frame, folder)
    with batches_of(60):
        return columns_of(
            rb.pack_lists(source, folder / "x.arrow") if way.endswith("batches") else rb.read_lists(source)
        )


@contextmanager
def warned(left_out: dict[str, str], doubtful: dict[str, str]) -> Iterator[None]:
    """Expect one warning of each kind, with every name and what it is, and no other."""
    if not left_out and not doubtful:
        yield
        return
    with pytest.warns(ColumnWarning) as found:
        yield
    texts = [str(warning.message) for warning in found]
    expected = [("columns that are no features", left_out), ("features by which a ranker may look better", doubtful)]
    assert len(texts) == sum(bool(columns) for _, columns in expected)
    for start, columns in expected:
        for name, what in columns.items():
            assert any(f": {start}" in text and f"{name or repr(name)} ({what})" in text for text in texts), texts


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", range(len(CASES)))
def test_what_becomes_of_a_column(case: int, way: str, tmp_path: Path) -> None:
    """First in the table, as an index is, or last."""
    name, values, what = CASES[case]
    column, is_doubtful = {name: values}, what in (ROWS, LISTS, LABEL)
    features = [name] if is_doubtful or what is None else []
    left_out = {} if features or what is None else {name: what}
    doubtful = {name: what} if is_doubtful and what else {}
    for table, expected in ((column | TABLE, [*features, "price"]), (TABLE | column, ["price", *features])):
        with warned(left_out, doubtful):
            found = read(way, pd.DataFrame(table), tmp_path)
        assert found == (expected, left_out, doubtful)


@pytest.mark.parametrize("way", ["csv", "parquet", "csv in batches", "parquet in batches", "polars"])
def test_many_columns_have_one_warning_of_each_kind(way: str, tmp_path: Path) -> None:
    left_out = {"": UNNAMED, "title": "text", "position": "given by a ranking"}
    doubtful = {"line": ROWS, "gain": LABEL}
    extra = {"": range(N), "title": ["a"] * N, "position": PLACES, "line": range(N), "gain": GRADES * 2}
    with warned(left_out, doubtful):
        assert read(way, pd.DataFrame(extra | TABLE), tmp_path) == (["line", "gain", "price"], left_out, doubtful)


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame, pa.table, lambda table: table])
def test_chosen_features_are_taken_as_they_are(make: Callable[[Any], Any], tmp_path: Path) -> None:
    """Without a warning, whatever their names and values."""
    names = ["position", "line", "gain", ""]
    extra = {"": np.arange(N), "position": PLACES, "line": np.arange(N), "gain": GRADES * 2}
    source = make(extra | TABLE)
    if isinstance(source, dict):
        source = source_of("csv", pd.DataFrame(source), tmp_path)
        with batches_of(60):
            assert columns_of(rb.pack_lists(source, tmp_path / "x.arrow", features=names)) == (names, {}, {})
    lists = rb.read_lists(source, features=names)
    assert columns_of(lists) == (names, {}, {})
    assert lists.features[:, 0].tolist() == PLACES.tolist()


@pytest.mark.parametrize(("rows", "is_doubtful"), [(7, False), (8, True)])
def test_a_few_rows_are_in_order_by_chance(rows: int, is_doubtful: bool) -> None:
    table = {"topic": ["q"] * rows, "relevance": np.arange(rows) % 2, "line": range(rows), "gain": np.arange(rows) % 2}
    with warned({}, {"line": ROWS, "gain": LABEL} if is_doubtful else {}):
        rb.read_lists(pl.DataFrame(table))


@pytest.mark.parametrize("names", ["", '""', "Unnamed: 0", ",", '"",', "Unnamed: 0,Unnamed: 0.1"])
def test_indexes_name_no_topics_and_no_items(names: str, tmp_path: Path) -> None:
    """One or several, as `to_csv` writes a frame; a sheet's empty columns are the same."""
    rows = "".join(f"{'1,' * names.count(',')}{n},q,{n % 2},{n / 2}\n" for n in range(8))
    (tmp_path / "x.csv").write_text(f"{names},topic,relevance,f\n{rows}")
    with pytest.warns(ColumnWarning, match="without a name"):
        lists = rb.read_lists(tmp_path / "x.csv")
    assert (list(lists.items)[:2], lists.feature_names) == (["q-2", "q-3"], ["f"])
    with pytest.warns(ColumnWarning), batches_of(60):
        assert rb.pack_lists(tmp_path / "x.csv", tmp_path / "x.arrow").feature_names == ["f"]


def test_the_page_and_the_message_list_what_is_left_out(tmp_path: Path) -> None:
    text = text_of("your_own_data.md")
    rows = re.findall(r"^\| (`.*?) \| ", text.partition("| left out | why |")[2].partition("\n\n")[0], re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert len(rows) == len(table_columns.RESERVED)
    assert {*named} <= {name for names in table_columns.RESERVED.values() for name in names}
    assert "so that `weight_kg` and `clicks` are\nfeatures" in text
    table = pd.DataFrame(TABLE | {"position": PLACES}).drop(columns="price")
    expected = r"there are no features.*; left out are position \(given by a ranking\): choose some by `features`"
    path = source_of("csv", table, tmp_path)
    with pytest.warns(ColumnWarning):
        lists = rb.read_lists(path)
    with pytest.raises(DataError, match=expected):
        rb.train_ranker(lists)
    with pytest.raises(DataError, match=expected):
        rb.pack_lists(path, tmp_path / "x.arrow")


# The definition of doubtful features, and the order of rows and batches
def by_definition(values: Sequence[float], topics: Sequence[int], labels: Sequence[float]) -> str | None:
    """What `Shadows` finds of one column, written out."""
    of_label = {
        label: {value for value, other in zip(values, labels, strict=True) if other == label} for label in labels
    }
    if len(of_label) > 1 and all(len(found) == 1 for found in of_label.values()):
        in_order = [min(of_label[label]) for label in sorted(of_label)]
        if in_order in (sorted({*in_order}), sorted({*in_order}, reverse=True)):
            return LABEL
    if any(value % 1 for value in values):
        return None
    distinct = sorted({*values})
    if len(distinct) == len(values) and list(values) in (distinct, distinct[::-1]):
        return ROWS
    lists = [[value for value, other in zip(values, topics, strict=True) if other == topic] for topic in {*topics}]
    enough = len(values) - len(lists) >= 8
    return (
        LISTS
        if enough and all(sorted(one) == list(range(int(min(one)), int(min(one)) + len(one))) for one in lists)
        else None
    )


@pytest.mark.parametrize("number", ROUNDS)
def test_doubtful_features_are_as_defined(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of columns that number rows, lists or labels, some with a value changed; in one part and in batches."""
    random = np.random.default_rng(number)
    seen = set()
    for _ in range(20 if number else 6):
        n = int(random.integers(8, 25))
        topics = np.sort(random.integers(0, 3, n)) if random.random() < 0.5 else random.integers(0, 3, n)
        labels = random.integers(0, 3, n)
        places = np.array([np.sum(topics[:row] == topics[row]) for row in range(n)])
        columns = {
            "ordered": np.cumsum(random.integers(1, 3, n)) * random.choice([-1, 1]),
            "shuffled": random.permutation(n) + random.integers(-5, 5),
            "placed": places + topics * random.integers(0, 2),
            "labelled": np.sort(random.choice(9, 3, replace=False))[:: random.choice([-1, 1])][labels]
            / random.choice([1, 2]),
            "few": random.integers(0, 2, n),
        }
        for values in columns.values():
            if random.random() < 0.4:
                values[random.integers(n)] = random.choice([values[0], values[-1], values.max() + 1])
        expected = {
            name: by_definition(values.tolist(), topics.tolist(), labels.tolist()) for name, values in columns.items()
        }
        expected = {name: what for name, what in expected.items() if what is not None}
        seen |= {*expected.values()}
        table = pl.DataFrame({"topic": [f"q{topic}" for topic in topics], "relevance": labels, **columns})
        table.write_csv(tmp_path / "x.csv")
        monkeypatch.setattr(tables, "_FIRST_ROWS", int(random.choice([1, 5, 1024])))
        with pytest.warns(ColumnWarning) if expected else nullcontext():
            assert rb.read_lists(table).doubtful == expected
        with batches_of(int(random.choice([1, 30, 100]))):
            stream = TableStream(tmp_path / "x.csv", Columns())
            assert [len(list(stream)) > 0 for _ in range(2)] == [True, True]
            assert stream.doubtful == expected
    assert seen == {ROWS, LISTS, LABEL}


# The command line
LEFT_OUT = (
    "left out, as --features does not name them: '' (without a name), position (given by a ranking), title (text)\n"
)
NOTE = "features by which a ranker may look better than it is: line (numbers the rows); if they are not known"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    extra = {"": np.arange(N), "position": PLACES, "title": ["a"] * N, "line": np.arange(N)}
    return source_of("csv", pd.DataFrame(extra | TABLE), tmp_path)


@pytest.mark.parametrize("command", ["train", "cross-validate", "--split", "pack"])
def test_commands_say_which_columns_are_features(command: str, table: Path, program: Program) -> None:
    test = table.with_name("test.csv")
    pl.read_csv(table).with_columns(topic=pl.col("topic") + "b").write_csv(test)
    arguments = {
        "train": f"train {table} --epochs 1 --out {table}.safetensors",
        "cross-validate": f"cross-validate {table} --folds 2 --epochs 1 -m AP --loss nDCG",
        "--split": f"cross-validate {f'--split {table},{test} ' * 2} --epochs 1 -m AP --loss nDCG --loss AP",
        "pack": f"pack {table} {table}.arrow",
    }[command]
    shown = program(arguments, warns=f"note: {table}: {NOTE}")
    assert shown.count(f"features: line, price\n{LEFT_OUT}") == 1
    shown = program(arguments, "--features", "price,position", warns="")
    assert "features: price, position\n" in shown
    assert "left out" not in shown


@pytest.mark.parametrize("features", ["", "--features price,position"])
def test_files_with_the_same_columns_are_scored_and_evaluated(features: str, table: Path, program: Program) -> None:
    model, out = table.with_name("model.safetensors"), table.with_name("run.csv")
    program(f"train {table} --epochs 1 {features} --out {model}")
    program(f"score {model} {table} --out {out}", warns="")
    program(f"evaluate {out} {table} -m AP", warns="")
    ranker = rb.load(model)
    lists = rb.read_lists(table, features=ranker.feature_names)
    np.testing.assert_allclose(ranker.score_lists(lists).scores, rb.read_run(out).scores)
    if features:
        with pytest.raises(DataError, match=r"no feature 'position'.*read_lists\(source, features=ranker.feature_nam"):
            ranker.score_lists(replace(lists, features=lists.features[:, :1], feature_names=["price"]))
