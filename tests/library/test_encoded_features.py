"""Tables of a search log: text labels, missing values, categories and weights, read, trained on, kept and scored."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import rankbound as rb
from rankbound.errors import ColumnWarning, DataError
from rankbound.training.inputs import MOST_CATEGORIES, Encoding
from rankbound.training.models import ScaledFeatures, Scaling
from rankbound.training.trainer import Part, joined
from tests.library.conftest import Program
from tests.library.refusals import problems, refusals
from tests.library.test_ranker import value

GRADES = {"bad": 0, "fair": 1, "good": 2}
TOPICS, ITEMS = 30, 8
N = TOPICS * ITEMS
QUICK: dict[str, Any] = {"epochs": 15, "learning_rate": 0.1, "metric": "nDCG"}


def log(seed: int = 0) -> pl.DataFrame:
    """A log whose labels follow the brand and the price, which is missing where it would say nothing."""
    random = np.random.default_rng(seed)
    price, brand = random.normal(size=N), random.choice(["acme", "bolt", "core"], N)
    liking = price + 2 * (brand == "acme") - 2 * (brand == "core") + 0.2 * random.normal(size=N)
    return pl.DataFrame(
        {
            "query": [f"q{seed}.{topic}" for topic in np.repeat(range(TOPICS), ITEMS)],
            "item": [f"d{row}" for row in range(N)],
            "label": np.array([*GRADES])[np.digitize(liking, [0.5, 1.5])],
            "price": [None if lacks else value for lacks, value in zip(random.random(N) < 0.2, price, strict=True)],
            "brand": [None if lacks else value for lacks, value in zip(random.random(N) < 0.1, brand, strict=True)],
            "region": random.integers(1, 4, N),
            "stock": random.random(N) < 0.5,
            "position": np.tile(np.arange(ITEMS), TOPICS),
            "weight": random.integers(1, 4, N) / 2,
            "traffic": np.repeat(random.integers(1, 5, TOPICS), ITEMS),
        }
    )


COLUMNS: dict[str, Any] = {
    "topic": "query",
    "relevance": "label",
    "grades": GRADES,
    "weights": "weight",
    "list_weights": "traffic",
    "categorical": ["brand", "region"],
    "exclude": ["position"],
    "missing_features": "keep",
}
FEATURES = ["price", "brand", "region", "stock"]


def lists_of(frame: Any = None, **changes: Any) -> rb.JudgedLists:
    return rb.read_lists(log() if frame is None else frame, **COLUMNS | changes)


@cache
def trained(missing: str = "indicator", **recipe: Any) -> rb.Ranker:
    return rb.train_ranker(lists_of(), missing_features=missing, **QUICK | recipe)


def as_file(suffix: str, frame: pl.DataFrame, folder: Path) -> Path:
    path = folder / f"log{suffix}"
    frame.write_parquet(path) if suffix == ".parquet" else frame.write_csv(path)
    return path


SOURCES: dict[str, Callable[[pl.DataFrame, Path], Any]] = {
    "polars": lambda frame, folder: frame,
    "lazy": lambda frame, folder: frame.lazy(),
    "pandas": lambda frame, folder: frame.to_pandas(),
    "pandas' categories": lambda frame, folder: frame.to_pandas().astype({"brand": "category", "label": "category"}),
    "arrow": lambda frame, folder: frame.to_arrow(),
    "columns": lambda frame, folder: frame.to_dict(as_series=False),
    "records": lambda frame, folder: frame.to_dicts(),
    "csv": partial(as_file, ".csv"),
    "parquet": partial(as_file, ".parquet"),
}


# Reading
@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_reads_and_is_scored_alike(kind: str, tmp_path: Path) -> None:
    frame, ranker = log(), trained()
    source = SOURCES[kind](frame, tmp_path)
    lists = lists_of(source)
    assert list(lists.feature_names) == FEATURES
    assert lists.categories == {"brand": ["acme", "bolt", "core"], "region": ["1", "2", "3"]}
    assert lists.relevance.tolist() == [GRADES[label] for label in frame["label"]]
    assert lists.weights.tolist() == frame["weight"].to_list()
    assert lists.list_weights.tolist() == frame["traffic"][::ITEMS].to_list()
    assert np.isnan(lists.features).sum() == frame["price"].null_count() + frame["brand"].null_count()
    expected = ranker.score(lists_of())
    np.testing.assert_array_equal(ranker.score(source), expected)
    run = ranker.score_lists(source, topic="query")
    np.testing.assert_array_equal(run.scores, expected)
    assert (list(run.topics), list(run.items)[:2]) == (list(lists.topics), ["d0", "d1"])


def test_rows_keep_their_order_topics_are_gathered_and_weights_follow() -> None:
    frame = log().with_row_index("row").sample(fraction=1, shuffle=True, seed=1)
    mixed, ranker = lists_of(frame.drop("row")), trained()
    # The rows of a shuffled frame, gathered by topic, carry their own weights.
    own = dict(zip(frame["item"], frame["weight"], strict=True))
    assert mixed.weights.tolist() == [own[item] for item in mixed.items]
    traffic = dict(zip(frame["query"], frame["traffic"], strict=True))
    assert mixed.list_weights.tolist() == [traffic[topic] for topic in mixed.topics]
    np.testing.assert_allclose(ranker.score(frame), ranker.score(log())[frame["row"].to_numpy()], rtol=1e-5)


@pytest.mark.parametrize(
    ("grades", "expected"),
    [
        (GRADES, [0, 1, 2, 2]),
        (["good", "fair", "bad"], [2, 1, 0, 0]),
        ({"bad": 0, "fair": 0.5, "good": 3}, [0, 0.5, 3, 3]),
    ],
)
def test_grades_name_labels(grades: Any, expected: list[float], tmp_path: Path) -> None:
    frame = pl.DataFrame({"topic": ["a"] * 4, "item": [*"wxyz"], "relevance": ["bad", "fair", "good", "good"]})
    path = as_file(".csv", frame.with_columns(f=pl.Series([0.5, 1, 2, 3])), tmp_path)
    for source in (path, frame, frame.cast({"relevance": pl.Categorical})):
        assert rb.read_qrels(source, grades=grades).relevance.tolist() == expected
    assert rb.read_lists(path, grades=grades).relevance.tolist() == expected
    if all(value == int(value) for value in expected):
        rb.pack_lists(path, tmp_path / "x.arrow", grades=grades)
        assert rb.read_lists(tmp_path / "x.arrow").relevance.tolist() == expected
    numbered = frame.with_columns(relevance=pl.Series([1.0, 2.0, 3.0, 3.0]))
    assert rb.read_qrels(numbered, grades={1: 0, 2: 1, 3: 2}).relevance.tolist() == [0, 1, 2, 2]


SMALL = pl.DataFrame({"topic": ["a", "a", "b"], "item": [*"xyz"], "relevance": [1, 0, 2], "f": [0.5, 1, 2]})


def small(**columns: Any) -> pl.DataFrame:
    return SMALL.with_columns(**{name: pl.Series(values, strict=False) for name, values in columns.items()})


KEPT = {"missing_features": "keep"}
ROWS = {"topic": [1, 1], "relevance": [0, 1], "f": [1, "x"]}
test_what_has_two_meanings_is_refused_with_the_way = refusals(
    [
        *(((small(**columns), options), message) for columns, options, message in problems("two meanings of a table")),
        ((SMALL.drop("relevance"), {}), "no column 'relevance'.*labelled=False; if every row .* column of ones"),
        ((pd.DataFrame(ROWS), {}), "'f' holds values of several types, such as int 1 in row 0 and str 'x' in row 1; e"),
        ((ROWS, {}), "column 'f' holds values of several types"),
    ],
    lambda given: rb.read_lists(given[0], **given[1]),
)


def test_text_is_a_feature_where_it_is_named() -> None:
    """By `categorical`, by a type, or as a chosen feature; else it is left out, with a warning that says how."""
    frame = small(brand=["u", "v", "u"])
    with pytest.warns(ColumnWarning, match=r"brand \(text\); .*name text of categories by `categorical`, or leave"):
        assert rb.read_lists(frame).feature_names == ["f"]
    assert rb.read_lists(frame, exclude=["brand"]).left_out == {}
    expected = {"brand": ["u", "v"]}
    assert rb.read_lists(frame, categorical=["brand"]).categories == expected
    assert rb.read_lists(frame, features=["brand"]).categories == expected
    assert rb.read_lists(frame.cast({"brand": pl.Categorical})).categories == expected
    assert rb.read_lists(frame.to_pandas().astype({"brand": "category"})).categories == expected
    floats = small(brand=[1.0, None, 3.0])
    assert rb.read_lists(floats, categorical=["brand"], **KEPT).categories == {"brand": ["1", "3"]}


@pytest.mark.parametrize("option", ["grades", "weights", "list_weights", "exclude", "categorical"])
def test_options_of_tables_are_refused_for_other_files(option: str, tmp_path: Path) -> None:
    path = tmp_path / "lists.txt"
    path.write_text("1 qid:1 1:0.5\n0 qid:1 1:0.2\n")
    ranker = rb.train_ranker(rb.read_lists(path), epochs=1, validation_share=0)
    np.testing.assert_array_equal(ranker.score(path), ranker.score(np.float32([[0.5], [0.2]])))
    value = "w" if "weights" in option else ["w"]
    with pytest.raises(DataError, match=f"^{option}: found .* is no table with a row per item"):
        rb.read_lists(path, **{option: value})
    assert rb.read_lists(path, missing_features="keep").features.shape == (2, 1)


@pytest.mark.parametrize("name", ["qrels.txt", "qrels.tsv", "qrels.json", ""])
def test_grades_are_of_tables_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / "qrels.json").write_text('{"q": {"d": 1}}')
    for text in ("qrels.txt", "qrels.tsv"):
        (tmp_path / text).write_text("q\t0\td\t1\n")
    source = tmp_path / name if name else {"q": {"d": 1}}
    assert rb.read_qrels(source).relevance.tolist() == [1]
    with pytest.raises(DataError, match="grades: found beside judgements that are no table of rows"):
        rb.read_qrels(source, grades={"1": 2})
    (tmp_path / "qrels.jsonl").write_text('{"topic": "q", "item": "d", "label": "good"}\n')
    assert rb.read_qrels(tmp_path / "qrels.jsonl", grades=["bad", "good"]).relevance.tolist() == [1]


# Encoding, written out
NAN = float("nan")
RAW = torch.tensor([[1.0, 0], [NAN, 0], [5.0, 2], [3.0, NAN], [NAN, 2], [9.0, 1]])
OWN = rb.JudgedLists(
    topics=["q"],
    items=[*"abcdef"],
    relevance=[0, 1, 0, 1, 0, 1],
    offsets=[0, 6],
    features=RAW.numpy(),
    feature_names=["x", "c"],
    categories={"c": ["u", "v", "w"]},
)
# x, c = u, c = w, c is another one; 9 of x is of a row that is not trained on, and so is the only v.
MEANS = (3.0, 2 / 4, 2 / 4)


@pytest.mark.parametrize(
    ("missing", "inputs", "filled"),
    [("mean", [], MEANS), ("zero", [], (0, 0, 0)), ("indicator", ["x is missing", "c is missing"], MEANS)],
)
def test_inputs_are_as_defined(
    missing: str, inputs: list[str], filled: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rankbound.training.inputs.ROWS_AT_ONCE", 2)
    encoding = Encoding.fitted(missing, OWN, RAW, torch.arange(5))
    assert encoding.inputs == ["x", "c = u", "c = w", *inputs]
    encode = encoding.encoder(OWN.categories)
    assert encode is not None
    x, u, w = filled
    expected = [[1, 1, 0, 0, 0], [x, 1, 0, 1, 0], [5, 0, 1, 0, 0], [3, u, w, 0, 1], [x, 0, 1, 1, 0], [9, 0, 0, 0, 0]]
    torch.testing.assert_close(encode(RAW), torch.tensor(expected)[:, : 3 + len(inputs)].float())
    # Other lists number their categories differently, and have others.
    encode = encoding.encoder({"c": ["?", "w"]})
    assert encode is not None
    assert encode(torch.tensor([[0.0, 0], [0, 1]]))[:, :3].tolist() == [[0, 0, 0], [0, 0, 1]]


def test_rare_categories_share_an_input_with_unknown_ones() -> None:
    encoding = Encoding.fitted("mean", OWN, RAW, torch.arange(6))
    assert encoding.inputs == ["x", "c = u", "c = w", "c = (others)"]
    encode = encoding.encoder({"c": ["v", "new"]})
    assert encode is not None
    assert encode(torch.tensor([[0.0, 0], [0, 1], [0, NAN]]))[:, 1:].tolist() == [
        [0, 0, 1],
        [0, 0, 1],
        pytest.approx([2 / 5, 2 / 5, 1 / 5]),
    ]


@pytest.mark.parametrize("scale", ["standard", "query", "none"])
def test_inputs_are_scaled_as_other_features_are(scale: str) -> None:
    encoding, lists = Encoding.fitted("indicator", OWN, RAW, torch.arange(6)), rb.Lists(torch.tensor([0, 2, 6]))
    encode = encoding.encoder(OWN.categories)
    assert encode is not None
    direct, inputs = Scaling.fitted(scale, RAW, None, encode), encode(RAW)
    expected = ScaledFeatures(Scaling.fitted(scale, inputs), inputs, lists).of_rows(slice(None))
    torch.testing.assert_close(ScaledFeatures(direct, RAW, lists, encode).of_rows(slice(None)), expected)
    rows = torch.tensor([5, 0, 3])
    torch.testing.assert_close(ScaledFeatures(direct, RAW, lists, encode).of_rows(rows), expected[rows])


# Training
@pytest.mark.parametrize("missing", ["mean", "zero", "indicator"])
@pytest.mark.parametrize("scale", ["standard", "query"])
def test_what_brands_and_prices_say_is_learned(missing: str, scale: str) -> None:
    ranker, test = trained(missing, scale=scale), lists_of(log(1))
    without = rb.train_ranker(lists_of(features=["stock"], categorical=[]), scale=scale, **QUICK)
    assert value(ranker, test) > 0.9 > value(without, test)


def test_a_fold_is_encoded_by_its_training_topics_alone() -> None:
    """A test list cannot move a mean, and its own categories are unknown."""
    frame = log()
    folds = rb.cross_validate(lists_of(frame), 2, missing_features="mean", epochs=1).folds
    one = frame["query"].is_in(folds[0])
    brand = pl.when(one).then(pl.lit("only here")).otherwise("brand").alias("brand")
    odd = frame.with_columns(brand, price=pl.when(one).then(1000).otherwise("price"))
    tested = rb.cross_validate(lists_of(odd), 2, missing_features="mean", epochs=2)
    encoding = tested.rankers[0].encoding
    assert "only here" not in encoding.categories["brand"]
    assert abs(float(encoding.fill[0])) < 1
    assert tested.rankers[1].encoding.categories["brand"] == ["only here"]
    # The ranker of a fold is that of its training lists, weights and all.
    alone = rb.train_ranker(lists_of(odd.filter(~one)), missing_features="mean", epochs=2)
    np.testing.assert_array_equal(tested.rankers[0].score(frame), alone.score(frame))


@pytest.mark.parametrize("validation", ["a share", "lists"])
def test_validation_topics_are_not_fitted(validation: str) -> None:
    lists, price = lists_of(), lists_of().features[:, 0]
    far = log(1).with_columns(price=pl.lit(1000.0), brand=pl.lit("other"))
    ranker = {
        "a share": lambda: rb.train_ranker(lists, missing_features="mean", epochs=1, validation_share=0.5),
        "lists": lambda: rb.train_ranker(lists, lists_of(far), missing_features="mean", epochs=1),
    }[validation]()
    assert (float(ranker.encoding.fill[0]) == pytest.approx(np.nanmean(price), abs=1e-6)) == (validation == "lists")
    assert ranker.encoding.categories["brand"] == ["acme", "bolt", "core"]


def plain(rows: Any) -> Any:
    return rb.train_ranker(lists_of(features=["stock", "region"], categorical=[]), epochs=1).score(rows)


MANY = [f"c{row // 2}" for row in range(2 * MOST_CATEGORIES + 2)]
OF_MANY = pl.DataFrame({"topic": MANY, "relevance": [0, 1] * (len(MANY) // 2), "c": MANY})
test_missing_values_and_categories_that_do_not_fit_are_refused = refusals(
    [
        (lambda: rb.train_ranker(lists_of(features=["price"], categorical=[])), "'price', .*missing_features='mean'"),
        (lambda: plain(np.float32([[0, 1], [1, np.nan]])), "nan at item 1, feature 'region', .*; a ranker that"),
        (lambda: plain(pl.DataFrame({"stock": [True, False], "region": [1, None]})), "row 1: column 'region' is empty"),
        (lambda: trained().score(lists_of().features), "found ndarray, .* the features brand, region have categories"),
        (lambda: trained().score(lists_of(categorical=["brand"])), r"and held categories .*=\['brand', 'region'\]"),
        (lambda: trained().score(log().with_columns(price=pl.lit("cheap"))), "'cheap', expected a finite number"),
        (lambda: trained().score(log().drop("brand")), "the table has no column 'brand'"),
        (lambda: trained().score_lists(lists_of(), topic="query"), "topic: found beside judged lists"),
        (
            lambda: rb.train_ranker(rb.read_lists(OF_MANY, categorical=["c"]), validation_share=0),
            "has 1001 categories .* at most 1000",
        ),
    ]
)


# Weights
@pytest.mark.parametrize("as_column", [True, False])
def test_list_weights_are_repeated_lists(as_column: bool) -> None:
    """A list of weight 2 pulls as two lists of weight 1: gradients of whole batches agree."""
    recipe: dict[str, Any] = {"epochs": 30, "batch_size": 100, "validation_share": 0, "learning_rate": 0.05}
    lists = lists_of(features=["region", "stock"], categorical=[], weights=None, list_weights=None)
    doubled = np.arange(len(lists)) % 3 == 0
    given = {"list_weights": np.where(doubled, 2.0, 1.0)}
    column, argument = (given, {}) if as_column else ({}, given)
    weighted = rb.train_ranker(replace(lists, **column), **argument, scale="none", **recipe)
    frame = log().with_columns(weight=pl.lit(1.0))
    again = frame.filter(pl.col("query").is_in(np.array(lists.topics)[doubled].tolist()))
    again = again.with_columns(query=pl.col("query") + "b")
    other = lists_of(pl.concat([frame, again]), features=["region", "stock"], categorical=[], list_weights=None)
    repeated = rb.train_ranker(replace(other, weights=None), scale="none", **recipe)
    # The bias moves all scores alike: its gradient is noise.
    own, expected = (next(ranker.model.parameters()) for ranker in (weighted, repeated))
    torch.testing.assert_close(own, expected, rtol=1e-3, atol=1e-4)
    equal = next(rb.train_ranker(lists, scale="none", **recipe).model.parameters())
    assert float((own - equal).abs().max().detach()) > 1e-2


def test_item_weights_reach_the_loss() -> None:
    """Items of weight 0 teach nothing: labels that contradict the rest do no harm."""
    frame = log().with_columns(pl.col("price").fill_null(0))
    broken = pl.col("price") < -0.2
    flipped = frame.with_columns(
        label=pl.when(broken).then(pl.lit("good")).otherwise("label"), weight=pl.when(broken).then(0).otherwise(1.0)
    )
    recipe = QUICK | {"loss": "DCG", "validation_share": 0}
    columns = {"features": ["price", "brand"], "categorical": ["brand"], "list_weights": None}
    clean, own = lists_of(log(1), **columns), lists_of(flipped, **columns)
    rankers = (rb.train_ranker(one, missing_features="mean", **recipe) for one in (own, replace(own, weights=None)))
    weighted, unweighted = (value(ranker, clean) for ranker in rankers)
    assert weighted > unweighted + 0.1


def test_weights_stay_with_their_items_and_lists() -> None:
    part = Part([*"ab"], torch.arange(2), torch.arange(5), torch.ones(5), rb.Lists(torch.tensor([0, 2, 5])))
    first = replace(part, list_weights=torch.tensor([2.0, 3.0]))
    second = replace(part, weights=torch.arange(5.0))
    both = joined([first, second])
    assert both.list_weights is not None
    assert both.weights is not None
    assert both.list_weights.tolist() == [2, 3, 1, 1]
    assert both.weights.tolist() == [1, 1, 1, 1, 1, 0, 1, 2, 3, 4]
    for one in (both.batch(torch.tensor([3, 0])), *both.batch(torch.tensor([1, 3, 0])).split([1, 2])[1:]):
        assert one.list_weights is not None
        assert one.weights is not None
        assert (one.list_weights.tolist(), one.weights.tolist()) == ([1, 2], [2, 3, 4, 1, 1])


def test_a_setting_that_there_is_not_is_named_in_the_callers_words() -> None:
    for call in (rb.train_ranker, rb.cross_validate, lambda lists, **given: rb.cross_validate_splits([], **given)):
        with pytest.raises(TypeError, match=r"^missing: found a setting that .*; did you mean missing_features\?"):
            call(lists_of(), missing="mean")


test_weights_that_cannot_be_are_refused = refusals(
    [
        (lambda: rb.train_ranker(lists_of(), weights="weight"), r"weights: found the text 'weight', .*read_lists\(so"),
        (lambda: rb.train_ranker(lists_of(), weights=[1.0]), "weights: found shape|weights: found 1|expected"),
        (lambda: replace(lists_of(), weights=[-1.0] * N), "weights: found -1.0, expected finite numbers from 0"),
        (lambda: replace(lists_of(), list_weights=[NAN] * TOPICS), "list_weights: found nan, expected finite"),
        (lambda: trained(loss="AP"), "weights: found weights of items for AP"),
        (lambda: trained(model="matrix-factorization"), "weights: found weights beside the model matrix-fact"),
        (lambda: rb.cross_validate(lists_of(), model="matrix-factorization", negatives=1), "weights: found weights b"),
        *((lambda name=name, n=n: rb.train_ranker(lists_of(), **{name: [0.0] * n}, missing_features="zero"),
           f"^{name}: all those of the informative training topics are 0")
          for name, n in (("weights", N), ("list_weights", TOPICS))),
    ],
)  # fmt: skip


# Files
def test_what_a_service_tells_of_its_model(tmp_path: Path) -> None:
    ranker = trained(epochs=2)
    ranker.save(tmp_path / "m.safetensors")
    info = rb.load(tmp_path / "m.safetensors").info
    assert info == ranker.info == json.loads(json.dumps(info))
    # Only encoded rankers need a new reader.
    plain = rb.train_ranker(rb.read_lists(SMALL), epochs=1, validation_share=0)
    assert (info["format"], plain.info["format"]) == ("ranker/2", "ranker/1")
    assert info["features"] == FEATURES
    assert info["categories"] == {"brand": 3, "region": 3}
    assert info["training"] | {"digest": None} == {"topics": 24, "items": 192, "digest": None}
    assert info["versions"]["rankbound"] == rb.__version__
    digests = {
        name: rb.train_ranker(lists, missing_features="indicator", epochs=1).info["training"]["digest"]
        for name, lists in {
            "same": lists_of(),
            "label": replace(
                lists_of(), relevance=np.append(lists_of().relevance[:-1], 1 - lists_of().relevance[-1:] % 2)
            ),
            "feature": replace(lists_of(), features=np.nan_to_num(lists_of().features)),
            "weights": replace(lists_of(), weights=None),
            "names": replace(lists_of(), topics=[f"{topic}!" for topic in lists_of().topics]),
        }.items()
    }
    assert digests["same"] == info["training"]["digest"]
    assert len({*digests.values()}) == 5


# The command line
def test_commands_take_the_same_columns(tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    as_file(".parquet", log(), tmp_path)
    log(1).drop("weight", "traffic", "position").write_csv("vali.csv")
    log(2).drop("label").write_csv("new.csv")
    columns = (
        "--topic query --relevance label --grades bad,fair,good --weights weight --list-weights traffic "
        "--categorical brand,region --exclude position --missing-features indicator --epochs 10 --learning-rate 0.2"
    )
    printed = program(f"train log.parquet {columns} --validation vali.csv --out m.safetensors")
    assert "features: price, brand, region, stock\ntrained on 30 topics" in printed
    assert f"nDCG@10 on {TOPICS} validation topics: 0.9" in printed
    program("score m.safetensors new.csv --topic query --out new_run.csv")
    assert len(pl.read_csv("new_run.csv")) == N
    program("score m.safetensors vali.csv --topic query --out run.csv")
    labels = "--topic query --relevance label --grades bad=0,fair=1,good=3"
    assert "nDCG" in program(f"evaluate run.csv vali.csv {labels} -m nDCG")
    assert "30 topics" in program(f"cross-validate log.parquet --folds 3 -m nDCG {columns}")
    missing = program("train log.parquet --topic query --relevance label --out x.safetensors", status=2)
    assert "holds 'bad'" in missing or "--grades bad,fair,good" in missing
