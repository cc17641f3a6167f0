"""The step `claim`: what one claim's verdict rests on, and the configuration that trains that alone."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import yaml  # type: ignore[import-untyped]

from rankbound.errors import ConfigError
from rankbound.io.atomic import atomic_path
from rankbound.texts import quantity
from rankbound_study.claims.evidence import MOVIELENS, MQ2008, Evidence
from rankbound_study.claims.registry import Claim, claims, deciders
from rankbound_study.claims.thesis_theorems import THEOREMS
from rankbound_study.claims.verdicts import MissingEvidence, Untrained
from rankbound_study.config.check import check_config, merge, merged
from rankbound_study.config.data_sets import DataSet
from rankbound_study.config.estimate import estimated
from rankbound_study.config.sections.base import nearest
from rankbound_study.config.study import Study
from rankbound_study.export.evidence import unpack
from rankbound_study.vocabulary import HONEST, STUDY, UNBOUNDED


@dataclass(frozen=True)
class _Asked(Evidence):
    """Evidence that notes what a claim asks it for; what was read for one claim is read again for another."""

    claim: str = ""
    places: set[DataSet] = field(default_factory=set, compare=False)
    experiments_read: set[str] = field(default_factory=set, compare=False)
    compared: set[str] = field(default_factory=set, compare=False)

    def cell(self, column: DataSet, **choice: Any) -> pl.LazyFrame:
        if choice.get("study") == STUDY:
            self.compared.add(column.dataset)
        else:
            self.places.add(column)
        return super().cell(column, **choice)

    def variants(self, experiment: str, column: DataSet, *, of_epochs: bool = False) -> dict[str, pl.LazyFrame]:
        found = super().variants(experiment, column, of_epochs=of_epochs)
        if found:
            self.experiments_read.add(experiment)
            self.places.add(column)
        return found


def claim(names: list[str], evidence: Path, files: list[Path], out: Path | None) -> None:
    """Print what claims rest on and how long that takes to train; write the configuration of one."""
    known = {one.id: one for one in claims()}
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"there is no claim {unknown[0]!r}{nearest(unknown[0], list(known))}")
    if out is not None and len(names) != 1:
        raise ConfigError(f"--out {out}: expected one claim, found {quantity(len(names), 'claim')}")
    config = merged(files)
    with TemporaryDirectory() as folder:
        released = unpack(evidence, Path(folder))
        verdicts = dict(released.claims.select("id", "verdict").rows())
        for name in names or [one.id for one in claims() if one.id not in THEOREMS]:
            needed = _needed(known[name], released.evidence, config)
            if out is None:
                print(f"{name}  {verdicts[name]}: {_summary(needed, config, files)}")
                continue
            if not _trained(needed):
                raise ConfigError(f"{name} ({verdicts[name]}) rests on no training: `python -m rankbound_study claims`")
            with atomic_path(out) as temporary:
                text = f"# What decides {name}: {known[name].claim}\n# The released verdict: {verdicts[name]}.\n"
                temporary.write_text(text + yaml.safe_dump(needed, sort_keys=False), "utf-8")
            print(f"{name}: {known[name].claim}\nreleased verdict: {verdicts[name]}\n{_summary(needed, config, files)}")


def _needed(claim: Claim, evidence: Evidence, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a configuration of what a claim asks for; empty for one that needs no training."""
    asked = _Asked(**{one.name: getattr(evidence, one.name) for one in fields(evidence)}, claim=claim.id)
    try:
        deciders()[claim.id](asked)
    except (MissingEvidence, Untrained):
        # It would have asked for more: for the data sets that it is about.
        if asked.places and MOVIELENS in claim.datasets:
            asked.places.update(DataSet(MOVIELENS, nsr) for nsr in config["interactions"][MOVIELENS]["nsr"])
        if asked.places and MQ2008.split("-")[0] in claim.datasets:
            asked.places.add(DataSet(MQ2008, None))
    # Comparisons by the number of features are read as files, and by one claim alone.
    by_features = "number of features" in claim.how_to_test
    compared = [
        name
        for name in config["compare"]
        if (by_features if "by-features" in name else asked.compared & set(config["comparisons"][name]["datasets"]))
    ]
    axes = [part for part in claim.shape.values() if "losses" in part or "boundings" in part]
    losses = {loss for part in axes for loss in part.get("losses", config["losses"])} or set(config["losses"])
    boundings = {one for part in axes for one in part.get("boundings", config["boundings"])} | {UNBOUNDED}
    if not axes or asked.experiments_read:
        losses, boundings = set(config["losses"]), set(config["boundings"])
    if not asked.places and compared:
        # Every study has a bounded half: here, one training job.
        asked.places.add(DataSet(MQ2008, None))
        losses, boundings = {"nDCG"}, {UNBOUNDED}
    ratios = sorted({nsr for _, nsr in asked.places if nsr is not None})
    datasets = {dataset.split("-label")[0] for dataset, _ in asked.places}
    thresholds = sorted({int(name.split("-label")[1]) for name, _ in asked.places if "-label" in name}, reverse=True)
    # Of an experiment, the data sets that the claim reads.
    read = {dataset if nsr is None else f"{dataset}-nsr{nsr}" for dataset, nsr in asked.places}
    varied = {
        name: {"datasets": [one for one in config["experiments"][name]["datasets"] if one in read]}
        for name in config["experiment"]
        if name in asked.experiments_read
    }
    place = f"results/claims/{claim.id}"
    return {
        "pathvars": {"results": place, "logs": f"{place}/logs"},
        "protocols": [HONEST],
        "datasets": [one for one in config["datasets"] if one in datasets],
        **({"interactions": {"movielens": {"nsr": ratios}}} if ratios else {}),
        **({"lists": {"mq2008": {"thresholds": thresholds}}} if thresholds else {}),
        "losses": [one for one in config["losses"] if one in losses],
        "boundings": [one for one in config["boundings"] if one in boundings],
        **({"experiments": varied} if varied else {}),
        "experiment": [*varied],
        "compare": compared,
        "figures": [],
        "tables": ["table_5_1", "table_claims"],
    }


def _trained(needed: dict[str, Any]) -> list[str]:
    return [*needed["datasets"], *needed["experiment"], *needed["compare"]]


def _summary(needed: dict[str, Any], config: Mapping[str, Any], files: Sequence[Path]) -> str:
    if not (parts := _trained(needed)):
        return "no training"
    merge(own := deepcopy(dict(config)), needed)
    study = Study(check_config(own, files))
    time, _, _ = str(estimated(study, study.jobs)).partition(";")
    return f"{', '.join(parts)}; {quantity(len(study.jobs), 'training job')}, {time}"
