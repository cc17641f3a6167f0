"""The evidence of a study in one file: what its paper, figures and verdicts are made from, without training.

It has a row per test list and training, at the epoch that the protocol selects, with the scores in single precision;
the validation part of every epoch; and the sizes of the training lists, from which the weights of bounds follow. Topics
have their ids; items, ratings, labels, features and pictures are not in it. Verdicts that need more than that, such as
the pictures' ages, come with the file.
"""

import io
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from rankbound.errors import DataError
from rankbound.io.atomic import atomic_path
from rankbound.io.models import KEY as SEAL_KEY
from rankbound.io.models import UNSEALED, check_seal, seal
from rankbound_study.claims import verdicts
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decide
from rankbound_study.claims.theorems import check
from rankbound_study.data.contracts import (
    CONTRACTS,
    ITEM_COUNT_KEY,
    REPEATS_KEY,
    lists_table,
    open_writer,
    with_key,
    write_table,
)
from rankbound_study.data.reader import read_instances
from rankbound_study.results.scores import METRICS
from rankbound_study.results.study_files import StudyFiles, scan_runs
from rankbound_study.vocabulary import CONTROLS, SELECTIONS

SCHEMA, FACTS = "rankbound.schema", "rankbound.evidence"
VERSION = "evidence/1"

TABLES = {"runs": "runs", "experiments": "runs", "epochs": "epochs", "experiment_epochs": "epochs"}
"""The tables of a results folder -> their contracts."""

LISTS = "lists"
"""The sizes of training lists."""

_ORDER = ("table", "dataset", "nsr_train", "nsr_test", "protocol", "study", "model", "loss", "bounding", "fold", "seed")

_CONTROL = pl.col("model").is_in(CONTROLS)


def release(
    results: Path, instances: Sequence[Path], out: Path, options: Mapping[str, str], titles: Mapping[str, str]
) -> None:
    """Write the evidence of a results folder.

    Args:
        results: the folder, with collected runs and epochs and the table of claims.
        instances: the instances of the data sets whose list weights are compared.
        out: the file.
        options: of the paper's tables: the `study`'s name in its runs, and the `protocol` that comes first.
        titles: the titles of described data sets.

    Raises:
        DataError: a file is missing or damaged.
    """
    paths = {name: results / f"{name}.parquet" for name in TABLES}
    frames = {name: _reduced(path, name) for name, path in paths.items() if name == "runs" or path.exists()}
    table = pl.concat([*frames.values(), *map(_sizes, instances)], how="diagonal_relaxed")
    claims = verdicts.read(results / "tables" / f"{verdicts.NAME}.csv")
    known = {name: {*CONTRACTS[TABLES[name]].columns, "table"} for name in frames}
    facts = {
        "options": dict(options),
        "titles": dict(titles),
        "metrics": {name: [one for one in own.columns if one not in known[name]] for name, own in frames.items()},
        "claims": claims.write_csv(),
        "kept": [],
    }
    rows = table.sort(_ORDER, maintain_order=True)
    with atomic_path(out) as temporary, TemporaryDirectory() as folder:
        _write(rows, facts, temporary)
        decided = unpack(temporary, Path(folder)).decided()
        same = decided.join(claims, on=["id", "verdict", "reason"], how="semi")["id"]
        _write(rows, {**facts, "kept": claims.filter(~pl.col("id").is_in(same.implode()))["id"].to_list()}, temporary)


def _write(table: pl.DataFrame, facts: Mapping[str, object], path: Path) -> None:
    rows = table.to_arrow()
    texts = [name for name, kind in table.schema.items() if kind == pl.String]
    floats = [name for name, kind in table.schema.items() if kind == pl.Float32]
    rows = rows.cast(pa.schema((one.name, pa.string() if one.name in texts else one.type) for one in rows.schema))
    pq.write_table(
        rows.replace_schema_metadata({SCHEMA: VERSION, FACTS: json.dumps(facts), SEAL_KEY: UNSEALED}),
        path,
        compression="zstd",
        compression_level=19,
        use_dictionary=[name for name in rows.column_names if name not in floats],
        column_encoding=dict.fromkeys(floats, "BYTE_STREAM_SPLIT"),
        row_group_size=max(len(rows), 1),
    )
    seal(path)


@dataclass(frozen=True)
class Released:
    """What `unpack` wrote and read.

    Attributes:
        options: of tables: the study's name in its runs, and the protocol that comes first.
        titles: of described data sets.
        files: the unpacked tables.
        claims: the verdicts that were released.
        kept: the claims that the evidence does not decide as the results do: they need other metrics, or pictures.
    """

    options: Mapping[str, str]
    titles: Mapping[str, str]
    files: StudyFiles
    claims: pl.DataFrame
    kept: Collection[str]

    @property
    def evidence(self) -> Evidence:
        """The unpacked tables, for claims."""
        return Evidence.of(self.options["study"], self.files)

    def decided(self) -> pl.DataFrame:
        """Return the table of claims: those that are kept have their released verdicts."""
        decided = verdicts.frame(decide(self.evidence, check()))
        kept = self.claims.filter(pl.col("id").is_in(list(self.kept)))
        both = pl.concat([decided.join(kept, on="id", how="anti"), kept])
        return decided.select("id").join(both, on="id", maintain_order="left").select(decided.columns)

    def options_for(self, keys: Iterable[str]) -> dict[str, str]:
        """Return the options of a table that takes those keys."""
        return {key: self.options[key] for key in keys if key in self.options}

    def files_with_tables(self, folder: Path) -> StudyFiles:
        """Return the files, with the tables in a folder that figures are drawn from."""
        law, effects = (tuple(sorted(folder.glob(f"table_{kind}*.csv"))) for kind in ("law", "effects"))
        return replace(self.files, law=law, effects=effects)


