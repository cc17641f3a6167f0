"""The report's texts: methods as configured, an abstract that quotes the tables, pieces of prose, tables as columns."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
import pytest

import rankbound_study
from rankbound_study import templates
from rankbound_study.claims import effects, law, verdicts
from rankbound_study.claims.registry import claims
from rankbound_study.claims.verdicts import CONFIRMED, INCONCLUSIVE, NOT_RUN, REFUTED, Verdict
from rankbound_study.report import blocks
from rankbound_study.report.blocks import (
    DATA_SET,
    Across,
    Cell,
    Column,
    Finding,
    Layout,
    Paragraph,
    ReportSection,
    TableBlock,
    fixed,
    signed,
    with_margin,
)
from rankbound_study.report.claims import Claims
from rankbound_study.report.findings import Bounded, abstract
from rankbound_study.report.methods import methods_section
from rankbound_study.report.tables.table_5_1 import COLUMNS
from rankbound_study.results import study_files
from rankbound_study.results.study_files import probability

QUERIES = "MQ2008: a topic is a query with its judged documents, and"
USERS = {"threshold": 3, "min_relevant": 7}
CONFIG: dict[str, Any] = {
    "interactions": {"movielens": {**USERS, "nsr": [4, 1, 2]}},
    "lists": {"mq2008": {"thresholds": [2]}},
    "images": {"aaf": {"above": 6}},
    "compare": ["queries", "faces-pixels"],
    "comparisons": {
        "queries": {"datasets": ["mq2008-label1"]},
        "faces-pixels": {"datasets": ["aaf"]},
        "faces-vgg16": {"datasets": ["aaf-vgg16"]},
    },
    "datasets": ["movielens"],
    "boundings": ["none", "distribution"],
    "protocols": ["honest"],
    "temperature": 0.5,
}
BOTH = {"protocols": ["published", "honest"], "datasets": ["movielens", "mq2008"]}
WITHOUT_COMPARE = {name: value for name, value in CONFIG.items() if name != "compare"}


def told(config: dict[str, Any] | None) -> dict[str, str]:
    """Return the paragraphs by title, and the caption and the rows of the table of bounds."""
    (table,) = (one for one in methods_section(config).blocks if isinstance(one, TableBlock))
    rows = " ".join(row[0].text for row in table.rows)
    paragraphs = {one.title: one.text for one in methods_section(config).blocks if isinstance(one, Paragraph)}
    return paragraphs | {"Bounds": table.caption, "Boundings": rows}


def readings(*thresholds: Any) -> dict[str, Any]:
    return {"lists": {"mq2008": {"thresholds": list(thresholds)}}}


def distributions(**options: Any) -> dict[str, Any]:
    return {**BOTH, "distributions": {**options, "samples": 3000, "seed": 0}}


def negatives(*nsr: Any, **options: Any) -> dict[str, Any]:
    return {"interactions": {"movielens": {**USERS, **({"nsr": list(nsr)} if nsr else {}), **options}}}


def rates(**by_protocol: Any) -> dict[str, Any]:
    return {"protocols": list(by_protocol), "training": {"movielens": {"learning_rate": by_protocol}}}


@pytest.mark.parametrize(
    ("changes", "title", "expected"),
    [
        ({}, "Data", "a rating of at least 3 is relevant, and users with fewer than 7 relevant items are left out."),
        ({}, "Data", "1, 2 or 4 negatives"),
        ({}, "Data", f"{QUERIES} a label of at least 2 is relevant."),
        ({}, "Data", "more than 6 years"),
        ({}, "Losses", "τ = 0.5"),
        ({}, "Boundings", "unbounded distribution"),
        (readings("graded"), "Data", f"{QUERIES} labels are graded relevance."),
        (
            readings(2, "graded", 1), "Data",
            "1 or 2 is relevant, or labels are graded relevance (each reading is a data set of its own).",
        ),
        (distributions(method="exact"), "Bounds", "their cumulative distribution."),
        (distributions(method="sampled"), "Bounds", "distribution. F is estimated from 3,000 random orderings."),
        (
            distributions(method={"published": "sampled", "honest": "exact"}), "Bounds",
            "random orderings under the published protocol, and exact elsewhere.",
        ),
        (
            distributions(method="exact", datasets={"movielens": "sampled"}), "Bounds",
            "orderings under the published protocol on MovieLens and under the honest protocol on MovieLens, and exact",
        ),
        (negatives(2), "Data", "item comes with 2 negatives (the negative sampling ratio, NSR), drawn without"),
        (negatives(3, [1, 2]), "Data", "with 3 negatives, or 1 or 2 negatives by a ratio drawn for each user (the"),
        (negatives(0), "Data", "Own negatives are the user's ratings below the threshold"),
        (negatives(1, sampling=["popularity"]), "Data", "probability proportional to the number of its ratings."),
        (negatives(1, sampling=[{"train": "uniform", "test": "full"}]), "Data", "drawn parts have no negatives in"),
        (negatives(sampling=["full"]), "Data", "left out. A full catalogue is all rated items, without those that"),
        ({"controls": ["oracle"]}, "Controls", "controls: the oracle, which knows the labels."),
        (rates(honest=0.01), "Training", "share the learning rate, the number of epochs"),
        (rates(honest=[0.01, 0.1]), "Training", "Every loss and bounding has its own learning rate: each fold"),
        (rates(published=0.1, honest=[0.01, 0.1]), "Training", "its own learning rate under the honest protocol: each"),
    ],
)  # fmt: skip
def test_numbers_and_choices_come_from_the_configuration(changes: dict[str, Any], title: str, expected: str) -> None:
    text = told(CONFIG | changes)
    assert expected in text[title]
    assert "The published protocol" not in text["Protocols"] or "published" in changes["protocols"]
    assert ("the learning rate, " in text["Training"]) == (title == "Training" and "share the" in expected)


@pytest.mark.parametrize(
    ("config", "called"),
    [
        (CONFIG, "MovieLens MQ2008 All-Age-Faces"),
        (CONFIG | {"compare": []}, "MovieLens"),
        (CONFIG | {"compare": ["queries"]}, "MovieLens MQ2008"),
        (CONFIG | {"compare": ["faces-vgg16"]}, "MovieLens All-Age-Faces"),
        (CONFIG | {"datasets": ["mq2008"], "compare": []}, "MQ2008"),
        # Where no comparison is named, all run.
        (WITHOUT_COMPARE, "MovieLens MQ2008 All-Age-Faces"),
    ],
)
def test_only_data_that_something_reads_are_told_of(config: dict[str, Any], called: str) -> None:
    text = told(config)["Data"]
    assert " ".join(name for name in ("MovieLens", "MQ2008", "All-Age-Faces") if f"{name}:" in text) == called


def test_what_the_configuration_does_not_have_is_not_told() -> None:
    assert "Controls" not in told(CONFIG | {"controls": []})
    for text in map(told, (None, {})):
        assert "Data" not in text
        assert all(name in text["Protocols"] for name in ("published protocol", "honest protocol"))


# The abstract quotes the tables, and says nothing of those that were not made

VERDICTS = {"T46": REFUTED, "T23": CONFIRMED, "T27": INCONCLUSIVE}


def write_law(tables: Path) -> None:
    """Two bounds and three weightings of AP; the weights of min-max hardly vary."""
    cells = [
        ("min-max", "bounds", "", 0.02, 0.0002),
        ("expectation", "bounds", "", 0.8, -0.003),
        ("expectation-max", "bounds", "expectation", 0.8, -0.4),
        ("pairs^0.5", "weights", "", 1.1, 0.009),
        ("pairs^0.5", "influence", "", 1.1, 0.005),
        ("pairs^-1", "influence", "", 0.05, -0.0004),
        ("permuted(pairs^-1)", "weights", "", 1.1, 0.3),
    ]
    names = ("weights", "origin", "same_as", "change_weights", "effect", "low")
    about = {"dataset": "movielens", "nsr": 2, "loss": "AP", "metric": "AP"}
    rows = [about | dict(zip(names, (*cell, cell[-1] - 0.001), strict=True)) for cell in cells]
    pl.DataFrame(rows, schema=law.COLUMNS).write_csv(tables / f"{law.NAME}.csv")
    line = {"predictor": "mismatch", "cells": "all cells", "n": 5, "slope": -0.004, "slope_low": -0.006}
    line |= {"slope_high": -0.002, "r_squared": 0.5}
    pl.DataFrame([line], schema=law.LINE_COLUMNS).write_csv(tables / f"{law.LINES}.csv")
    verdicts = [("direction", CONFIRMED, "a"), ("fit", REFUTED, "b")]
    predictions = pl.DataFrame(verdicts, schema=law.PREDICTION_COLUMNS, orient="row")
    predictions.write_csv(tables / f"{law.PREDICTIONS}.csv")


def write_means(tables: Path) -> None:
    rows = [
        ("affine", "all", 9, 0.002, 0.001, 0.003, 0.0, 0.0, 0.0),
        ("affine", "AP", 9, -0.0014, -0.002, 0.001, 0.0, 0.0, 0.0),
        ("distribution", "nDCG", 3, -0.05, -0.06, -0.04, 0.0, 0.0, 0.0),
    ]
    pl.DataFrame(rows, schema=effects.MEAN_COLUMNS, orient="row").write_csv(tables / f"{effects.MEANS}.csv")


def claims_with(of_claims: dict[str, str]) -> Claims:
    decided = ((claim, Verdict(of_claims.get(claim.id, NOT_RUN), "Because.")) for claim in claims())
    return Claims(verdicts.frame(decided))


def section_of(tables: Path, of: Claims = Claims(None), *, synthetic: bool = False) -> ReportSection | None:  # noqa: B008
    nothing = pl.DataFrame(schema=COLUMNS)
    bounded = Bounded(tables, nothing, {"synthetic": synthetic, "protocol": "published"}, nothing, None)
    return next(abstract(tables, bounded, of), None)


def test_every_sentence_has_the_numbers_of_its_table(tmp_path: Path) -> None:
    write_law(tmp_path)
    write_means(tmp_path)
    section = section_of(tmp_path, claims_with(VERDICTS))
    assert "changes by −0.0040 (−0.0060 to −0.0020) for each unit" in section.text
    assert "The law that mismatch explains the effect of weights is refuted as put." in section.text
    flat, affine, powers, distribution, verdicts = section.findings
    assert flat.headline == "Weights that vary by less than 10 % change the mean score by 0.0003 on average."
    assert flat.detail.startswith("Mean absolute effect of 2 cells")
    assert affine.headline == "Affine bounds change mean scores by −0.0014 [−0.0020, +0.0010] (AP)."
    assert "0.41 (AP)" in affine.detail, "a cell that repeats another one does not count"
    assert powers.headline.endswith("in 1 of 1 cases, significantly in 1.")
    assert "between +0.0050 and +0.0050" in powers.detail, "those that the hypothesis named, where it was tested"
    assert "by −0.0500 [−0.0600, −0.0400] (nDCG)" in distribution.headline
    assert distribution.detail.endswith("explains its collapse is inconclusive.")
    assert verdicts.headline.startswith("That bounding raises most mean scores is refuted;")
    assert verdicts.headline.endswith("is confirmed.")


@pytest.mark.parametrize("write", [write_law, write_means])
def test_tables_that_were_not_made_are_not_quoted(write: Callable[[Path], None], tmp_path: Path) -> None:
    assert section_of(tmp_path) is section_of(tmp_path, claims_with({"T46": REFUTED})) is None
    write(tmp_path)
    section, generated = section_of(tmp_path), section_of(tmp_path, synthetic=True)
    assert len(section.findings) == 2
    assert ("for each unit" in section.text) == (write is write_law)
    assert not any("is inconclusive" in finding.detail for finding in section.findings)
    assert generated.text.startswith("Generated data decide no claim about the literature")


# The study's prose: every piece that code quotes exists, every piece is quoted, and no fact is missing silently

STUDY = Path(rankbound_study.__file__).parent
# The examples of the steps' help are no templates, and named by their steps.
FILES = sorted((STUDY / "templates").glob("*.md"))
MODULES = [*(STUDY / "report").rglob("*.py"), *(STUDY / "figures").rglob("*.py")]


def texts_of(module: Path) -> Iterator[str]:
    yield from (
        node.value
        for node in ast.walk(ast.parse(module.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_every_piece_is_quoted_by_a_module_that_names_its_file(file: Path) -> None:
    quoting = [texts for module in MODULES if file.name in (texts := set(texts_of(module)))]
    assert quoting
    quoted = set().union(*quoting)
    # The worked tables are named by their numbers, the methods of protocols by these.
    quoted |= {f"worked-{number}" for number in quoted}
    assert set(templates.pieces(file.name)) <= quoted | {"published", "honest"}


def test_pieces_that_are_named_in_calls_exist() -> None:
    named = []
    for module in MODULES:
        source = module.read_text("utf-8")
        homes = dict(re.findall(r'^(\w+) = "(\w+\.md)"$', source, re.MULTILINE))
        calls = re.findall(r'\b(?:text|titled|finding|paragraph|Layout\.of)\(\s*(\w+),\s*"([\w-]+)"', source)
        named += [(homes[home], name) for home, name in calls]
    assert [(file, name) for file, name in named if name not in templates.pieces(file)] == []
    assert len(named) > 90


def test_a_piece_is_one_line_whose_bold_start_is_a_title_or_headline(monkeypatch: pytest.MonkeyPatch) -> None:
    piece = "**A {{ of }}.**  It\nholds{% if more %}, {{ more | signed }}{% endif %}. 5\N{NO-BREAK SPACE}%\n"
    monkeypatch.setattr(templates, "pieces", lambda file: {"a": piece})
    assert blocks.paragraph("x.md", "a", of="B", more=None) == Paragraph("A B", "It holds. 5\N{NO-BREAK SPACE}%")
    assert blocks.finding("x.md", "a", [{"h": "1"}, {"h": "2"}], of="B", more=-0.01) == Finding(
        "A B.", "It holds, −0.0100. 5\N{NO-BREAK SPACE}%", ("h",), (("1",), ("2",))
    )
    with pytest.raises(jinja2.UndefinedError, match="'more' is undefined"):
        templates.text("x.md", "a", of="B")


def test_texts_have_no_markup_of_templates_left() -> None:
    for file in FILES:
        for name, piece in templates.pieces(file.name).items():
            if not re.search(r"{[{%]", piece):
                assert "{" not in templates.text(file.name, name)


# Tables as columns, and numbers as the report writes them


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1234567, "+0.1235"),
        (-0.5, "−0.5000"),
        (-0.00004, "+0.0000"),
        (0.0, "+0.0000"),
        (-0.0, "+0.0000"),
        (None, "–"),
    ],
)
def test_differences_have_a_sign_and_nothing_has_no_minus(value: float | None, text: str) -> None:
    assert signed(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.0, "<0.0001"), (0.00005, "0.0001"), (1.0, "1.0000")])
def test_a_p_value_is_never_zero(value: float, text: str) -> None:
    assert probability(value) == text


@pytest.mark.parametrize("pairs", [3, 15, 1635, 1641])
def test_a_number_and_its_copy_in_a_file_have_the_same_digits(pairs: int) -> None:
    """Shares of 2,400 pairs often end in a five at the fifth place, and sums of them just below or above it."""
    share = pairs / 2400
    for near in (share - 1e-15, share, share + 1e-15):
        assert study_files.signed(near) == study_files.signed(float(f"{near:.6f}"))
        assert study_files.score(near) == study_files.score(float(f"{near:.6f}"))


TABLE = pl.DataFrame(
    [
        ("movielens", 1, "AP", "none", 0.5, -0.01, 0.03),
        ("movielens", 1, "AP", "min-max", None, None, None),
        ("mq2008-label1", None, "AP", "min-max", 0.25, 0.2, 0.3),
        ("movielens", 1, "nDCG", "none", 0.125, None, 0.2),
    ],
    schema=["dataset", "nsr", "loss", "bounding", "score", "low", "high"],
    orient="row",
)
LABELS = (DATA_SET, Column("trained on", "loss"))


PIECE = """**Name.** Caption of {{ rows }}.

