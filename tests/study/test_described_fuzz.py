"""Files of somebody's own in any state: converted, or refused with a message, and nothing is left behind."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rankbound.errors import ConfigError, DataError, SourceError
from rankbound_study.config.own_files import own_files
from rankbound_study.config.sections.description import DescriptionKeys
from rankbound_study.data import judged_files, ratings
from rankbound_study.data.inspection import inspect
from rankbound_study.data.plain_files import raw_data
from rankbound_study.data.sources import source_of

COLUMNS = {"topic": "1", "item": "2", "rating": "3"}
LAYOUTS: dict[str, dict[str, Any]] = {
    "colons": {"format": "ratings", "separator": "::", "header": False, "columns": COLUMNS},
    "named": {"format": "ratings", "columns": {"topic": "user", "item": "item"}},
    "letor": {"format": "letor", "random_parts": 3},
    "grouped": {"format": "lightgbm", "random_parts": 3},
    "table": {"format": "table", "random_parts": 3},
}
WHOLE = {
    "colons": "1::2::3::4\n1::3::4.5::4\n",
    "named": "user,item,x\n1,2,3\n2,2,3\n",
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
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(damage=damages, sizes=st.sampled_from(["2\n", "1\n1\n", "3\n", "", "x\n"]))
def test_any_file_is_converted_or_refused(
    tmp_path: Path, layout: str, damage: list[tuple[float, str]], sizes: str
) -> None:
    path, out = tmp_path / ("x.csv" if layout == "table" else "x"), tmp_path / "out.parquet"
    out.unlink(missing_ok=True)
    text = WHOLE[layout]
    for share, bit in damage:
        place = round(share * len(text))
        text = text[:place] + bit + text[place + 1 :]
    path.write_text(text, encoding="utf-8")
    Path(f"{path}.query").write_text(sizes)
    described = DescriptionKeys(**LAYOUTS[layout], path=str(path))
    convert = ratings.convert if described.format == "ratings" else judged_files.convert
    message = ""
    try:
        raw = raw_data(source_of("mine", described), list(map(Path, own_files(described))), own=True)
        convert(raw, described, out)
    except (DataError, SourceError) as error:
        message = str(error)
    assert out.exists() == (not message)
    assert {file.name for file in tmp_path.iterdir()} <= {path.name, f"{path.name}.query", "out.parquet"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None)
@given(text=st.lists(bits, max_size=12).map("".join), name=st.sampled_from(["x", "x.csv", "x.tsv", "x.dat"]))
def test_any_file_is_described_or_refused(tmp_path: Path, text: str, name: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    try:
        found = inspect(tmp_path / name)
    except (ConfigError, DataError):
        return
    DescriptionKeys(**found.description)
