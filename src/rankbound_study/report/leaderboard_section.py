"""The report's sections on the leaderboard, and its first findings: what ranks best, by how much, at what cost."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from rankbound_study.claims.leaderboard import ALIKE, BASELINE, BEST, BETTER, COLUMNS, TOPICS, UNDECIDED, WORSE
from rankbound_study.claims.rules import Sample
from rankbound_study.config.data_sets import DataSet
from rankbound_study.figures.leaderboard import system_text
from rankbound_study.provenance.manifest import Manifest
from rankbound_study.report.columns import Column, Layout, Row, TableBlock
from rankbound_study.report.content import Figures, Finding, ReportSection, figures_named, finding
from rankbound_study.report.provenance_section import settings_table
from rankbound_study.report.tables import leaderboard
from rankbound_study.results.scores import SYSTEM, names_of, of_data_set
from rankbound_study.results.study_files import probability, read_facts, read_table
from rankbound_study.templates import text

FILE = "leaderboard.md"
NAMED_TOPICS = 5
"""Topics that are named at either end of the differences."""

_KEY = ("dataset", "nsr", *SYSTEM)
_OPPOSITE = {BETTER: WORSE, WORSE: BETTER}


@dataclass(frozen=True)
class Leaderboard:
    """The leaderboard's tables; without rows if it was not made.

    Attributes:
        table: a row per data set and system.
        topics: the differences by topic.
        facts: what the data are.
        costs: the processor seconds of the trainings by `_KEY`, from their records.
    """

    table: pl.DataFrame
    topics: pl.DataFrame
    facts: Mapping[str, Any]
    costs: Mapping[tuple[Any, ...], float]

    @classmethod
    def read(cls, folder: Path, manifest: Manifest | None) -> "Leaderboard":
        """Read the tables in a folder, and the costs in the records."""
        path = folder / f"{leaderboard.NAME}.csv"
        if not path.exists():
            return cls(pl.DataFrame(schema=COLUMNS), pl.DataFrame(schema=TOPICS), {"margin": 0, "data_sets": []}, {})
        table, topics = read_table(path, COLUMNS), read_table(folder / f"{leaderboard.NAME}_topics.csv", TOPICS)
        return cls(table, topics, read_facts(folder / leaderboard.SUMMARY, leaderboard.FACTS), _costs(manifest))

    @property
    def made(self) -> bool:
        """True if there is a leaderboard with systems."""
        return bool(len(self.table))

    def findings(self) -> Iterator[Finding]:
        """Report for each data set what ranks best, how it compares, and what it took; then the effect of bounding.

        Without a model that trained, the finding is that there is none.
        """
        yield from self._by_data_set(self._finding)
        yield from self._effect_of_bounding()

    def sections(self, results: Path, figures: Figures, *, synthetic: bool) -> Iterator[ReportSection]:
        """Yield the section with the tables, and one with the figures."""
        if self.table.is_empty():
            return
        settings = settings_table(results / "experiments.parquet")
        others = (replace(block, name="Settings of the experiments") for block in settings)
        boards = leaderboard.blocks_of(self.table, self.facts["margin"], self._seconds)
        blocks = (*boards, *self._named_topics(), *others)
        yield ReportSection("leaderboard", "Leaderboard", text(FILE, "opening"), blocks)
        if drawn := tuple(figures.blocks(figures_named("figure_leaderboard_"), synthetic=synthetic)):
            yield ReportSection("leaderboard-figures", "Figures of the leaderboard", "", drawn)

    def advice(self) -> Iterator[ReportSection]:
        """Yield the last section: for each data set which system to take, or how many topics would tell."""
        if found := tuple(self._by_data_set(self._advice)):
            yield ReportSection("advice", "What to do", "", findings=found)

    def _by_data_set(self, find: Callable[[str, Row, pl.DataFrame, Row], Finding]) -> Iterator[Finding]:
        """Yield what is found of the best system of each data set, by its label, its facts, its rows and the best."""
        for facts in self.facts["data_sets"]:
            data_set = DataSet(facts["dataset"], facts["nsr"])
            own = of_data_set(self.table, data_set, "nsr")
            best = own.filter(pl.col("role") == BEST)
            if len(best):
                yield find(data_set.label, facts, own, best.row(0, named=True))
            elif stuck := own.filter(pl.col("n_untrained") > 0).height:
                yield finding(FILE, "none-trained", label=data_set.label, stuck=stuck)

    def _advice(self, label: str, facts: Row, own: pl.DataFrame, best: Row) -> Finding:
        others = own.filter(pl.col("rank") > 1, pl.col("best_verdict").is_not_null())
        open_ones = others.filter(pl.col("best_verdict") == UNDECIDED, pl.col("best_low").is_not_null())
        needed = [
            Sample.of_interval(row["best_low"], row["best_high"], row["n_topics"], self.facts["margin"]).topics_needed
            for row in open_ones.iter_rows(named=True)
        ]
        baseline = own.filter(pl.col("role") == BASELINE)["model"].to_list()
        return finding(
            FILE,
            "advice",
            label=label,
            name=_name(own, best),
            others=len(others),
            needed=max(filter(None, needed), default=0),
            baseline="" if str(best["baseline_verdict"]).startswith(BETTER) else "".join(baseline),
            margin=self.facts["margin"],
            **{name: best[name] for name in ("n_topics", "n_seeds", "metric")},
            **_verdict_counts(others["best_verdict"]),
        )

    def _finding(self, label: str, facts: Row, own: pl.DataFrame, best: Row) -> Finding:
        verdicts = _verdict_counts(own.filter(pl.col("rank") > 1)["best_verdict"].drop_nulls())
        alike = f"alike within ±{self.facts['margin']:g}"
        words = ("significantly better", "significantly worse", alike, "inconclusive")
        ranked = own.filter(pl.col("rank").is_not_null())
        highest = ranked.sort("score", "rank", descending=[True, False]).row(0, named=True)
        of_all = sum(self._seconds(row) or 0 for row in own.iter_rows(named=True))
        of_best = self._seconds(best)
        return finding(
            FILE,
            "best",
            list(_beside_best(own, best, facts["partner"])),
            label=label,
            name=_name(own, best),
            data=facts,
            verdicts=list(verdicts.values()),
            counts=[f"{count} {word}" for word, count in zip(words, verdicts.values(), strict=True) if count],
            highest=highest | {"name": _name(own, highest)},
            time="" if of_best is None else _time(of_all),
            time_of_best="" if of_best is None else _time(of_best),
            **{name: best[name] for name in ("metric", "score", "low", "high", "n_skipped", "rank")},
        )

    def _effect_of_bounding(self) -> Iterator[Finding]:
        """Count the verdicts on bounded systems beside the unbounded ones of the same model and loss."""
        bounded = self.table.filter(pl.col("counterpart_verdict").is_not_null())
        if bounded.is_empty():
            return
        rows = [
            {"model": own["model"][0], "cases": len(own), "mean": own["counterpart_difference"].to_numpy().mean()}
            | _verdict_counts(own["counterpart_verdict"])
            for own in bounded.partition_by("model", maintain_order=True)
        ]
        counts = _verdict_counts(bounded["counterpart_verdict"])
        yield finding(FILE, "bounding", rows, cases=len(bounded), margin=self.facts["margin"], **counts)

    def _seconds(self, row: Row) -> float | None:
        return self.costs.get(tuple(row[name] for name in _KEY))

    def _named_topics(self) -> Iterator[TableBlock]:
        """Yield the topics with the largest differences on either side."""
        rows = []
        for part in self.topics.partition_by("dataset", "nsr", "role", maintain_order=True):
            ends = part.tail(NAMED_TOPICS).reverse().to_dicts()
            ends += [row for row in part.head(NAMED_TOPICS).to_dicts() if row not in ends]
            rows += [row for row in ends if row["difference"]]
        if rows:
            yield Layout.of(FILE, "topics", formats={"system": Column("", None, system_text)}).of_rows(rows)


def _costs(manifest: Manifest | None) -> dict[tuple[Any, ...], float]:
    """Return the processor seconds of the honest trainings in the records."""
    costs: dict[tuple[Any, ...], float] = {}
    for step in manifest.steps if manifest else ():
        options = step.arguments.get("options")
        if step.subcommand != "job" or not isinstance(options, Mapping) or "variant" not in options:
            continue
        if options.get("protocol") == "honest" and step.cpu_seconds:
            model = options["model"]["name"]
            key = (options["dataset"], options["nsr"], options["variant"], model, options["loss"], options["bounding"])
            costs[key] = costs.get(key, 0.0) + step.cpu_seconds
    return costs


def _name(own: pl.DataFrame, row: Row) -> str:
    """Return a system in words: `mlp trained on nDCG with min-max bounding`."""
    model = names_of(own)[tuple(row[name] for name in SYSTEM)]
    if row["loss"] == "none":
        return model
    bound = "without a bound" if row["bounding"] == "none" else f"with {row['bounding']} bounding"
    return f"{model} trained on {row['loss']} {bound}"


def _verdict_counts(verdicts: pl.Series) -> dict[str, int]:
    """Count verdicts by kind, in the order of the words of `verdict`."""
    return {kind: int(verdicts.str.starts_with(kind).sum()) for kind in (BETTER, WORSE, ALIKE, UNDECIDED)}


def _beside_best(own: pl.DataFrame, best: Row, partner: Sequence[str] | None) -> Iterator[Row]:
    """Yield the differences of the best system: from its partner, the next one, the baseline and random."""
    by_key = {tuple(row[name] for name in SYSTEM): row for row in own.iter_rows(named=True)}
    chosen: dict[tuple[str, ...], str] = {} if partner is None else {tuple(partner): ""}
    for key, row in by_key.items():
        if row["rank"] == 2 or row["role"] == BASELINE or (row["loss"], row["model"]) == ("none", "random"):
            chosen[key] = " (rank 2)" if row["rank"] == 2 else " (baseline)" if row["role"] == BASELINE else ""
    for key, role in chosen.items():
        if key in by_key and by_key[key][f"{BEST}_difference"] is not None:
            row = by_key[key]
            # The table has this one minus the best.
            word, comma, within = row[f"{BEST}_verdict"].partition(",")
            yield {
                "it is compared with": f"{system_text(row)}{role}",
                "difference": -row[f"{BEST}_difference"],
                "low": -row[f"{BEST}_high"],
                "high": -row[f"{BEST}_low"],
                "p": probability(row[f"{BEST}_p_holm"]),
                "verdict": f"{_OPPOSITE.get(word, word)}{comma}{within}",
            }


def _time(seconds: float) -> str:
    """Return a duration in the unit that fits."""
    for unit, length in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} seconds"
