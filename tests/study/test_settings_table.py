"""The report's table of training options loses none of them."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
from synthetic_runs import write_runs

from rankbound_study.config.data_sets import DataSet
from rankbound_study.data.contracts import write_table
from rankbound_study.report.provenance_section import settings_table

RUNS: list[tuple[str, str, dict[str, Any], int]] = [
    ("neural", "Net", {"epochs": 9, "optimiser": "adam", "hidden": [100, 30]}, 3),
    ("neural", "Net", {"epochs": 9, "optimiser": "adam", "hidden": [100, 30]}, 7),
    ("neural", "Net-of-5", {"epochs": 9, "optimiser": "adam", "hidden": [100, 30], "features": 5}, 1),
    ("neural", "Net-of-20", {"epochs": 9, "optimiser": "adam", "hidden": [100, 30], "features": 20}, 8),
    ("neural", "Line-of-5", {"epochs": 9, "optimiser": "sgd", "features": 5}, 2),
    ("thesis", "mlp", {"epochs": 9, "temperature": 1.0}, 4),
]


def test_what_is_shared_is_said_once_and_the_rest_by_method(tmp_path: Path) -> None:
    assert list(settings_table(tmp_path / "runs.parquet")) == []
    path = write_runs(tmp_path / "some.parquet", sets=(("mq2008-label1", None),), topics=1)
    row = pl.read_parquet(path).filter(pl.col("loss") != "none").row(0, named=True)
    rows = [
        {**row, "study": study, "model": model, "options": json.dumps(options), "epoch": epoch}
        for study, model, options, epoch in RUNS
    ]
    arrow = pl.DataFrame(rows, schema=pl.read_parquet_schema(path)).to_arrow()
    write_table(arrow.cast(pq.read_schema(path).remove_metadata()), tmp_path / "runs.parquet", "runs")
    (table,) = settings_table(tmp_path / "runs.parquet")
    assert [tuple(cell.text for cell in row) for row in table.rows] == [
        ("MQ2008 (relevant: label ≥ 1), neural, published", "epochs 9", ""),
        ("Line of 5", "optimiser sgd", "2"),
        ("Net; of 5, 20", "optimiser adam, hidden 100-30", "1–8"),
        (f"{DataSet('mq2008-label1', None).label}, thesis, published: mlp", "epochs 9, temperature 1", "4"),
    ]
    assert table.rules == {0, 3}