| data set | trained on | score | interval | any | row |
| --- | --- | ---: | ---: | ---: | :--- |
| data_set() | loss | fixed2(score) | between(low, high) | any() | row() |

Sortable. Ruled by dataset, nsr.
"""


def test_a_row_of_data_is_a_row_of_cells_and_a_null_is_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "pieces", lambda file: {"a": PIECE})
    formats = {
        "any": Column("", ("score", "low"), lambda *values: str(values.count(None)), null=True),
        "row": Column("", None, lambda row: row["bounding"]),
    }
    block = Layout.of("x.md", "a", formats=formats, rows="four rows")(TABLE)
    assert block.header == ("data set", "trained on", "score", "interval", "any", "row")
    assert [[cell.text for cell in row[2:]] for row in block.rows] == [
        ["0.50", "−0.0100 to +0.0300", "0", "none"],
        ["–", "–", "2", "min-max"],
        ["0.25", "+0.2000 to +0.3000", "0", "min-max"],
        ["0.12", "–", "1", "none"],
    ]
    assert block.rows[2][0].text.startswith("MQ2008"), "a data set without a ratio has a label, too"
    assert (block.name, block.caption, block.labels, block.rules) == ("Name", "Caption of four rows.", 2, {2, 3})
    assert (block.sortable, block.prose) == (True, {5})


def test_across_is_a_row_per_group_with_dashes_where_it_has_no_data() -> None:
    titles = {"min-max": "bounded", "none": "unbounded"}
    across = Across(("dataset", "nsr", "loss"), ("bounding",), titles, lambda row: Cell(str(row["score"])))
    block = Layout("Name", "", LABELS, 2, rules=("loss",), across=across)(TABLE)
    assert block.header == ("data set", "trained on", "bounded", "unbounded")
    cells = [[cell.text for cell in row[1:]] for row in block.rows]
    assert cells == [["AP", "None", "0.5"], ["AP", "0.25", "–"], ["nDCG", "–", "0.125"]]
    assert block.rules == {2}


def test_a_margin_is_half_of_the_interval() -> None:
    assert with_margin(-0.01, -0.03, 0.02, "▼", strong=True) == Cell("−0.0100", "±0.0250▼", strong=True)
    assert fixed(1)(-0.26) == "−0.3"
