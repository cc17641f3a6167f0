"""The sections of the report on the leaderboard, whose findings come first, and on the neural-ranking study.

Differences of the latter are those of the files `table_neural_*_comparisons.csv`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from rankbound_study.claims.leaderboard import ALIKE, BASELINE, BEST, BETTER, COLUMNS, TOPICS, UNDECIDED, WORSE
from rankbound_study.claims.rules import Sample
from rankbound_study.config.data_sets import SYNTHETIC, DataSet
from rankbound_study.figures.from_tables import system_text
from rankbound_study.provenance.manifest import Manifest
from rankbound_study.report.blocks import Finding, Layout, ReportSection, Row, finding
from rankbound_study.report.claims import Claims
from rankbound_study.report.content import Figures, table_blocks
from rankbound_study.report.methods import settings_table
from rankbound_study.report.numbers import four, signed
from rankbound_study.report.tables import leaderboard
from rankbound_study.report.tables import neural as tables
from rankbound_study.results import neural
from rankbound_study.results.scores import SYSTEM, names_of, of_data_set
from rankbound_study.results.study_files import probability, read_facts, read_table
from rankbound_study.templates import text

BOARD = "leaderboard.md"
NAMED_TOPICS = 5
"""Topics that are named at either end of the differences."""

_KEY = ("dataset", "nsr", *SYSTEM)


@dataclass(frozen=True)
class Leaderboard:
    """The leaderboard's tables; without rows if it was not made.

    Attributes:
        table: a row per data set and system, with the processor `seconds` of its trainings, from their records.
        topics: the differences by topic.
        facts: what the data are.
    """

    table: pl.DataFrame
    topics: pl.DataFrame
    facts: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path, manifest: Manifest | None) -> "Leaderboard":
        """Read the tables in a folder, and the costs of the honest trainings in the records."""
        path = folder / f"{leaderboard.NAME}.csv"
        if not path.exists():
            return cls(pl.DataFrame(schema=COLUMNS), pl.DataFrame(schema=TOPICS), {"margin": 0, "data_sets": []})
        table, topics = read_table(path, COLUMNS), read_table(folder / f"{leaderboard.NAME}_topics.csv", TOPICS)
        seconds: dict[tuple[Any, ...], float] = {}
        for step in manifest.steps if manifest else ():
            options = step.arguments.get("options")
            if step.subcommand != "job" or not isinstance(options, Mapping) or "variant" not in options:
                continue
            if options.get("protocol") == "honest" and step.cpu_seconds:
                key = tuple({**options, "model": options["model"]["name"]}[name] for name in _KEY)
                seconds[key] = seconds.get(key, 0.0) + step.cpu_seconds
        costs = pl.Series("seconds", [seconds.get(key) for key in table.select(_KEY).rows()], pl.Float64)
        return cls(table.with_columns(costs), topics, read_facts(folder / leaderboard.SUMMARY, leaderboard.FACTS))

    def findings(self) -> Iterator[Finding]:
        """Report for each data set what ranks best, how it compares, and what it took; then the effect of bounding.

        Without a model that trained, the finding is that there is none.
        """
        yield from self._by_data_set(self._finding)
        bounded = self.table.filter(pl.col("counterpart_verdict").is_not_null())
        # The verdicts on bounded systems beside the unbounded ones of the same model and loss.
        rows = [
            {"model": own["model"][0], "cases": len(own), "mean": own["counterpart_difference"].to_numpy().mean()}
            | _verdict_counts(own["counterpart_verdict"])
            for own in bounded.partition_by("model", maintain_order=True)
        ]
        if rows:
            counts = _verdict_counts(bounded["counterpart_verdict"])
            yield finding(BOARD, "bounding", rows, cases=len(bounded), margin=self.facts["margin"], **counts)

    def sections(self, results: Path, figures: Figures) -> Iterator[ReportSection]:
        """Yield the section with the tables, and one with the figures."""
        if self.table.is_empty():
            return
        settings = settings_table(results / "experiments.parquet")
        others = (replace(block, name="Settings of the experiments") for block in settings)
        boards = leaderboard.blocks_of(self.table, self.facts["margin"])
        # The topics with the largest differences on either side.
        rows = []
        for part in self.topics.partition_by("dataset", "nsr", "role", maintain_order=True):
            ends = part.tail(NAMED_TOPICS).reverse().to_dicts()
            ends += [row for row in part.head(NAMED_TOPICS).to_dicts() if row not in ends]
            rows += [row for row in ends if row["difference"]]
        named = [Layout.of(BOARD, "topics", formats={"system": system_text})(rows)] if rows else []
        yield ReportSection("leaderboard", "Leaderboard", text(BOARD, "opening"), (*boards, *named, *others))
        if drawn := tuple(figures.blocks("figure_leaderboard_")):
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
                yield finding(BOARD, "none-trained", label=data_set.label, stuck=stuck)

    def _advice(self, label: str, facts: Row, own: pl.DataFrame, best: Row) -> Finding:
        others = own.filter(pl.col("rank") > 1, pl.col("best_verdict").is_not_null())
        open_ones = others.filter(pl.col("best_verdict") == UNDECIDED, pl.col("best_low").is_not_null())
        needed = [
            Sample.of_interval(row["best_low"], row["best_high"], row["n_topics"], self.facts["margin"]).topics_needed
            for row in open_ones.iter_rows(named=True)
        ]
        baseline = own.filter(pl.col("role") == BASELINE)["model"].to_list()
        return finding(
            BOARD,
            "advice",
            label=label,
            name=_name(own, best),
            others=len(others),
            needed=max(filter(None, needed), default=0),
            baseline="" if str(best["baseline_verdict"]).startswith(BETTER) else "".join(baseline),
            margin=self.facts["margin"],
            **best,
            **_verdict_counts(others["best_verdict"]),
        )

    def _finding(self, label: str, facts: Row, own: pl.DataFrame, best: Row) -> Finding:
        verdicts = _verdict_counts(own.filter(pl.col("rank") > 1)["best_verdict"].drop_nulls())
        ranked = own.filter(pl.col("rank").is_not_null())
        highest = ranked.sort("score", "rank", descending=[True, False]).row(0, named=True)
        return finding(
            BOARD,
            "best",
            list(_beside_best(own, best, facts["partner"])),
            label=label,
            name=_name(own, best),
            data=facts,
            others=sum(verdicts.values()),
            margin=self.facts["margin"],
            highest=highest | {"name": _name(own, highest)},
            time="" if best["seconds"] is None else _time(sum(own["seconds"].drop_nulls())),
            time_of_best="" if best["seconds"] is None else _time(best["seconds"]),
            **best,
            **verdicts,
        )


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
            opposite = {BETTER: WORSE, WORSE: BETTER}.get(word, word)
            yield {
                "it is compared with": f"{system_text(row)}{role}",
                "difference": -row[f"{BEST}_difference"],
                "low": -row[f"{BEST}_high"],
                "high": -row[f"{BEST}_low"],
                "p": probability(row[f"{BEST}_p_holm"]),
                "verdict": f"{opposite}{comma}{within}",
            }


def _time(seconds: float) -> str:
    """Return a duration in the unit that fits."""
    for unit, length in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} seconds"


NEURAL = "neural.md"
SAME_MODELS = (
    ("RankNet", "Class-NN"),
    ("Rank-LR", "Class-LR"),
    ("LambdaMART", "Class-Boost"),
    ("RankNet", "Reg-NN"),
    ("Reg-NN", "Class-NN"),
    ("RankCNN", "Class-CNN"),
)
"""Pairs of methods that fit one model to the same lists and features for two of the three tasks."""


@dataclass(frozen=True)
class Results:
    """One table on one data set, from its files: scores, and comparisons of pairs of methods."""

    about: neural.Printed
    scores: pl.DataFrame
    comparisons: pl.DataFrame

    @property
    def synthetic(self) -> bool:
        """True if the data are generated."""
        return str(self.scores["dataset"][0] or "").startswith(SYNTHETIC)

    @property
    def data(self) -> str:
        """The title of the data set."""
        pixels = self.about.number == neural.TABLES[1].number and not self.synthetic
        return f"{neural.data_set_title(self.scores['dataset'][0] or '')}{', pixels' * pixels}"

    def mean(self, method: str, metric: str | None = None) -> float | None:
        """Return a method's mean; None if it has not run."""
        return next(iter(self.scores.filter(method=method, metric=metric or self.about.metric)["ours"]), None)

    def printed(self, method: str) -> float | None:
        """Return the score that the paper prints for a method, on any data set."""
        own = neural.printed_scores(self.about).filter(method=method.removesuffix(neural.AS_PRINTED))
        return next(iter(own["printed"]), None)

    def of_families(self, *families: str) -> list[str]:
        """Return the methods of families that have run, by family."""
        ran = self.scores.filter(pl.col("ours").is_not_null(), metric=self.about.metric)
        return [name for one in families for name in ran.filter(family=one)["method"]]

    def compared(self, method: str, other: str) -> dict[str, Any] | None:
        """Return the difference of two methods and its interval (difference, low, high); None unless both have run."""
        for first, second, sign in ((method, other, 1), (other, method, -1)):
            for row in self.comparisons.filter(method=first, other=second).iter_rows(named=True):
                low, high = sorted((sign * row["low"], sign * row["high"]))
                return {"difference": sign * row["difference"], "low": low, "high": high}
        return None