def unpack(evidence: Path, folder: Path) -> Released:
    """Write the tables that evidence was reduced from to a folder, as far as it has them.

    Metrics that were not released are NaN. In the instances, items are numbered within their lists, relevant ones
    first: which items they were is not released, and no weight of a list depends on it.

    Raises:
        DataError: the file is missing, damaged, or no evidence of this version.
    """
    check_seal(evidence, "get the file anew")
    table = scan_runs(evidence, ("table",)).collect()
    noted = pq.read_metadata(evidence).metadata or {}
    if noted.get(SCHEMA.encode(), b"").decode() != VERSION:
        raise DataError(f"{evidence}: found {noted.get(SCHEMA.encode())!r}, expected a file of {VERSION}")
    facts = json.loads(noted[FACTS.encode()])
    paths: dict[str, Any] = {}
    for name, metrics in facts["metrics"].items():
        paths[name], contract = folder / f"{name}.parquet", TABLES[name]
        own = table.filter(table=name).select(*CONTRACTS[contract].columns, *metrics)
        whole = own.with_columns(pl.col(pl.Float32).cast(pl.Float64).fill_null(np.nan))
        write_table(whole.to_arrow(), paths[name], contract)
    lists = table.filter(table=LISTS)
    instances = tuple(_write_instances(own, folder) for own in lists.partition_by("dataset", "nsr_train"))
    claims = pl.read_csv(io.StringIO(facts["claims"]), schema=verdicts.COLUMNS)
    return Released(facts["options"], facts["titles"], StudyFiles(**paths, instances=instances), claims, facts["kept"])


def _reduced(path: Path, name: str) -> pl.DataFrame:
    """Return the rows and columns of a table that are released."""
    scan, contract = scan_runs(path), TABLES[name]
    columns = CONTRACTS[contract].columns
    picked = pl.col("protocol").replace(SELECTIONS)
    of_epoch = (pl.col("selection") == picked) | _CONTROL if contract == "runs" else pl.col("part") == picked
    rows = scan.filter(of_epoch)
    others = [one for one in scan.collect_schema().names() if one not in columns and one not in METRICS]
    # Beside the metrics of every training: those that judge it, or a table of its loss, and those of the controls.
    named = {
        one: pl.col("options").str.contains(f'"judged_by": "{one}"', literal=True)
        | _CONTROL
        | (one.startswith("nRBP") & (pl.col("loss") == "nRBP"))
        for one in others
    }
    kept = [pl.when(mask).then(pl.col(one)).alias(one) for one, mask in named.items()]
    return rows.with_columns(kept).collect().with_columns(pl.col(pl.Float64).cast(pl.Float32), table=pl.lit(name))


def _sizes(path: Path) -> pl.DataFrame:
    """Return the sizes of the training lists of instances."""
    read = read_instances(path)
    topics, parts = np.array(read.topics, dtype=object), []
    for fold in read.folds:
        split = read.split(fold, "train")
        sizes = {"n": split.sizes.astype(np.int32), "p": split.positives.astype(np.int32)}
        lists = pl.DataFrame({"topic": topics[split.topics].tolist(), **sizes})
        parts.append(lists.with_columns(fold=pl.lit(fold, pl.Int8)))
    constants = {"table": pl.lit(LISTS), "dataset": pl.lit(read.dataset), "nsr_train": pl.lit(read.nsr, pl.Int8)}
    # Drawings of the folds.
    return pl.concat(parts).with_columns(**constants, drawing=pl.lit(read.repeats, pl.Int8))


def _write_instances(lists: pl.DataFrame, folder: Path) -> Path:
    """Write instances with the training lists of these sizes alone."""
    dataset, nsr, repeats = lists.select("dataset", "nsr_train", "drawing").row(0)
    path = folder / f"{dataset}{'' if nsr is None else f'-nsr{nsr}'}.parquet"
    notes = {ITEM_COUNT_KEY: str(lists["n"].max()), REPEATS_KEY: str(repeats)}
    with open_writer(path, "instances", notes) as write:
        for own in lists.partition_by("fold", maintain_order=True):
            n, p = own["n"].to_numpy(), own["p"].to_numpy()
            offsets = np.concatenate(([0], np.cumsum(n, dtype=np.int64)))
            items = np.arange(offsets[-1]) - np.repeat(offsets[:-1], n)
            rows = lists_table(own["topic"].to_list(), items, (items < np.repeat(p, n)).astype(np.int8), offsets)
            key = {"dataset": dataset, "nsr": nsr, "fold": own["fold"][0], "split": "train"}
            write(with_key(key, dict(zip(rows.column_names, rows.columns, strict=True)), "instances", len(rows)))
    return path
