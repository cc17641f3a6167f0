"""The results of a study, as read by the functions that decide claims.

Claims are about MovieLens, MQ2008 and faces; a generated stand-in replaces a missing data set, so a demonstration
decides all claims, about its stand-ins. Runs are those of the honest protocol. Those of models that did not train (see
`rankbound_study.results.trained`) are left out, unless a claim is about training itself.
"""

from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import polars as pl

from rankbound_study.claims.verdict import MissingEvidence, Untrained
from rankbound_study.config.data_sets import SYNTHETIC, DataSet
from rankbound_study.results.study_files import scan_runs
from rankbound_study.results.trained import JOB, read_trainings
from rankbound_study.vocabulary import HONEST, SELECTIONS, UNBOUNDED, VARIANT

KEY = ("dataset", "nsr_test", "model", "loss", "bounding", "fold", "seed", "drawing", "topic", "n", "p", "epoch")


@dataclass(frozen=True)
class Evidence:
    """The files of a results folder.

    Attributes:
        study: the study's name in its runs.
        runs, epochs: all runs, and the measurements of every epoch.
        experiments, experiment_epochs: the same for the experiments.
        predictions, weights: the files of the methods that were trained on pictures.
        images: the pictures, with their ages.
        with_untrained: keep the runs of models that did not train.
        left_out: descriptions of those that one claim asked for and that are left out (see `for_one_claim`).
    """

    study: str
    runs: Path | None = None
    epochs: Path | None = None
    experiments: Path | None = None
    experiment_epochs: Path | None = None
    predictions: tuple[Path, ...] = ()
    weights: tuple[Path, ...] = ()
    images: Path | None = None
    with_untrained: bool = False
    left_out: set[str] = field(default_factory=set, compare=False, repr=False)

    def for_one_claim(self) -> "Evidence":
        """Return the same results with an empty `left_out`, in which they note what they leave out of one claim."""
        # Read once for all claims: the copy keeps it.
        assert self._untrained is not None
        own = copy(self)
        object.__setattr__(own, "left_out", set())
        return own

    def of_all_trainings(self) -> "Evidence":
        """Return the same results with those of models that did not train, for claims about training itself."""
        return replace(self, with_untrained=True)

    def trained(self, loss: str, bounding: str, *columns: DataSet) -> bool:
        """Return False, and note it in `left_out`, if a training of the study's own on these data did not train."""
        if not len(self._untrained):
            return True
        own = self._untrained.filter(study=self.study, protocol=HONEST, loss=loss, bounding=bounding)
        found = [one for one in columns if len(own.filter(self._is_on(one.dataset, one.nsr)))]
        self.left_out.update(_described(loss, bounding, one) for one in found)
        return not found

    def cell(
        self, dataset: str, nsr: int | None = None, *, selection: str = SELECTIONS[HONEST], study: str = ""
    ) -> pl.LazyFrame:
        """Scan the rows of one data set (at one ratio), of trained models and controls.

        Args:
            dataset: its name in claims: `movielens`, `mq2008-label1`, `aaf`.
            nsr: sampled negatives per relevant item; None for judged lists and pictures.
            selection: the part that picked the epoch.
            study: a study other than the evidence's own, such as `neural` for the comparisons.

        Raises:
            MissingEvidence: there are no such rows.
        """
        chosen = (
            (pl.col("study") == (study or self.study))
            & (pl.col("protocol") == HONEST)
            & self._is_on(dataset, nsr)
            & ((pl.col("selection") == selection) | (pl.col("loss") == "none"))
        )
        rows = self._scan(self.runs, "runs").filter(chosen)
        if rows.select(pl.len()).collect().item() == 0:
            ratio = "" if nsr is None else f" at NSR {nsr}"
            raise MissingEvidence(
                f"no {HONEST} runs on {dataset}{ratio}: protocols and datasets of the configuration leave them out"
            )
        return self._that_trained(rows)

    def epochs_of(self, dataset: str, nsr: int | None = None) -> pl.LazyFrame:
        """Scan the epochs of the study's own honest trainings on a data set."""
        chosen = self._is_on(dataset, nsr) & (pl.col("study") == self.study) & (pl.col("protocol") == HONEST)
        return self._scan(self.epochs, "epochs").filter(chosen)

    def varied(self, experiment: str, dataset: str, nsr: int | None = None) -> dict[str, pl.LazyFrame]:
        """Scan the rows of every variant of an experiment on a data set, by the variant's name (`f16`).

        The same models under the study's own settings are in `cell`.

        Raises:
            MissingEvidence: the experiment did not run there.
            Untrained: it ran, but none of its models trained.
        """
        found = self.variants(experiment, dataset, nsr)
        if not found:
            if self.note_untrained(experiment, dataset, nsr):
                raise Untrained(f"The experiment {experiment} ran on {DataSet(dataset, nsr)}, but no model trained")
            raise MissingEvidence(f"the experiment {experiment} did not run on {dataset}: see config.yaml")
        return {name: rows.filter(pl.col("selection") == SELECTIONS[HONEST]) for name, rows in found.items()}

    def variants(
        self, experiment: str, dataset: str, nsr: int | None = None, *, of_epochs: bool = False
    ) -> dict[str, pl.LazyFrame]:
        """Scan the rows (or epochs) of every variant, of all selections; empty if the experiment did not run.

        Without a name of an experiment, the variants are those of all, by `factors-f16`.

        Variants none of whose models trained are left out, and noted in `left_out`.
        """
        path = self.experiment_epochs if of_epochs else self.experiments
        rows = self._scan(path, "experiments").filter(self._is_in(experiment), self._is_on(dataset, nsr))
        rows = self._that_trained(rows)
        self.note_untrained(experiment, dataset, nsr)
        names = rows.select("study").unique().sort("study").collect()["study"].to_list()
        start = self._start(experiment)
        return {name.removeprefix(start): rows.filter(pl.col("study") == name) for name in names}

    def note_untrained(self, experiment: str, dataset: str, nsr: int | None = None) -> list[str]:
        """Note in `left_out` the jobs of an experiment with a training that did not train; return their names."""
        if not len(self._untrained):
            return []
        own = self._untrained.filter(self._is_in(experiment), self._is_on(dataset, nsr))
        start, column = self._start(experiment), DataSet(dataset, nsr)
        jobs = own.select("study", "loss", "bounding").rows()
        names = [_described(loss, bounding, column, study.removeprefix(start)) for study, loss, bounding in jobs]
        self.left_out.update(names)
        return names

    def untrained(self) -> list[str]:
        """Return the names of all jobs with a training that did not train."""
        jobs = self._untrained.select("loss", "bounding", "dataset", "nsr_test").unique().rows()
        return sorted(_described(loss, bounding, DataSet(*column)) for loss, bounding, *column in jobs)

    def _start(self, experiment: str) -> str:
        return f"{self.study}{VARIANT}{experiment}-" if experiment else f"{self.study}{VARIANT}"

    def _is_in(self, experiment: str) -> pl.Expr:
        return pl.col("study").str.starts_with(self._start(experiment))

    def _is_on(self, dataset: str, nsr: int | None) -> pl.Expr:
        return (pl.col("dataset") == self._named(dataset)) & pl.col("nsr_test").eq_missing(pl.lit(nsr))

    def ratios(self, dataset: str) -> list[int]:
        """Return the negative sampling ratios of the honest runs on a data set of ratings; 0 is none."""
        rows = self._scan(self.runs, "runs").filter(
            pl.col("dataset") == self._named(dataset),
            pl.col("protocol") == HONEST,
            pl.col("study") == self.study,
            pl.col("nsr_test") > 0,
        )
        found: list[int] = rows.select("nsr_test").unique().sort("nsr_test").collect()["nsr_test"].to_list()
        if not found:
            raise MissingEvidence(f"no honest runs on {dataset}")
        return found

    @cached_property
    def data_sets(self) -> tuple[DataSet, ...]:
        """The data sets of the study's own honest trainings, in the order of all tables; none without runs."""
        if self.runs is None:
            return ()
        own = (pl.col("protocol") == HONEST) & (pl.col("study") == self.study) & (pl.col("loss") != "none")
        found = scan_runs(self.runs).filter(own).select("dataset", "nsr_test").unique().collect()
        return tuple(sorted(map(DataSet._make, found.rows()), key=lambda one: one.place))

    @cached_property
    def _untrained(self) -> pl.DataFrame:
        """The jobs with a training that did not train; none if these count, too."""
        files = (self.runs, self.epochs), (self.experiments, self.experiment_epochs)
        trainings = read_trainings(*([] if self.with_untrained else files))
        return trainings.filter(pl.col("cause").is_not_null()).select(JOB).unique().sort(JOB)

    def _that_trained(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        if not len(self._untrained):
            return rows
        names = rows.collect_schema().names()
        key = [name for name in JOB if name in names]
        return rows.join(
            self._untrained.select(key).lazy(), on=key, how="anti", nulls_equal=True, maintain_order="left"
        )

    def _named(self, dataset: str) -> str:
        """Return the name of the data set, or of its stand-in."""
        for name in (dataset, f"{SYNTHETIC}{dataset}"):
            if name in self._data_sets:
                return name
        raise MissingEvidence(f"no runs on {dataset}")

    @cached_property
    def _data_sets(self) -> frozenset[str]:
        files = [path for path in (self.runs, self.experiments) if path is not None]
        return frozenset(
            name for path in files for name in scan_runs(path).select("dataset").unique().collect()["dataset"]
        )

    @staticmethod
    def _scan(path: Path | None, what: str) -> pl.LazyFrame:
        if path is None:
            raise MissingEvidence(f"no {what}: no file of them was given")
        return scan_runs(path)


def _described(loss: str, bounding: str, column: DataSet, variant: str = "") -> str:
    of_variant = f" (variant {variant})" if variant else ""
    return f"{loss} {'unbounded' if bounding == UNBOUNDED else f'with {bounding} bounding'} on {column}{of_variant}"