def read_results(folder: Path) -> list[Results]:
    """Read the study's tables in a folder, one per table and data set, in the paper's order."""
    results = []
    for about in neural.TABLES:
        if (folder / f"{about.name}.csv").exists():
            comparisons = read_table(folder / f"{about.name}_comparisons.csv", tables.COMPARISON_COLUMNS)
            scores = read_table(folder / f"{about.name}.csv", tables.COLUMNS)
            for own in scores.partition_by("dataset", maintain_order=True):
                beside = comparisons.filter(pl.col("dataset").eq_missing(pl.lit(own["dataset"][0])))
                results.append(Results(about, own, beside))
    return results


def facts(results: Sequence[Results]) -> Iterator[Finding]:
    """Yield the facts of all tables with scores on real data."""
    for table in results:
        if not table.synthetic and table.scores["ours"].count():
            yield from _readings(table) if table.about.of_faces else _above_random(table)
            yield from _same_models(table)
            yield from _as_printed(table)


def _above_random(web: Results) -> Iterator[Finding]:
    """Compare the printed score of LambdaMART and ours with a random ordering."""
    random, lambdamart, printed = web.mean("random"), web.mean("LambdaMART"), web.printed("LambdaMART")
    if random is None or lambdamart is None or printed is None:
        return
    means = [web.mean(method) or 0.0 for method in web.of_families(*neural.FAMILIES)]
    every = neural.printed_scores(web.about)["printed"]
    row = web.scores.filter(pl.col("ours").is_not_null(), pl.col("family") != neural.CONTROL).row(0, named=True)
    yield finding(
        NEURAL,
        "above-random",
        ours=lambdamart,
        data=web.data,
        place=1 + sum(mean > lambdamart for mean in means),
        random=random,
        above=sum(mean > random for mean in means),
        methods=len(means),
        printed=printed,
        printed_place=1 + (every > printed).sum(),
        printed_methods=len(every),
        dataset=web.about.dataset,
        **{name: row[name] for name in ("n", "n_skipped")},
    )


