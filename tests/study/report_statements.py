"""Statements that a report makes in more than one place: verdicts, counts of claims, differences of two methods."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from rankbound_study.claims import verdicts
from rankbound_study.report.blocks import Document, Paragraph, TableBlock, signed, with_minus_signs
from rankbound_study.report.claims import estimate
from rankbound_study.results.neural import AS_PRINTED, TABLES, data_set_title

_NUMBER = r"[+−]\d\.\d{4}(?!\d)"
DIFFERENCE = re.compile(rf"([\w-]+) (?:minus|−) ([\w-]+)(?: is)? ({_NUMBER})(?: \(?({_NUMBER}) to ({_NUMBER}))?")
"""`RankNet minus Class-NN +0.0254 (+0.0134 to +0.0374)`, in a sentence or in the cells of a row."""

_MEAN = re.compile(r"(?<!minus )(?<!− )\b([\w-]+)(?: scores)? (0\.\d{4})(?!\d)")

CLAIM = re.compile(r"\b([TNMWLP]\d\d)\b")
JUDGING = re.compile(r"\b(does not hold|not confirmed|contradict\w*|ruins?|surely|for certain)\b", re.IGNORECASE)
"""Words of a verdict that is no quotation of a claim's."""


@dataclass(frozen=True)
class Statement:
    """A text of the report: where it stands, what it is about, and what it says."""

    place: str
    context: str
    text: str

    def about(self, titles: Iterable[str]) -> list[str]:
        """The data sets that it names; a reason that names faces may say `VGG16` for the features of these."""
        whole = f"{self.context} {self.text}"
        return [title for title in titles if all(part in whole for part in title.removesuffix(" features").split(", "))]


def statements(document: Document) -> Iterator[Statement]:
    """Every sentence and every row of a table, a row with its caption as context."""
    for section in document.sections:
        yield Statement(section.title, "", section.text)
        for finding in section.findings:
            yield Statement(section.title, "", f"{finding.headline} {finding.detail}")
            for row in finding.rows:
                yield Statement(section.title, finding.headline, " ".join(row))
        for block in section.blocks:
            if isinstance(block, TableBlock):
                yield Statement(f"{section.title}, {block.name}", "", block.caption)
                for cells in block.rows:
                    words = " ".join(f"{cell.text} {cell.note}".strip() for cell in cells)
                    yield Statement(f"{section.title}, {block.name}", block.caption, words)
            elif isinstance(block, Paragraph):
                yield Statement(section.title, block.title, block.text)


def contradictions(said: list[Statement], tables: Path) -> list[str]:
    """Return the contradictions of a report; empty if there are none."""
    claims = verdicts.read(tables / "table_claims.csv")
    of_tables = (_on_differences, _on_means, _on_gaps)
    complaints = [_on_claims(said, claims), _on_counts(said, claims), *(find(said, tables) for find in of_tables)]
    return [complaint for found in complaints for complaint in found]


def _on_claims(said: list[Statement], claims: pl.DataFrame) -> Iterator[str]:
    """A text with a claim's number has its verdict and its reason with all numbers; beside these no text judges."""
    rows = {row["id"]: row for row in claims.iter_rows(named=True)}
    for one in said:
        rest = one.text
        for name in dict.fromkeys(found for found in CLAIM.findall(one.text) if found in rows):
            row, reason = rows[name], with_minus_signs(rows[name]["reason"])
            quotation = f"Claim {name}, {row['verdict']}: {reason}"
            of_table = f"{name} {row['claim']} {row['verdict']} {reason}"
            has_row = one.text.startswith(of_table) and estimate(row) in one.text
            if not (quotation in one.text or has_row):
                yield f"{one.place}: {name} is {row['verdict']} ({row['reason']}), found {one.text!r}"
            rest = rest.replace(quotation, "").replace(of_table, "")
        if found := JUDGING.search(rest):
            yield f"{one.place}: judges without a claim ({found[0]}): {rest!r}"


def _on_counts(said: list[Statement], claims: pl.DataFrame) -> Iterator[str]:
    """Every count of claims is that of the table, and so is every count of a verdict beside it."""
    counts = dict(claims["verdict"].value_counts().rows())
    for one in said:
        for count in re.findall(r"\b[Oo]f (\d+) claims", one.text):
            if int(count) != len(claims):
                yield f"{one.place}: {count} claims, the table has {len(claims)}"
            for number, verdict in re.findall(r"(\d+) are (confirmed|refuted|inconclusive)", one.text):
                if int(number) != counts.get(verdict, 0):
                    yield f"{one.place}: {number} {verdict}, the table has {counts.get(verdict, 0)}"


def _on_differences(said: list[Statement], tables: Path) -> Iterator[str]:
    """A difference of two methods has the digits of the file of comparisons, either way round, wherever it stands."""
    known: dict[tuple[str, str, str], tuple[str, ...]] = {}
    for path in sorted(tables.glob("table_neural_*_comparisons.csv")):
        for row in pl.read_csv(path).iter_rows(named=True):
            title, pair = data_set_title(row["dataset"]), (row["method"], row["other"])
            known[title, *pair] = tuple(map(signed, (row["difference"], row["low"], row["high"])))
            known[title, *pair[::-1]] = tuple(map(signed, (-row["difference"], -row["high"], -row["low"])))
    for one in said:
        titles = one.about({title for title, _, _ in known})
        for method, other, *numbers in DIFFERENCE.findall(one.text):
            printed = tuple(filter(None, numbers))
            places = [known[key] for title in titles if (key := (title, method, other)) in known]
            if places and not any(printed == place[: len(printed)] for place in places):
                yield f"{one.place}: {method} minus {other} is {printed}, the comparisons have {places}"


def _on_means(said: list[Statement], tables: Path) -> Iterator[str]:
    """A method's mean has the digits of its table, wherever it stands; a row may be of its printed settings."""
    known: dict[tuple[str, str], set[str]] = {}
    for about in TABLES:
        if (path := tables / f"{about.name}.csv").exists():
            scores = pl.read_csv(path, infer_schema_length=None).filter(pl.col("metric") == about.metric)
            for dataset, method, mean in scores.select("dataset", "method", "ours").drop_nulls().rows():
                key = (data_set_title(dataset), method.removesuffix(AS_PRINTED))
                known.setdefault(key, set()).add(f"{mean:.4f}")
    for one in said:
        titles = one.about({title for title, _ in known})
        by_features = one.place.endswith("Scores by the number of features")
        for method, mean in [] if by_features else _MEAN.findall(one.text):
            means = [known[title, method] for title in titles if (title, method) in known]
            if means and not any(mean in found for found in means):
                yield f"{one.place}: {method} has the mean {mean}, the tables have {means}"


def _on_gaps(said: list[Statement], tables: Path) -> Iterator[str]:
    """The leads of networks that N15 names are the gaps of the table by the number of features."""
    gaps = pl.read_csv(tables / "table_neural_features_gaps.csv").filter(pl.col("features").is_not_null())
    printed = {(str(row["features"]), signed(row["difference"])) for row in gaps.iter_rows(named=True)}
    for one in said:
        for lead, count in re.findall(rf"(?:from|to) ({_NUMBER}) with ([\d,]+)", one.text):
            if (count.replace(",", ""), lead) not in printed:
                yield f"{one.place}: a lead of {lead} with {count} features is not in the table"
        if one.place.endswith("Scores by the number of features") and " gap " in f" {one.text} ":
            for value in re.findall(rf"({_NUMBER}) \(", one.text):
                if value not in {difference for _, difference in printed}:
                    yield f"{one.place}: a gap of {value} is not in the file"
