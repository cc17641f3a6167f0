"""Question 7: how long does it take to convert LETOR text to parquet?"""

import tempfile
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks.generated_source import generated_source
from benchmarks.rows import OURS, Row, rows_of
from benchmarks.run import Run
from benchmarks.timing import Contender, race

TITLE = "LETOR text to parquet"
ABOUT = """\
Generated judgments in the layout of LETOR 4.0 (46 features, five parts). Ours is what the study's step `convert`
runs, on an archive that is not compressed: it also compares the parts with their checksums, keeps the document names,
checks every line, and needs memory for a chunk of the file. scikit-learn's `load_svmlight_file` reads the five parts to
matrices; the third line also writes these with pyarrow."""
SETTINGS = ("default",)

_TOPICS, _QUICK_TOPICS = 20_000, 50
_PARTS, _WIDTH = 5, 46


def measure(run: Run) -> list[Row]:
    """Race the contenders once over one generated file."""
    with tempfile.TemporaryDirectory(prefix="rankbound-letor-") as name:
        folder = Path(name)
        run.tell("writing the text")
        parts = _write(folder, _QUICK_TOPICS if run.quick else _TOPICS)
        run.tell("racing")
        return _race(run, folder, parts)


def _race(run: Run, folder: Path, parts: list[Path]) -> list[Row]:
    from rankbound_study.config.sections.known_sets import known_set
    from rankbound_study.data.judged_files import convert
    from rankbound_study.data.sources import RawFile

    archive = folder / "MQ2008.zip"
    raw = RawFile(generated_source("mq2008", archive), archive)
    megabytes = sum(part.stat().st_size for part in parts) / 1e6
    size = f"{megabytes:.0f} MB"
    contenders = [Contender(OURS, lambda: convert(raw, known_set("mq2008"), folder / "ours.parquet"))]
    absent: list[Row] = []
    if run.peers and find_spec("sklearn") is None:
        absent = [Row(size, round(megabytes), "scikit-learn", note="sklearn is not installed")]
    elif run.peers:
        contenders += [
            Contender("scikit-learn, reading only", lambda: [_read(part) for part in parts]),
            Contender("scikit-learn and pyarrow", lambda: _read_and_write(parts, folder / "peer.parquet")),
        ]
    result = race(contenders, run.pace)
    notes = {timing.name: f"{megabytes / timing.seconds:.0f} MB/s" for timing in result.timings}
    return rows_of(result, size, round(megabytes), notes) + absent


def _write(folder: Path, topics: int) -> list[Path]:
    """Write five parts of about equal size, and an uncompressed archive of them in MQ2008's layout."""
    from rankbound_study.data import synthetic
    from rankbound_study.data.contracts import read_table

    source = folder / "synthetic.parquet"
    synthetic.generate("synthetic-mq2008", source, seed=0, size=str(topics))
    table = read_table(source, "lists")
    shares = np.array_split(np.arange(topics), _PARTS)
    paths = [folder / f"S{part}.txt" for part in range(1, _PARTS + 1)]
    with zipfile.ZipFile(folder / "MQ2008.zip", "w", zipfile.ZIP_STORED) as archive:
        for path, share in zip(paths, shares, strict=True):
            rows = table.slice(int(share[0]), len(share)).to_pylist()
            path.write_text("".join(line for row in rows for line in _lines(row)), encoding="ascii")
            archive.write(path, f"MQ2008/{path.name}")
    return paths


def _lines(row: dict[str, list[object]]) -> Iterator[str]:
    pattern = " ".join(f"{index}:%.6f" for index in range(1, _WIDTH + 1))
    for item, label, features in zip(row["items"], row["relevance"], row["features"], strict=True):
        yield f"{label} qid:{row['topic']} {pattern % tuple(features)} #docid = {item} inc = 1 prob = 0.5\n"  # type: ignore[arg-type]


def _read(path: Path) -> tuple[object, ...]:
    from sklearn.datasets import load_svmlight_file

    return tuple(load_svmlight_file(str(path), n_features=_WIDTH, dtype=np.float32, query_id=True))


def _read_and_write(parts: list[Path], out: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for part in parts:
        features, relevance, query = _read(part)
        dense = pa.array(features.toarray().ravel())  # type: ignore[attr-defined]
        columns = {"topic": query, "relevance": relevance, "features": pa.FixedSizeListArray.from_arrays(dense, _WIDTH)}
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(out, table.schema, compression="zstd")
        writer.write_table(table)
    if writer is not None:
        writer.close()
