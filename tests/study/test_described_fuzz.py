"""Files of somebody's own in any state: converted, or refused with a message, and nothing is left behind."""

import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rankbound.errors import ConfigError, DataError, SourceError
from rankbound_study.config.own_files import own_files
from rankbound_study.config.sections.description import DescriptionKeys
from rankbound_study.data import judged_files, ratings
from rankbound_study.data.inspection import inspect
from rankbound_study.data.sources import RawSource, raw_data

COLUMNS = {"topic": "1", "item": "2", "rating": "3"}
LAYOUTS: dict[str, dict[str, Any]] = {
    "colons": {"format": "ratings", "separator": "::", "header": False, "columns": COLUMNS},
    "named": {"format": "ratings", "columns": {"topic": "user", "item": "item"}},
    "texts": {"format": "ratings", "ids": "texts", "columns": {"topic": "user", "item": "item"}},
    "splits": {
        "format": "ratings",
        "columns": {"topic": "user", "item": "item"},
        "folds": [{"train": ["x"], "test": ["y"]}],
    },
    "letor": {"format": "letor", "random_parts": 3},
    "grouped": {"format": "lightgbm", "random_parts": 3},
    "table": {"format": "table", "random_parts": 3},
}
WHOLE = {
    "colons": "1::2::3::4\n1::3::4.5::4\n",
    "named": "user,item,x\n1,2,3\n2,2,3\n",
    "texts": 'user,item,x\nann,"red, shoe",3\n2,2,3\n',
    "splits": "user,item,x\n1,2,3\n2,2,3\n",
    "letor": "1 qid:1 1:0.5\n0 qid:1 2:1\n",
    "grouped": "1 1:0.5\n0 2:1\n",
    "table": "topic,relevance,f\na,1,0.5\nb,0,1\n",
}
# Bits of lines, so that malformed files come near to well-formed ones.
bits = st.sampled_from(
    ["1", "0", "-", ".", "e9", "nan", "x", ",", "::", ":", "\t", " ", "\n", "\r\n", '"', "\0", "\ufeff", "é", "qid:1",
     "9" * 25, "\x1f", "1:1", "topic", "user"]
)  # fmt: skip
damages = st.lists(st.tuples(st.floats(0, 1), bits), max_size=4)


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damage=damages, sizes=st.sampled_from(["2\n", "1\n1\n", "3\n", "", "x\n"]), packed=st.booleans())
def test_any_file_is_converted_or_refused(
    tmp_path: Path, layout: str, damage: list[tuple[float, str]], sizes: str, packed: bool
) -> None:
    folder = tmp_path / "files"
    path, out = folder / ("x.csv" if layout == "table" else "x"), tmp_path / "out.parquet"
    out.unlink(missing_ok=True)
    folder.mkdir(exist_ok=True)
    (folder / "y").write_text("user,item\n1,9\n")
    text = WHOLE[layout]
    for share, bit in damage:
        place = round(share * len(text))
        text = text[:place] + bit + text[place + 1 :]
    path.write_text(text, encoding="utf-8")
    Path(f"{path}.query").write_text(sizes)
    where = folder if layout == "splits" else path
    if packed:
        where = tmp_path / "x.zip"
        with zipfile.ZipFile(where, "w") as archive:
            for file in [*folder.iterdir()] if layout in ("splits", "grouped") else [path]:
                archive.write(file, file.name)
    named = {"files": ["x"]} if layout == "grouped" and packed else {}
    described = DescriptionKeys(**LAYOUTS[layout], **named, path=str(where))
    convert = ratings.convert if described.format == "ratings" else judged_files.convert
    message = ""
    try:
        raw = raw_data(RawSource("mine", described), list(map(Path, own_files(described))))
        convert(raw, out)
    except (DataError, SourceError) as error:
        message = str(error)
    assert out.exists() == (not message)
    assert {file.name for file in tmp_path.iterdir()} <= {"files", "x.zip", "out.parquet"}
    assert "rankbound-" not in message


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=2 * settings.default.max_examples)
@given(
    text=st.lists(bits, max_size=12).map("".join),
    name=st.sampled_from(["x", "x.csv", "x.tsv", "x.dat", "fold_0/train.csv", "Fold1/test.txt"]),
    packed=st.booleans(),
)
def test_any_file_is_described_or_refused(tmp_path: Path, text: str, name: str, packed: bool) -> None:
    with TemporaryDirectory(dir=tmp_path) as folder:
        path = Path(folder, name)
        path.parent.mkdir(exist_ok=True)
        for file in {path, path.with_name(path.name.replace("train", "test").replace("test", "train"))}:
            file.write_text(text, encoding="utf-8")
        looked_at = path if path.parent == Path(folder) else Path(folder)
        if packed:
            looked_at = tmp_path / "x.zip"
            with zipfile.ZipFile(looked_at, "w") as archive:
                for file in path.parent.iterdir():
                    archive.write(file, file.relative_to(folder))
        described_or_refused(looked_at)


def described_or_refused(path: Path) -> None:
    try:
        found = inspect(path)
    except (ConfigError, DataError):
        return
    DescriptionKeys(**found.description)