def _readings(faces: Results) -> Iterator[Finding]:
    """Compare the printed classifiers, which score below 0.5, with two ways of counting a pair (N18 of the errata)."""
    metrics = {"score": None, **dict(zip(("right", "same", "wrong"), neural.READINGS, strict=False))}
    rows: list[dict[str, Any]] = [
        {"method": name, "printed": faces.printed(name)}
        | {title: faces.mean(name, metric) for title, metric in metrics.items()}
        for name in faces.of_families("classification")
    ]
    if printed := [row["printed"] for row in rows if row["printed"] is not None]:
        by_score, both = ([row[title] or 0.0 for row in rows] for title in ("score", "right"))
        spans = {"by_score": _span(by_score, four), "printed": _span(printed, four), "both": _span(both, four)}
        yield finding(NEURAL, "readings", rows, data=faces.data, **spans)


def _span(values: Sequence[float], write: Callable[[float], str]) -> str:
    return f"{write(min(values))} to {write(max(values))}" if len(values) > 1 else write(values[0])


def _same_models(table: Results) -> Iterator[Finding]:
    """Compare the differences between tasks, ours and printed."""
    rows, inside = [], []
    for method, other in SAME_MODELS:
        if (ours := table.compared(method, other)) is None:
            continue
        first, second = table.printed(method), table.printed(other)
        printed = None if first is None or second is None else first - second
        inside += [] if printed is None else [ours["low"] <= printed <= ours["high"]]
        rows.append({"methods": f"{method} − {other}", "printed": printed, **ours})
    if rows:
        counts = {"outside": inside.count(False), "known": len(inside)}
        about = {"of_faces": table.about.of_faces, "metric": table.about.metric, "dataset": table.about.dataset}
        yield finding(NEURAL, "same-models", rows, data=table.data, **about, **counts)


def _as_printed(table: Results) -> Iterator[Finding]:
    """Compare the paper's optimiser, learning rate and batches with ours."""
    rows = []
    for name in table.of_families(*neural.FAMILIES):
        base = name.removesuffix(neural.AS_PRINTED)
        if base != name and (change := table.compared(name, base)) is not None:
            rows.append({"method": base, "theirs": table.mean(name), "ours": table.mean(base), **change})
    if rows:
        random = four(0.5 if table.about.of_faces else table.mean("random"))
        span = _span([row["difference"] for row in rows], signed)
        yield finding(NEURAL, "as-printed", rows, data=table.data, span=span, random=random)


def neural_sections(tables: Path, figures: Figures, claims: Claims) -> Iterator[ReportSection]:
    """Yield the study's sections; nothing if the study has no tables."""
    results = read_results(tables)
    if not results:
        return
    synthetic = any(table.synthetic for table in results)
    listed = () if all(table.synthetic for table in results) else claims.of_source("N")
    opening = " ".join(text(NEURAL, name) for name in ("opening", *["generated"] * synthetic))
    shown = (*listed, *table_blocks("neural", tables))
    yield ReportSection("neural", "Neural networks in ranking", opening, shown, tuple(facts(results)))
    drawn = tuple(figures.blocks("figure_neural_"))
    yield ReportSection("neural-figures", "Figures of neural ranking", "", drawn)
