"""Input that a newcomer tries: what must stand in the message."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import rankbound as rb
from rankbound.cli import main
from rankbound.errors import ColumnWarning, DataError
from rankbound.metrics.cumulative_gain import NDCG

SCORES, RELEVANCE, OFFSETS = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([1, 0, 0]), torch.tensor([0, 3])
FRAME = pl.DataFrame({"topic": [1, 1, 2, 2], "relevance": [0, 1, 1, 0], "f": [0.1, 0.2, 0.5, 0.4]})

CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "a loss of a NumPy array": (
        lambda: rb.loss("nDCG")(np.zeros(3), RELEVANCE, OFFSETS),  # type: ignore[arg-type]
        "scores: found ndarray, expected a torch.Tensor",
    ),
    "a loss of a list": (
        lambda: rb.loss("RankNet")([0.1, 0.2, 0.3], [1, 0, 0], [0, 3]),  # type: ignore[arg-type]
        "scores: found list, expected a torch.Tensor",
    ),
    "a loss of whole numbers": (
        lambda: rb.loss("nDCG")(torch.tensor([1, 2, 3]), RELEVANCE, OFFSETS),
        "scores: found dtype torch.int64, expected floating point",
    ),
    "a loss of padded scores": (
        lambda: rb.loss("nDCG")(SCORES[None], RELEVANCE[None], OFFSETS),
        r"scores: found shape \(1, 3\), expected a flat \(n_items,\) array",
    ),
    "sizes instead of offsets": (
        lambda: rb.loss("nDCG")(SCORES, RELEVANCE, torch.tensor([3])),
        r"offsets: found 3 .. 3, expected 0 .. 3 \(the number of items\)",
    ),
    "grades below 0": (lambda: rb.metric("nDCG")(SCORES, -RELEVANCE, OFFSETS), "relevance: found -1.0, expected"),
    "a temperature below 0": (
        lambda: rb.SmoothLoss("nDCG", temperature=-1),
        "temperature: found -1, expected a number above 0",
    ),
    "a temperature that a model would learn": (
        lambda: rb.loss("nDCG", temperature=torch.nn.Parameter(torch.tensor(0.5))),  # type: ignore[arg-type]
        "temperature: found Parameter",
    ),
    "a temperature as text": (
        lambda: rb.SmoothLoss("nDCG", temperature="0.5"),  # type: ignore[arg-type]
        "temperature: found 0.5, expected a number above 0",
    ),
    "a name of trec_eval": (
        lambda: rb.metric("ndcg_cut_10"),
        r"unknown name 'ndcg_cut_10'\. Did you mean nDCG\(gain=linear\)@10, which is trec_eval's ndcg_cut_10\?",
    ),
    "another name with an underscore": (
        lambda: rb.metric("num_ret"),
        "unknown name 'num_ret'; known are AP, infAP, Bpref",
    ),
    "padded scores": (
        lambda: rb.loss("nDCG")(torch.zeros(2, 3), torch.zeros(2, 3), [0, 3, 6]),
        r"scores: found shape \(2, 3\), expected a flat \(n_items,\) array; rankbound\.from_padded returns one",
    ),
    "a cut-off between two ranks": (
        lambda: NDCG(cutoff=2.5),  # type: ignore[arg-type]
        "metric nDCG: found cut-off 2.5, expected a whole number",
    ),
    "a temperature of 0": (lambda: rb.loss("nDCG", temperature=0), "temperature: found 0, expected"),
    "an unknown summation": (lambda: rb.SmoothLoss("nDCG", method="fast"), "method: found 'fast', expected one of"),
    "no loss": (lambda: rb.loss(None), "loss: found None, expected a text such as nDCG@10"),  # type: ignore[arg-type]
    "no metric": (lambda: rb.metric(None), "metric: found None, expected a text such as"),  # type: ignore[arg-type]
    "a number for a metric": (lambda: rb.metric(3), "metric: found 3, expected a text"),  # type: ignore[arg-type]
    "a metric without the number of its cut-off": (lambda: rb.metric("nDCG@"), "expected a text such as nDCG@10"),
    "a cut-off of 0": (lambda: rb.metric("nDCG@0"), "found cut-off 0, expected at least 1"),
    "a metric in other letters": (lambda: rb.metric("NDCG@10"), "Did you mean nDCG?"),
    "a mean's name": (lambda: rb.metric("map@5"), "Did you mean AP, whose mean over lists is MAP?"),
    "another library's name": (lambda: rb.metric("AUC"), "Did you mean PairAccuracy?"),
    "a misspelt parameter": (lambda: rb.metric("nDCG(gains=linear)"), "unknown parameter 'gains'; nDCG takes: gain"),
    "a loss in other letters": (lambda: rb.loss("lambdarank"), "Did you mean LambdaRank?"),
    "a loss that is not built": (lambda: rb.loss("NeuralNDCG"), "Did you mean nDCG, whose smooth ranks take linear"),
    "a booster's name": (lambda: rb.loss("LambdaMART"), "LambdaRank, which boosts trees"),
    "a bound without its hyphen": (lambda: rb.loss("nDCG", "minmax"), "Did you mean min-max?"),
    "a bound for a loss of pairs": (lambda: rb.loss("RankNet", "min-max"), "bounds are for losses of metrics"),
    "a trainer's file": (
        lambda: rb.train_ranker("lists.csv"),  # type: ignore[arg-type]
        "lists: found str, expected judged lists, which rankbound.read_lists returns",
    ),
    "a trainer's frame": (
        lambda: rb.train_ranker(FRAME),  # type: ignore[arg-type]
        "lists: found DataFrame, expected judged lists",
    ),
    "a validation frame": (
        lambda: rb.train_ranker(rb.read_lists(FRAME), FRAME),  # type: ignore[arg-type]
        "lists: found DataFrame, expected judged lists",
    ),
    "a trainer's loss as an object": (
        lambda: rb.train_ranker(rb.read_lists(FRAME), loss=rb.loss("nDCG")),
        r"loss: found SmoothLoss\(nDCG.*\), expected a text",
    ),
    "an unknown convention": (lambda: rb.metric("map", names="trec"), "names: found 'trec', expected one of"),
    "values below 0 as weights": (
        lambda: rb.loss("nDCG")(SCORES, RELEVANCE, OFFSETS, weights=-torch.ones(3)),
        "weights: found -1.0 at 0, expected finite numbers from 0",
    ),
    "weights of lists for items": (
        lambda: rb.loss("nDCG")(SCORES, RELEVANCE, OFFSETS, weights=torch.ones(1)),
        "weights: found 1 values, expected 3",
    ),
    "a run of other topics": (
        lambda: rb.evaluate_run({"q1": {"d": 1.0}}, {"q2": {"d": 1}}, "nDCG"),
        "no topic in common: the run has 'q1', the qrels have 'q2'",
    ),
    "words as scores": (
        lambda: rb.evaluate_run({"q": {"d": "high"}}, {"q": {"d": 1}}, "nDCG"),
        "topic 'q', item 'd': found 'high', expected a number",
    ),
    "a file that is not there": (
        lambda: rb.evaluate_run("no/run.txt", {"q": {"d": 1}}, "nDCG"),
        "no/run.txt: cannot be read",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_message_says_what_was_found_and_expected(case: str) -> None:
    attempt, message = CASES[case]
    with pytest.raises((ValueError, DataError), match=message):
        attempt()


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="device: found cuda, but PyTorch finds no GPU here; expected auto or cpu"):
        rb.train_ranker(rb.read_lists(FRAME), device="cuda")


def test_texts_evaluate_like_metrics() -> None:
    by_text = rb.evaluate(["nDCG@2", "RR"], SCORES, RELEVANCE, OFFSETS)
    by_metric = rb.evaluate([rb.metric("nDCG@2"), rb.metric("RR")], SCORES, RELEVANCE, OFFSETS)
    assert list(by_text) == list(by_metric) == ["nDCG@2", "RR"]
    assert all(torch.equal(by_text[name], by_metric[name]) for name in by_text)
    assert torch.equal(rb.evaluate("RR", SCORES, RELEVANCE, OFFSETS)["RR"], by_text["RR"])


@pytest.mark.parametrize(("name", "ours"), [("ApproxNDCG@2", "nDCG@2"), ("ApproxMRR", "RR"), ("BPR", "RankNet")])
def test_other_names_of_losses(name: str, ours: str) -> None:
    assert rb.loss(name).text == ours
    assert torch.equal(rb.loss(name)(SCORES, RELEVANCE, OFFSETS), rb.loss(ours)(SCORES, RELEVANCE, OFFSETS))


LISTS = "topic,item,relevance,f\n1,a,0,0.5\n1,b,1,1.5\n"
RUN = "topic,item,score\n1,a,0.5\n1,b,1.5\n"
COMMA = "expected a finite number with a decimal point"

TABLES: dict[str, tuple[str, Callable[[str], bytes], str]] = {
    "semicolons": (
        "x.csv",
        lambda text: text.replace(",", ";").encode(),
        r"x.csv, line 1: found semicolons between the columns \('topic;item;.*'\), expected commas: write the file",
    ),
    "semicolons and decimal commas": (
        "x.csv",
        lambda text: text.replace(",", ";").replace(".", ",").encode(),
        "x.csv, line 1: found semicolons between the columns .*with commas and decimal points",
    ),
    "tabs": (
        "x.csv",
        lambda text: text.replace(",", "\t").encode(),
        r"x.csv, line 1: found tabs between the columns .*, expected commas: .*, or name it \.tsv",
    ),
    "commas in a file of tabs": (
        "x.tsv",
        str.encode,
        r"x.tsv, line 1: found commas between the columns .*, expected tabs: .*, or name it \.csv",
    ),
    "double colons": (
        "x.csv",
        lambda text: text.replace(",", "::").encode(),
        r"x.csv, line 1: found double colons between the columns \('topic::item::.*'\), expected commas: write",
    ),
    "spaces": (
        "x.csv",
        lambda text: text.replace(",", " ").encode(),
        r"x.csv, line 1: found spaces between the columns \('topic item .*'\), expected commas: write the file",
    ),
    "decimal commas": (
        "x.csv",
        lambda text: text.replace(".", ",").encode(),
        r"x.csv, line 2: found \d fields, expected \d as in the first line: write numbers with a decimal point",
    ),
    "decimal commas in quotes": (
        "x.csv",
        lambda text: text.replace("0.5", '"0,5"').replace("1.5", '"1,5"').encode(),
        f"x.csv, line 2: column '(f|score)' holds '0,5', {COMMA}",
    ),
    "one decimal comma in quotes": (
        "x.csv",
        lambda text: text.replace("1.5", '"1,5"').encode(),
        f"x.csv, line 3: column '(f|score)' holds '1,5', {COMMA}",
    ),
    "UTF-16": (
        "x.csv",
        lambda text: text.encode("utf-16"),
        "x.csv: found text in UTF-16, expected UTF-8: save the file",
    ),
    "UTF-16 without a byte order mark": (
        "x.csv",
        lambda text: text.encode("utf-16-le"),
        "x.csv: found text in UTF-16, expected UTF-8: .* iconv",
    ),
    "UTF-16 packed": (
        "x.csv.gz",
        lambda text: gzip.compress(text.encode("utf-16")),
        "x.csv.gz: found text in UTF-16, expected UTF-8",
    ),
    "UTF-16 in other files": (
        "x.txt",
        lambda text: text.encode("utf-16"),
        "x.txt: found text in UTF-16, expected UTF-8",
    ),
    "Latin-1": (
        "x.csv",
        lambda text: text.replace(",b,", ",\xe9,").encode("latin-1"),
        "x.csv, line 3: found the byte 0xe9, expected text in UTF-8: save the file as UTF-8",
    ),
    "spaces after the commas": (
        "x.csv",
        lambda text: text.replace(",", ", ").encode(),
        r"x.csv, line 1: found spaces after the commas \(' item'\), expected none: remove them",
    ),
    "spaces after the commas of the rows": (
        "x.csv",
        lambda text: "\n".join(
            [text.split("\n")[0], *(row.replace(",", ", ") for row in text.split("\n")[1:])]
        ).encode(),
        "x.csv, line 2: column 'item' holds ' a', and begins with a space in all lines; expected no spaces",
    ),
    "a header alone": (
        "x.csv",
        lambda text: text.split("\n")[0].encode(),
        "x.csv: there are no rows in it below the names of the columns; expected a row for each item",
    ),
    "a row that is too long": (
        "x.csv",
        lambda text: f"{text}2,c,1,1,1,1\n".encode(),
        r"x.csv, line 4: found 6 fields, expected \d as in the first line: .*put names with commas in double quotes",
    ),
    "an open quote": (
        "x.csv",
        lambda text: f'{text}2,"c,1,1\n2,d,1,1\n'.encode(),
        "x.csv, line 4: found a double quote that nothing closes",
    ),
    "nothing": ("x.csv", lambda text: b"", r"x.csv: not a readable CSV file \(empty CSV\)"),
}


@pytest.mark.parametrize("case", TABLES)
@pytest.mark.parametrize("read", [rb.read_lists, rb.read_qrels, rb.read_run], ids=lambda read: read.__name__)
def test_other_layouts_of_tables_are_named(case: str, read: Callable[[Path], Any], tmp_path: Path) -> None:
    if read is rb.read_qrels and case.endswith("in quotes"):
        pytest.skip("judgements are read without the features")
    name, written, message = TABLES[case]
    (tmp_path / name).write_bytes(written(RUN if read is rb.read_run else LISTS))
    with pytest.raises(DataError, match=message):
        read(tmp_path / name)


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_the_command_line_names_the_layout(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.csv"
    file.write_text(RUN.replace(",", ";") if command == "evaluate" else LISTS.replace(",", ";"))
    rest = ["--out", str(tmp_path / "m")] if command == "train" else [str(file), "-m", "AP"]
    assert main([command, str(file), *rest]) != 0
    assert "x.csv, line 1: found semicolons between the columns" in capsys.readouterr().err


def test_a_table_without_the_names_of_its_columns(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(RUN.split("\n", 1)[1])
    with pytest.raises(DataError, match=r"no column 'topic'; it has 1, a, 0.5; the first line must name the columns"):
        rb.read_run(tmp_path / "x.csv")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("user,item,relevance", r"no column 'topic'; it has user, item, relevance; name .* \(.*: --topic NAME\)"),
        (
            "topic,item,rating",
            r"no column 'relevance'; it has topic, item, rating; name .* \(.*: --relevance NAME\), or add one of",
        ),
    ],
)
def test_other_names_of_columns(names: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(f"{names}\n1,a,0\n1,b,1\n")
    for read in (rb.read_lists, rb.read_qrels):
        with pytest.raises(DataError, match=f"x.csv: there is {message}"):
            read(tmp_path / "x.csv")


@pytest.mark.parametrize("name", ["ratings.dat", "u.data"])
def test_a_table_by_another_name_is_told_from_letor_text(name: str, tmp_path: Path) -> None:
    separator = "::" if name.endswith("dat") else "\t"
    (tmp_path / name).write_text(f"1{separator}31{separator}2{separator}1260759144\n" * 2)
    with pytest.raises(
        DataError, match=rf"{name}, line 1: found .*; if this is a table, not LETOR text, name it \.csv"
    ):
        rb.read_lists(tmp_path / name)
    (tmp_path / "x.letor").write_text("1 qid:1 1:0.5\n2 qid:1 1:x\n")
    with pytest.raises(
        DataError, match=r"line 2: found '1:x', expected a finite number after the colon, at most \S+ in magnitude$"
    ):
        rb.read_lists(tmp_path / "x.letor")


def test_a_repeated_item_is_named_with_its_lines(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("topic,item,relevance\n2,a,1\n1,a,1\n2,b,0\n1,b,0\n2,c,0\n1,a,0\n")
    with pytest.raises(DataError, match=r"x.csv: item 'a' occurs more than once in topic '1' \(lines 3 and 7\); exp"):
        rb.read_lists(tmp_path / "x.csv")


def test_text_columns_with_commas_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('topic,relevance,f,tags\n1,0,0.5,"1,2"\n1,1,1.5,"new,3"\n')
    with pytest.warns(ColumnWarning, match=r"tags \(text\)"):
        assert rb.read_lists(tmp_path / "x.csv").left_out == {"tags": "text"}


@pytest.mark.parametrize("name", ["folder", "folder.csv", "folder.parquet"])
@pytest.mark.parametrize("read", [rb.read_lists, rb.read_qrels, rb.read_run])
def test_a_directory_is_no_file(name: str, read: Callable[[Path], Any], tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(
        DataError, match=f"{name}: cannot be read: found a directory, expected a file: name a file in it"
    ):
        read(tmp_path / name)


@pytest.mark.parametrize("name", ["train", "cross-validate"])
def test_an_output_that_cannot_be_written_is_refused_before_the_training(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def train(*arguments: Any, **options: Any) -> None:
        raise AssertionError("a training began")

    monkeypatch.setattr("rankbound.training.ranker.train_ranker", train)
    monkeypatch.setattr("rankbound.training.cross_validation.cross_validate", train)
    FRAME.write_csv(tmp_path / "x.csv")
    (tmp_path / "runs/judgements.csv").mkdir(parents=True)
    flags = {"train": ["--out", str(tmp_path)], "cross-validate": ["-m", "AP", "--runs", str(tmp_path / "runs")]}
    assert main([name, str(tmp_path / "x.csv"), *flags[name]]) == 2
    assert "could not be written: found a folder, expected the name of a file" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs", "x.csv"]
