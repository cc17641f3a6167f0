"""The report's sections on the leaderboard, and its first findings: what ranks best, by how much, at what cost."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from rankbound_study.claims.leaderboard import ALIKE, BASELINE, BEST, BETTER, COLUMNS, TOPICS, UNDECIDED, WORSE
from rankbound_study.config.data_sets import DataSet
from rankbound_study.figures import figure_specs
from rankbound_study.figures.style import bounding_title
from rankbound_study.provenance.manifest import Manifest
from rankbound_study.report.blocks import Cell, Finding, ReportSection, TableBlock, changes, plain_rows
from rankbound_study.report.columns import DASH, signed
from rankbound_study.report.made_blocks import Figures
from rankbound_study.report.prose import finding, text
from rankbound_study.report.settings_table import settings_table
from rankbound_study.report.table_files import read_table
from rankbound_study.report.tables import leaderboard
from rankbound_study.report.tables.leaderboard import read_facts
from rankbound_study.results.scores import SYSTEM, names_of
from rankbound_study.results.specs import probability

FILE = "leaderboard.md"
NAMED_TOPICS = 5
"""Topics that are named at either end of the differences."""

_KEY = ("dataset", "nsr", *SYSTEM)
_OPPOSITE = {BETTER: WORSE, WORSE: BETTER}

Costs = Mapping[tuple[Any, ...], float]
"""Processor seconds by `_KEY`."""


@dataclass(frozen=True)
class Leaderboard:
    """The leaderboard's tables; without rows if it was not made.

    Attributes:
        table: a row per data set and system.
        topics: the differences by topic.
        facts: what the data are.
        costs: of the trainings, from their records.
    """

    table: pl.DataFrame
    topics: pl.DataFrame
    facts: Mapping[str, Any]
    costs: Costs

    @classmethod
    def read(cls, folder: Path, manifest: Manifest | None) -> "Leaderboard":
        """Read the tables in a folder, and the costs in the records."""
        path = folder / f"{leaderboard.NAME}.csv"
        if not path.exists():
            return cls(pl.DataFrame(schema=COLUMNS), pl.DataFrame(schema=TOPICS), {"margin": 0, "data_sets": []}, {})
        topics = read_table(folder / f"{leaderboard.NAME}_topics.csv", TOPICS)
        return cls(read_table(path, COLUMNS), topics, read_facts(folder), _costs(manifest))

    @property
    def made(self) -> bool:
        """True if there is a leaderboard with systems."""
        return bool(len(self.table))

    def findings(self) -> Iterator[Finding]:
        """Report for each data set what ranks best, how it compares, and what it took; then the effect of bounding.

        Without a model that trained, the finding is that there is none.
        """
        for facts in self.facts["data_sets"]:
            own = self._of(facts)
            best = own.filter(pl.col("role") == BEST)
            if len(best):
                yield self._finding(facts, own, best.row(0, named=True))
            elif stuck := own.filter(pl.col("n_untrained") > 0).height:
                label = DataSet(facts["dataset"], facts["nsr"]).label
                yield finding(FILE, "none-trained", label=label, stuck=stuck)
        yield from self._effect_of_bounding()

    def sections(self, results: Path, figures: Figures, *, synthetic: bool) -> Iterator[ReportSection]:
        """Yield the section with the tables, and one with the figures."""
        if self.table.is_empty():
            return
        blocks = list(self._blocks())
        settings = settings_table(results / "experiments.parquet")
        others = (replace(block, name="Settings of the experiments") for block in settings)
        yield ReportSection(
            "leaderboard", "Leaderboard", text(FILE, "opening"), (*blocks, *self._named_topics(), *others)
        )
        names = [name for name in figure_specs() if name.startswith("figure_leaderboard_")]
        if drawn := tuple(figures.blocks(names, synthetic=synthetic)):
            yield ReportSection("leaderboard-figures", "Figures of the leaderboard", "", drawn)

    def _of(self, facts: Mapping[str, Any]) -> pl.DataFrame:
        nsr = pl.lit(facts["nsr"], pl.Int8)
        return self.table.filter(pl.col("dataset") == facts["dataset"], pl.col("nsr").eq_missing(nsr))

    def _finding(self, facts: Mapping[str, Any], own: pl.DataFrame, best: Mapping[str, Any]) -> Finding:
        verdicts = _verdict_counts(own.filter(pl.col("rank") > 1)["best_verdict"].drop_nulls().to_list())
        words = (
            "significantly better",
            "significantly worse",
            f"alike within ±{self.facts['margin']:g}",
            "inconclusive",
        )
        ranked = own.filter(pl.col("rank").is_not_null())
        highest = ranked.sort("score", "rank", descending=[True, False]).row(0, named=True)
        seconds = [self.costs.get(tuple(row[name] for name in _KEY)) for row in own.iter_rows(named=True)]
        of_best = self.costs.get(tuple(best[name] for name in _KEY))
        return finding(
            FILE,
            "best",
            ("it is compared with", "difference", "95 % interval", "p (Holm)", "verdict"),
            tuple(_beside_best(own, best, facts["partner"])),
            label=DataSet(facts["dataset"], facts["nsr"]).label,
            name=_name(own, best),
            data=facts,
            verdicts=list(verdicts.values()),
            counts=[f"{count} {word}" for word, count in zip(words, verdicts.values(), strict=True) if count],
            highest=highest | {"name": _name(own, highest)},
            time="" if of_best is None else _time(sum(value for value in seconds if value is not None)),
            time_of_best="" if of_best is None else _time(of_best),
            **{name: best[name] for name in ("metric", "score", "low", "high", "n_skipped", "rank")},
        )

    def _effect_of_bounding(self) -> Iterator[Finding]:
        """Count the verdicts on bounded systems beside the unbounded ones of the same model and loss."""
        bounded = self.table.filter(pl.col("counterpart_verdict").is_not_null())
        if bounded.is_empty():
            return
        counts = _verdict_counts(bounded["counterpart_verdict"].to_list())
        yield finding(
            FILE,
            "bounding",
            ("model", "cases", "better", "worse", ALIKE, UNDECIDED, "mean difference"),
            tuple(
                (
                    str(model),
                    str(len(rows)),
                    *map(str, _verdict_counts(rows["counterpart_verdict"].to_list()).values()),
                    signed(float(rows["counterpart_difference"].to_numpy().mean())),
                )
                for (model,), rows in bounded.group_by("model", maintain_order=True)
            ),
            cases=len(bounded),
            margin=self.facts["margin"],
            **{kind: counts[kind] for kind in (BETTER, WORSE, ALIKE, UNDECIDED)},
        )

    def _blocks(self) -> Iterator[TableBlock]:
        """Yield the leaderboard of each data set with a column of costs, if they are known."""
        parts = self.table.partition_by("dataset", "nsr", maintain_order=True)
        blocks = leaderboard.blocks_of(self.table, self.facts["margin"])
        for block, part in zip(blocks, parts, strict=True):
            seconds = [self.costs.get(tuple(row[name] for name in _KEY)) for row in part.iter_rows(named=True)]
            if not any(value is not None for value in seconds):
                yield block
                continue
            cells = [Cell(DASH if value is None else f"{value:.1f}") for value in seconds]
            rows = tuple((*row, cell) for row, cell in zip(block.rows, cells, strict=True))
            caption = f"{block.caption} Processor seconds are those of all folds and seeds."
            yield replace(block, header=(*block.header, "processor s"), rows=rows, caption=caption)

    def _named_topics(self) -> Iterator[TableBlock]:
        """Yield the topics with the largest differences on either side."""
        rows, groups = [], []
        for part in self.topics.partition_by("dataset", "nsr", "role", maintain_order=True):
            first = part.row(0, named=True)
            label = DataSet(first["dataset"], first["nsr"]).label
            ends = [*part.tail(NAMED_TOPICS).reverse().iter_rows(named=True)]
            ends += [row for row in part.head(NAMED_TOPICS).iter_rows(named=True) if row not in ends]
            for row in ends:
                if row["difference"]:
                    groups.append((label, row["role"]))
                    rows.append((label, _plain_name(row), row["topic"], *_topic_numbers(row)))
        if rows:
            caption = text(FILE, "topics")
            header = ("data set", "best minus", "topic", "items", "relevant", "best", "other", "difference")
            yield TableBlock("Topics that gain and lose", caption, header, plain_rows(rows), 3, changes(groups))


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


def _name(own: pl.DataFrame, row: Mapping[str, Any]) -> str:
    """Return a system in words: `mlp trained on nDCG with min-max bounding`."""
    model = names_of(own)[tuple(row[name] for name in SYSTEM)]
    if row["loss"] == "none":
        return model
    bound = "without a bound" if row["bounding"] == "none" else f"with {row['bounding']} bounding"
    return f"{model} trained on {row['loss']} {bound}"


def _plain_name(row: Mapping[str, Any]) -> str:
    if row["loss"] == "none":
        return str(row["model"])
    return f"{row['model']}, {row['loss']}, {bounding_title(row['bounding'])}"


def _verdict_counts(verdicts: Sequence[str]) -> dict[str, int]:
    """Count verdicts by kind, in the order of the words of `verdict`."""
    return {kind: sum(one.startswith(kind) for one in verdicts) for kind in (BETTER, WORSE, ALIKE, UNDECIDED)}


def _beside_best(
    own: pl.DataFrame, best: Mapping[str, Any], partner: Sequence[str] | None
) -> Iterator[tuple[str, ...]]:
    """Yield the differences of the best system: from its partner, the next one, the baseline and random."""
    by_key = {tuple(row[name] for name in SYSTEM): row for row in own.iter_rows(named=True)}
    chosen: dict[tuple[str, ...], str] = {}
    if partner is not None:
        chosen[tuple(partner)] = ""
    for row in own.iter_rows(named=True):
        if row["rank"] == 2 or row["role"] == BASELINE or (row["loss"], row["model"]) == ("none", "random"):
            role = {2: " (rank 2)"}.get(row["rank"], " (baseline)" if row["role"] == BASELINE else "")
            chosen[tuple(row[name] for name in SYSTEM)] = role
    for key, role in chosen.items():
        if key in by_key and by_key[key][f"{BEST}_difference"] is not None:
            yield (f"{_plain_name(by_key[key])}{role}", *_reversed(by_key[key]))


def _reversed(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the best system minus this one, from this one minus the best."""
    low, high = (signed(-row[f"{BEST}_{side}"]) for side in ("high", "low"))
    word, comma, within = row[f"{BEST}_verdict"].partition(",")
    verdict = f"{_OPPOSITE.get(word, word)}{comma}{within}"
    return signed(-row[f"{BEST}_difference"]), f"{low} to {high}", probability(row[f"{BEST}_p_holm"]), verdict


def _topic_numbers(row: Mapping[str, Any]) -> tuple[str, ...]:
    scores = (f"{row[name]:.4f}" for name in ("best_score", "other_score"))
    return f"{row['items']:g}", f"{row['relevant']:g}", *scores, signed(row["difference"])


def _time(seconds: float) -> str:
    """Return a duration in the unit that fits."""
    for unit, length in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} seconds"
