"""Files of score distributions: the tables of one metric for all list sizes in training."""

import os

import numpy as np
import pyarrow as pa

from rankbound.bounds.tables import COLUMNS, DistributionTables
from rankbound.errors import DataError
from rankbound.kernels.formulas import Floats
from rankbound_study.data.contracts import read_metadata, read_table, to_arrow, to_numpy, write_table

SAMPLES_KEY, TILT_KEY = "rankbound.samples", "rankbound.tilt"


def write_distributions(tables: DistributionTables, path: str | os.PathLike[str]) -> None:
    """Write a parquet file of the contract `distributions`: by rename, the same bytes for the same tables.

    Raises:
        ValueError: for graded lists, or several numbers of samples: the contract has (N, P) and one number of samples.
    """
    samples = np.unique(tables.samples).tolist()
    if tables.grades or len(samples) != 1:
        raise ValueError(
            f"found {len(tables.grades)} tables of graded lists and the numbers of samples {samples}, expected "
            "binary lists and one number of samples in a file"
        )

    def lists(values: Floats) -> pa.ListArray:
        return pa.ListArray.from_arrays(to_arrow(tables.offsets.astype(np.int32)), to_arrow(values))

    table = pa.table(
        {
            "metric": pa.array([tables.metric] * len(tables), pa.string()),
            "n": to_arrow(tables.n.astype(np.int32)),
            "p": to_arrow(tables.p.astype(np.int32)),
            **{name: to_arrow(column) for name, column in tables.columns.items()},
            "support": lists(tables.support),
            "probability": lists(tables.probability),
        }
    )
    tilt = {} if tables.tilt == 1 else {TILT_KEY: repr(tables.tilt)}
    write_table(table, path, "distributions", metadata={SAMPLES_KEY: str(samples[0]), **tilt})


def read_distributions(path: str | os.PathLike[str]) -> DistributionTables:
    """Read a file that `write_distributions` wrote.

    Raises:
        DataError: the file is of another kind.
    """
    metadata = read_metadata(path, "distributions")
    samples, tilt = metadata.get(SAMPLES_KEY, ""), metadata.get(TILT_KEY, "1.0")
    table = read_table(path, "distributions").combine_chunks()
    metrics = table.column("metric").unique().to_pylist()
    if len(metrics) != 1 or not samples.isdigit():
        raise DataError(
            f"{path}: found the metrics {metrics} and {SAMPLES_KEY} {samples!r}, expected one metric and a number; "
            "make the file again with `python -m rankbound_study distributions`"
        )
    columns = {name: to_numpy(table.column(name)) for name in ("n", "p", *COLUMNS)}
    support, probability = (table.column(name).combine_chunks() for name in ("support", "probability"))
    return DistributionTables(
        metric=metrics[0],
        n=columns.pop("n").astype(np.int64),
        p=columns.pop("p").astype(np.int64),
        offsets=to_numpy(support.offsets).astype(np.int64),
        support=to_numpy(support.values),
        probability=to_numpy(probability.values),
        columns=columns,
        samples=np.full(len(table), int(samples)),
        tilt=float(tilt),
    )
