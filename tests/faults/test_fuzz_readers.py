"""Any bytes to the readers of TREC files, tables, ratings, options and configurations: content, or an error of ours."""

import gzip
import os
import re
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rankbound.errors import ConfigError, DataError
from rankbound.io.files import pack_lists, read_lists, read_qrels, read_run
from rankbound_study.config.check import LARGEST_CONFIG, check_config, merged
from rankbound_study.options import read_options
from tests.damages import Damages, damaged, damages
from tests.raw_files import convert_as

EXAMPLES = int(os.environ.get("RANKBOUND_FUZZ", "150"))
ROOT = Path(__file__).resolve().parents[2]
DEFAULT = (ROOT / "config.yaml").read_text(encoding="utf-8")

many = settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))

LETOR = b"1 qid:1 1:0.5 2:1 #docid = a\n0 qid:1 2:1 #docid = b\n2 qid:2 1:3 # c\n"
JUDGED = b"topic,item,relevance,x,y\n1,a,1,3.5,2\n1,b,0,2,3\n2,a,1,1,4\n"


def packed(content: bytes) -> bytes:
    """Return judged lists in text as a packed Arrow file."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "lists.txt").write_bytes(content)
        pack_lists(Path(folder, "lists.txt"), Path(folder, "lists.arrow"))
        return Path(folder, "lists.arrow").read_bytes()


FILES: dict[str, tuple[bytes, Callable[[Path], Any]]] = {
    "run.txt": (b"1 Q0 a 1 3.5 t\n1 Q0 b 2 2.5 t\n2 Q0 a 1 1 t\n", read_run),
    "run.csv": (b"topic,item,score\n1,a,3.5\n1,b,2\n2,a,1\n", read_run),
    "run.tsv": (b"topic\titem\tscore\n1\ta\t3.5\n1\tb\t2\n2\ta\t1\n", read_run),
    "qrels.txt": (b"1 0 a 1\n1 0 b 0\n2 0 a 2\n", read_qrels),
    "qrels.csv": (JUDGED, read_qrels),
    "lists.csv": (JUDGED, read_lists),
    "lists.txt": (LETOR, read_lists),
    "lists.arrow": (packed(LETOR), read_lists),
    "judged.txt": (LETOR, read_qrels),
    "lists.txt.gz": (gzip.compress(LETOR, mtime=0), read_lists),
    "run.txt.gz": (gzip.compress(b"1 Q0 a 1 3.5 t\n1 Q0 b 2 2.5 t\n", mtime=0), read_run),
    "run.csv.gz": (gzip.compress(b"topic,item,score\n1,a,3.5\n1,b,2\n", mtime=0), read_run),
}
bits = st.sampled_from(
    [b"", b"0", b" ", b"\t", b"\n", b"\r\n", b"\r", b",", b'"', b"'", b":", b"#", b"-", b".", b"e", b"x", b"\0",
     b"\xff", b"nan", b"inf", b"1e999", b"99999999999999999999", b"1_0", b"true", b"\xef\xbb\xbf", b"\xc3\xa9",
     b"\xe2\x80\xa8",
     b"\x0b", b"\x1c", b"\x85", b"\xc2\xa0", b"x\x01", b"(\xb5/\xfd"]
)  # fmt: skip
few_damages = damages(bits, places=3000, removed=5)


@pytest.mark.filterwarnings("ignore::rankbound.errors.ColumnWarning")
@pytest.mark.parametrize("name", FILES)
@many
@given(few_damages)
def test_own_files_are_read_or_refused_by_name(tmp_path: Path, name: str, damage: Damages) -> None:
    content, read = FILES[name]
    path = tmp_path / name
    path.write_bytes(content)
    read(path)
    path.write_bytes(damaged(content, damage))
    try:
        read(path)
    except DataError as error:
        message = str(error)
    else:
        return
    assert name in message


RATINGS = b"userId,movieId,rating,timestamp\r\n1,2,4.5,10\r\n1,3,5,11\r\n2,2,0.5,12\r\n"


@many
@given(few_damages)
@example([(0, 33, b"userId,movieId,rating,timestamp\r0")])
@example([(7, 7, b'"' + 200_000 * b"x")])
def test_ratings_are_converted_or_refused_and_nothing_is_left(tmp_path: Path, damage: Damages) -> None:
    raw, out = tmp_path / "raw.zip", tmp_path / "x.parquet"
    out.unlink(missing_ok=True)
    with zipfile.ZipFile(raw, "w") as archive:
        archive.writestr("ratings.csv", damaged(RATINGS, damage))
    try:
        convert_as("movielens", raw, out)
    except DataError as error:
        message = str(error)
    else:
        assert out.exists()
        return
    assert "raw.zip: ratings.csv" in message
    assert {path.name for path in tmp_path.iterdir()} == {"raw.zip"}


DEFAULTS: dict[str, Any] = {"seed": 1, "share": 0.5, "names": [1], "on": True, "name": "x"}


@many
@given(few_damages)
@example([(0, 99, b"[" * 100_000)])
@example([(0, 99, b'{"seed": ' + b"9" * 5000 + b"}")])
@example([(0, 99, b'{"share": NaN}')])
@example([(0, 99, b'{"share": 1e999}')])
@example([(0, 99, b'{"seed": true}')])
def test_options_are_of_their_types_or_refused(damage: Damages) -> None:
    text = damaged(b'{"seed": 1, "share": 0.5, "names": [1, 2]}', damage).decode("utf-8", "surrogateescape")
    try:
        options = read_options(text, DEFAULTS)
    except ConfigError as error:
        message = str(error)
    else:
        assert type(options["seed"]) is int
        assert 0 * options["share"] == 0
        return
    assert message.startswith("--options")


VALUES = [
    *("null", "[]", "{}", '""', "0", "-1", "true", "x", "1e999", ".nan", "-.inf", "9" * 30, "9" * 5000, "[null]"),
    *("[[1]]", "{1: 2}", "{a: {b: c}}", "2026-01-01", "2026-13-45", "!!binary aGk=", "!!set {a}"),
    *(
        "!!python/object:os.system {}",
        "!foo bar",
        "&a [*a]",
        "*b",
        "? [1]",
        '"\\u0000"',
        "1_000",
        "0x1f",
        "1:30",
        "[",
        "{",
        "- ",
        "%",
        "@",
        "\t",
        '"',
    ),
    *("|", "[1, 1]", "é", "\u202e", "\x00", "\ufeff", "<<: 3", "nDCG", "mq2008", "~"),
]
edits = st.lists(
    st.tuples(st.integers(0, 10**6), st.sampled_from(["value", "delete", "copy", "insert", "indent", "key"]),
              st.sampled_from(VALUES), st.integers(0, 10**6)),
    min_size=1, max_size=3,
)  # fmt: skip


def edited(text: str, changes: list[tuple[int, str, str, int]]) -> str:
    lines = text.split("\n")
    for place, kind, value, other in changes:
        at = place % len(lines)
        line = lines[at]
        match kind:
            case "value" if ":" in line:
                lines[at] = f"{line.split(':')[0]}: {value}"
            case "delete":
                del lines[at]
            case "copy":
                lines.insert(at, lines[other % len(lines)])
            case "insert":
                lines[at] = line[: other % (len(line) + 1)] + value + line[other % (len(line) + 1) :]
            case "indent":
                lines[at] = "  " * (other % 4) + line.strip()
            case "key" if ":" in line:
                lines[at] = f"{value}:{line.split(':', 1)[1]}"
    return "\n".join(lines)


def check(text: str, folder: Path) -> str:
    """The message about a configuration; nothing if it is valid."""
    file = folder / "study.yaml"
    file.write_text(text, encoding="utf-8")
    try:
        check_config(merged([file]), [file])
    except ConfigError as error:
        return str(error)
    return ""


@settings(max_examples=max(EXAMPLES // 3, 1), suppress_health_check=list(HealthCheck))
@given(edits)
def test_an_edited_configuration_is_valid_or_says_where_it_is_not(
    tmp_path: Path, changes: list[tuple[int, str, str, int]]
) -> None:
    message = check(edited(DEFAULT, changes), tmp_path)
    # A key at the top that is missing has no line; nor has a character that YAML does not allow.
    assert not message or re.search(r"line \d+|configuration lacks \w+|position \d+|holds no keys", message)


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, rf"study\.yaml, line \d+: \d+ values, counting repeated aliases; expected at most {LARGEST_CONFIG}"),
        (
            "study: &a\n  b: *a\n",
            r"study\.yaml is nested too deeply for a configuration, or contains itself through an alias",
        ),
        ("[" * 5000, r"study\.yaml (is nested too deeply|is not valid YAML)"),
        ("study: 2026-13-45\n", r"study\.yaml, line 1: a value that YAML cannot read"),
        (f"seeds:\n  - 1\n  - {'9' * 5000}\n", r"study\.yaml, line 3: a value that YAML cannot read"),
        ("a: !!python/object/apply:os.mkdir [touched]\n", r"study\.yaml is not valid YAML: could not determine"),
        (DEFAULT.replace("temperature: 1.0", "temperature: .nan"), r"line \d+: temperature is NaN: expected a finite"),
        (
            DEFAULT.replace("study: thesis", "study: 2026-01-01"),
            r"line \d+: study is 2026-01-01 \(a date\): expected a name",
        ),
        (DEFAULT + "\n1: 2\n", r"line \d+: 1 is not text: write it in quotes"),
        (DEFAULT + "\n{1: 2}: 3\n", r"line \d+"),
    ],
)
def test_configurations_made_to_do_harm(tmp_path: Path, text: str, message: str) -> None:
    assert re.search(message, check(text, tmp_path))
    assert not Path("touched").exists()


def test_a_configuration_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_bytes(b"\xff\xfe\0s")
    for path in (tmp_path / "study.yaml", tmp_path):
        with pytest.raises(ConfigError, match="cannot be read"):
            merged([path])


def test_aliases_within_reason_are_allowed(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text("a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}\n", encoding="utf-8")
    assert merged([file]) == {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "y": 2}} == yaml.safe_load(file.read_text())
