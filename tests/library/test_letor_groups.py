"""LETOR text without query ids, beside the sizes of its queries, as LightGBM reads it."""

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankbound as rb
from rankbound.cli import main
from rankbound.errors import DataError
from rankbound.io.letor_groups import group_sizes, with_query_ids

TEXT = b"2 1:0.5 3:1\n\n0 2:0.25 # a note\n1\n0 1:1\n"


def numbered(text: bytes, sizes: list[int]) -> bytes:
    return with_query_ids(io.BytesIO(text), sizes, "rank.train").read()


def test_lines_get_the_ids_of_their_queries() -> None:
    assert [line.split(b"#")[0].split() for line in numbered(TEXT, [3, 1]).split(b"\n")] == [
        [b"2", b"qid:1", b"1:0.5", b"3:1"],
        [],
        [b"0", b"qid:1", b"2:0.25"],
        [b"1", b"qid:1"],
        [b"0", b"qid:2", b"1:1"],
        [],
    ]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8))
def test_lists_have_the_sizes_of_their_queries(sizes: list[int]) -> None:
    text = "".join(f"{line % 3} 1:{line}\n" for line in range(sum(sizes)))
    assert group_sizes(io.BytesIO("".join(f"{size}\n" for size in sizes).encode()), "x") == sizes
    ids = [line.split()[1] for line in numbered(text.encode(), sizes).splitlines()]
    assert ids == [b"qid:%d" % query for query, size in enumerate(sizes, start=1) for _ in range(size)]


@pytest.mark.parametrize(
    ("text", "sizes", "message"),
    [
        (b"1 1:2\n0 1:1\n", "3\n", r"rank\.train: the group sizes add up to 3 lines, but 1 of them are missing"),
        (b"1 1:2\n0 1:1\n", "1\n", r"rank\.train, line 2: expected no more lines, by the sizes of its groups"),
        (b"1 qid:7 1:2\n", "1\n", r"rank\.train, line 1: it names its query, but sizes of groups are given"),
        (b"1 1:2\n", "1.5\n", r"query, line 1: found '1.5', expected the number of lines of one query"),
        (b"1 1:2\n", "1\n0\n", r"query, line 2: found '0', expected the number"),
        (b"1 1:2\n", "\n", r"query: there are no numbers in it"),
        (b"1 0:2\n", "1\n", r"rank\.train, line 1: found '0', expected a feature index before the colon"),
    ],
)
def test_texts_and_sizes_that_contradict_each_other(tmp_path: Path, text: bytes, sizes: str, message: str) -> None:
    (tmp_path / "rank.train").write_bytes(text)
    (tmp_path / "rank.train.query").write_text(sizes)
    with pytest.raises(DataError, match=message):
        rb.read_lists(tmp_path / "rank.train", groups=tmp_path / "rank.train.query")


def test_without_the_sizes_the_message_names_them(tmp_path: Path) -> None:
    (tmp_path / "rank.train").write_bytes(TEXT)
    with pytest.raises(DataError, match=r"line 1: found '1:0.5', expected `qid:`.*sizes of the queries .*groups"):
        rb.read_lists(tmp_path / "rank.train")


def test_a_table_has_no_group_sizes(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("topic,relevance\na,1\n")
    with pytest.raises(DataError, match=r"groups: found .*only LETOR text"):
        rb.read_lists(tmp_path / "x.csv", groups=tmp_path / "x.query")


def test_the_short_way_from_lightgbms_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(0)
    sizes = random.integers(2, 9, 40)
    rows = random.random((int(sizes.sum()), 3))
    lines = [f"{int(row[0] > 0.6)} " + " ".join(f"{k}:{v:.4f}" for k, v in enumerate(row, start=1)) for row in rows]
    train, groups, model, run = (tmp_path / name for name in ("rank.train", "rank.train.query", "m.safetensors", "run"))
    train.write_text("\n".join(lines) + "\n")
    groups.write_text("".join(f"{size}\n" for size in sizes))
    flags = ["--groups", str(groups)]
    main(["train", str(train), *flags, "--epochs", "20", "--out", str(model)])
    main(["score", str(model), str(train), *flags, "--out", str(run)])
    packed = tmp_path / "lists.arrow"
    main(["pack", str(train), *flags, str(packed)])
    capsys.readouterr()
    main(["evaluate", str(run), str(train), *flags, "-m", "P@1"])
    assert " 40 " in (shown := capsys.readouterr().out)
    main(["evaluate", str(run), str(packed), "-m", "P@1"])
    assert capsys.readouterr().out == shown
