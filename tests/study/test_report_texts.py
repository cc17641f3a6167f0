"""The report's texts and the paper: what they say is what the tables and the configuration have."""

import ast
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
import pytest
import yaml

import rankbound_study
from rankbound.errors import ConfigError, DataError
from rankbound_study import templates
from rankbound_study.claims import effects, law, verdicts
from rankbound_study.claims.registry import claims
from rankbound_study.claims.verdicts import CONFIRMED, INCONCLUSIVE, NOT_RUN, REFUTED, Ruling
from rankbound_study.commands.results import document
from rankbound_study.report import blocks
from rankbound_study.report.blocks import Across, Cell, Column, Layout, Paragraph, TableBlock, with_margin
from rankbound_study.report.claims import Claims
from rankbound_study.report.findings import Bounded, abstract
from rankbound_study.report.methods import methods_section
from rankbound_study.report.numbers import fixed, signed
from rankbound_study.report.paper import OTHER_TABLES, counter_examples, paper, references
from rankbound_study.report.tables.table_5_1 import COLUMNS
from rankbound_study.results import study_files
from rankbound_study.results.study_files import probability
from rankbound_study.vocabulary import BOUNDINGS

TEXTS = yaml.safe_load((Path(__file__).parents[1] / "reference/report_texts.yaml").read_text("utf-8"))
CONFIG: dict[str, Any] = TEXTS["config"]


def told(config: dict[str, Any] | None) -> dict[str, str]:
    """Return the paragraphs by title, and the caption and the rows of the table of bounds."""
    (table,) = (one for one in methods_section(config).blocks if isinstance(one, TableBlock))
    rows = " ".join(row[0].text for row in table.rows)
    paragraphs = {one.title: one.text for one in methods_section(config).blocks if isinstance(one, Paragraph)}
    return paragraphs | {"Bounds": table.caption, "Boundings": rows}


@pytest.mark.parametrize(("changes", "title", "expected"), TEXTS["choices"])
def test_numbers_and_choices_come_from_the_configuration(changes: dict[str, Any], title: str, expected: str) -> None:
    text = told(CONFIG | changes)
    assert expected in text[title]
    assert "The published protocol" not in text["Protocols"] or "published" in changes["protocols"]
    assert ("the learning rate, " in text["Training"]) == (title == "Training" and "share the" in expected)


@pytest.mark.parametrize(("changes", "called"), TEXTS["read"])
def test_only_data_that_something_reads_are_told_of(changes: dict[str, Any], called: str) -> None:
    text = told(CONFIG | changes)["Data"]
    assert " ".join(name for name in ("MovieLens", "MQ2008", "All-Age-Faces") if f"{name}:" in text) == called


def test_what_the_configuration_does_not_have_is_not_told() -> None:
    assert "Controls" not in told(CONFIG | {"controls": []})
    # Where no comparison is named, all run.
    assert told({name: value for name, value in CONFIG.items() if name != "compare"}) == told(CONFIG)
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
    line = {"predictor": "mismatch", "cells": "all cells", "n": 5, "r_squared": 0.5}
    slope = {"slope": -0.004, "slope_low": -0.006, "slope_high": -0.002}
    pl.DataFrame([line | slope], schema=law.LINE_COLUMNS).write_csv(tables / f"{law.LINES}.csv")
    verdicts = [("direction", CONFIRMED, "a"), ("fit", REFUTED, "b")]
    pl.DataFrame(verdicts, law.PREDICTION_COLUMNS, orient="row").write_csv(tables / f"{law.PREDICTIONS}.csv")


def write_means(tables: Path) -> None:
    means = (0.002, 0.001, 0.003), (-0.0014, -0.002, 0.001), (-0.05, -0.06, -0.04)
    cells = ("affine", "all", 9), ("affine", "AP", 9), ("distribution", "nDCG", 3)
    rows = [(*cell, *mean, 0.0, 0.0, 0.0) for cell, mean in zip(cells, means, strict=True)]
    pl.DataFrame(rows, schema=effects.MEAN_COLUMNS, orient="row").write_csv(tables / f"{effects.MEANS}.csv")


def claims_with(of_claims: dict[str, str]) -> Claims:
    decided = ((claim, Ruling(of_claims.get(claim.id, NOT_RUN), reason="Because.")) for claim in claims())
    return Claims(verdicts.frame(decided))


def section_of(tables: Path, of: Claims = Claims(), *, synthetic: bool = False) -> blocks.ReportSection | None:  # noqa: B008
    table = pl.DataFrame([{"dataset": "synthetic-movielens"}] * synthetic, schema=COLUMNS)
    bounded = Bounded(tables, table, table.clear())
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
    # The worked tables are named by their numbers, the methods of protocols by these, values by their boundings.
    quoted |= {f"worked-{number}" for number in quoted} | {f"value-{bounding}" for bounding in BOUNDINGS}
    assert set(templates.pieces(file.name)) <= quoted | {"published", "honest"}


def test_pieces_that_calls_name_exist_and_leave_no_markup() -> None:
    named = []
    for module in MODULES:
        source = module.read_text("utf-8")
        homes = dict(re.findall(r'^(\w+) = "(\w+\.md)"$', source, re.MULTILINE))
        calls = re.findall(r'\b(?:text|titled|finding|paragraph|Layout\.of)\(\s*(\w+),\s*"([\w-]+)"', source)
        named += [(homes[home], name) for home, name in calls]
    assert [(file, name) for file, name in named if name not in templates.pieces(file)] == []
    assert len(named) > 90
    for file in FILES:
        for name, piece in templates.pieces(file.name).items():
            if not re.search(r"{[{%]", piece):
                assert "{" not in templates.text(file.name, name)


def test_a_piece_is_one_line_whose_bold_start_is_a_title_or_headline(monkeypatch: pytest.MonkeyPatch) -> None:
    piece = "**A {{ of }}.**  It\nholds{% if more %}, {{ more | signed }}{% endif %}. 5\N{NO-BREAK SPACE}%\n"
    monkeypatch.setattr(templates, "pieces", lambda file: {"a": piece})
    assert blocks.paragraph("x.md", "a", of="B", more=None) == Paragraph("A B", "It holds. 5\N{NO-BREAK SPACE}%")
    assert blocks.finding("x.md", "a", [{"h": "1"}, {"h": "2"}], of="B", more=-0.01) == blocks.Finding(
        "A B.", "It holds, −0.0100. 5\N{NO-BREAK SPACE}%", ("h",), (("1",), ("2",))
    )
    with pytest.raises(jinja2.UndefinedError, match="'more' is undefined"):
        templates.text("x.md", "a", of="B")


# Tables as columns, and numbers as the report writes them


def test_numbers_have_signs_margins_and_the_digits_of_their_copies_in_files() -> None:
    """Shares of 2,400 pairs often end in a five at the fifth place, and sums of them just below or above it."""
    values = (0.1234567, -0.5, -0.00004, 0.0, -0.0, None)
    assert list(map(signed, values)) == ["+0.1235", "−0.5000", "+0.0000", "+0.0000", "+0.0000", "–"]
    assert list(map(probability, (0.0, 0.00005, 1.0))) == ["<0.0001", "0.0001", "1.0000"]
    for share in (pairs / 2400 for pairs in (3, 15, 1635, 1641)):
        for near in (share - 1e-15, share, share + 1e-15):
            assert study_files.signed(near) == study_files.signed(float(f"{near:.6f}"))
            assert study_files.score(near) == study_files.score(float(f"{near:.6f}"))
    assert with_margin(-0.01, -0.03, 0.02, "▼", strong=True) == Cell("−0.0100", "±0.0250▼", strong=True)
    assert fixed(1)(-0.26) == "−0.3"


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
LABELS = (Column("dataset"), Column("loss"))


PIECE = """**Name.** Caption of {{ rows }}.

| data set | trained on | {{ rows[5:] }} | interval | any | {{ "left out" if not rows }} | row |
| --- | --- | ---: | ---: | ---: | ---: | :--- |
| data_set?(dataset, nsr) | loss | fixed2(score) | between(low, high) | any?(score, low) | no(thing) | row(*) |

Sortable. Ruled by dataset, nsr.
"""


def test_a_row_of_data_is_a_row_of_cells_and_a_null_is_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "pieces", lambda file: {"a": PIECE})
    formats = {
        "any": lambda *values: str(values.count(None)),
        "row": lambda row: row["bounding"],
    }
    block = Layout.of("x.md", "a", formats=formats, rows="four rows")(TABLE)
    assert block.header == ("data set", "trained on", "rows", "interval", "any", "row")
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
    assert block.header == ("dataset", "loss", "bounded", "unbounded")
    cells = [[cell.text for cell in row[1:]] for row in block.rows]
    assert cells == [["AP", "None", "0.5"], ["AP", "0.25", "–"], ["nDCG", "–", "0.125"]]
    assert block.rules == {2}


# The paper: short, answers that follow the numbers, counter-examples by plain arithmetic

PUBLISHED = Path(__file__).parents[2] / "published_results"
MEANS, PREDICTIONS = f"{effects.MEANS}.csv", f"{law.PREDICTIONS}.csv"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A results folder with the tables of the repository, to change."""
    shutil.copytree(PUBLISHED / "tables", tmp_path / "results" / "tables")
    return tmp_path / "results"


def answers(content: blocks.Document) -> dict[str, list[str]]:
    (block,) = next(section for section in content.sections if section.anchor == "answers").blocks
    assert isinstance(block, TableBlock)
    return {f"{place} {row[0].text}": [cell.text for cell in row[1:]] for place, row in enumerate(block.rows)}


def section(content: blocks.Document, anchor: str) -> str:
    return next(one.text for one in content.sections if one.anchor == anchor)


def test_the_abstract_is_short_and_its_numbers_are_those_of_the_tables(results: Path) -> None:
    abstract = section(paper(results, elsewhere=PUBLISHED), "abstract")
    assert len(abstract.split()) <= 200
    means = pl.read_csv(results / "tables" / MEANS).filter(pl.col("loss") != "all")
    spans = [row for row in counter_examples(PUBLISHED) if row["bounds"] == "affine"]
    ends = [min(row["lowest"] for row in spans), max(row["highest"] for row in spans)]
    shown = [value for name in ("mean", "low", "high") for value in means[name].abs()]
    known = {f"{value:.4f}" for value in shown} | {f"{abs(end):.4f}" for end in ends}
    assert set(re.findall(r"\d\.\d{4}", abstract)) == known


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [(0.001, 0.009, "Yes"), (-0.009, -0.001, "No: it lowers it"), (-0.001, 0.001, "Not shown")],
)
def test_answers_follow_the_intervals(results: Path, low: float, high: float, answer: str) -> None:
    path = results / "tables" / MEANS
    means = pl.read_csv(path)
    of_loss = pl.col("loss") == "nDCG"
    ends = (pl.when(of_loss).then(end).otherwise(name).alias(name) for name, end in (("low", low), ("high", high)))
    path.write_text(means.with_columns(*ends).write_csv(float_precision=6))
    found = answers(paper(results))
    (of_affine,) = (row for question, row in found.items() if question.endswith("affine bounding raise the mean nDCG?"))
    assert of_affine[0].startswith(answer)
    assert ", over 12 cells: " in of_affine[0]
    assert f"{abs(low):.4f}" in of_affine[1]
    cells = pl.read_csv(results / "tables" / "table_effects.csv").filter(loss="nRBP", bounding="min-max")
    (of_pairs,) = (row for question, row in found.items() if question.startswith("2 "))
    assert f"none are significantly lower, {(cells['p_holm'] < 0.05).sum()} higher" in of_pairs[0]
    advice = str(next(one.blocks for one in paper(results).sections if one.anchor == "practice"))
    assert ("Losses of nDCG and nRBP" in advice) == (low > 0)


@pytest.mark.parametrize(
    ("outcome", "answer", "told"),
    [("confirmed", "In part", "What survives is its direction"), ("refuted", "No", "The effect does not fall")],
)
def test_the_hypothesis_is_told_as_its_verdict_is(results: Path, outcome: str, answer: str, told: str) -> None:
    path = results / "tables" / PREDICTIONS
    rows = pl.read_csv(path)
    first = pl.int_range(pl.len()) == 0
    path.write_text(rows.with_columns(outcome=pl.when(first).then(pl.lit(outcome)).otherwise("outcome")).write_csv())
    content = paper(results)
    (found,) = (row for question, row in answers(content).items() if "equalise influence" in question)
    assert found[0].startswith(answer)
    assert told in section(content, "law")
    assert "law that mismatch explains the effect of weights is refuted as put" in section(content, "abstract")
    second = next(one.blocks for one in content.sections if one.anchor == "law")[0]
    assert isinstance(second, TableBlock)
    assert len(second.rows) == rows["prediction"].str.starts_with(law.SECOND_HYPOTHESIS).sum() == 6


def test_methods_state_no_setting_of_a_configuration_that_is_not_known(results: Path) -> None:
    told = str(next(one.blocks for one in paper(results).sections if one.anchor == "methods"))
    assert "MovieLens, with a matrix factorisation; MQ2008, with a neural network" in told
    for nsr, count in pl.read_csv(results / "tables" / "table_effects.csv").select("nsr", "n_topics").rows():
        assert f"{count} of {'MQ2008' if nsr is None else 'MovieLens'}" in told
    assert "(M − E) / (max − E)" in told
    assert "τ =" not in told
    assert "share the learning rate" not in told


def test_scores_and_signs_that_come_out_are_counted(results: Path) -> None:
    table = pl.read_csv(results / "tables" / "table_5_1.csv").filter("as_printed", pl.col("published").is_not_null())
    scores = {tuple(row[key] for key in ("dataset", "nsr", "loss", "bounding")): row for row in table.to_dicts()}

    def within(reading: str) -> int:
        counted = [row for (name, *_), row in scores.items() if not name.startswith("mq2008") or name == reading]
        return sum(abs(row["ours"] - row["published"]) <= 0.015 for row in counted)

    best, worst = sorted(("mq2008-label1", "mq2008-label2"), key=within, reverse=True)
    signs = []
    for (name, nsr, loss, _), row in scores.items():
        plain = scores[name, nsr, loss, "none"]
        printed, ours = row["published"] - plain["published"], row["ours"] - plain["ours"]
        if name != worst and abs(printed) > 1e-9:
            signs.append(printed * ours > 0)
    (found,) = (row[0] for question, row in answers(paper(results)).items() if "printed scores" in question)
    assert found == (
        f"{within(best)} of 60 are within 0.015, by the reading of labels that fits "
        f"({within(worst)} by the other one); {sum(signs)} of {len(signs)} "
        "effects of bounding have the printed sign."
    )


def test_replicas_stand_beside_the_effects(results: Path) -> None:
    (results / "tables" / "table_effects_replicas.csv").unlink()
    assert not next(one.blocks for one in paper(results).sections if one.anchor == "effects")
    pair = {"replicas": "seeds", "dataset": "mq2008-label1", "high": 0.1, "difference": 0.01}
    rows = pl.DataFrame([pair | {"low": low} for low in (-0.1, 0.05)], schema=effects.REPLICA_COLUMNS)
    rows.write_csv(results / "tables" / "table_effects_replicas.csv")
    (block,) = next(one.blocks for one in paper(results).sections if one.anchor == "effects")
    assert isinstance(block, TableBlock)
    assert [cell.text for cell in block.rows[0]][2:4] == ["2", "1"]


def test_counter_examples_are_of_the_tables_and_references_whole() -> None:
    found = {(row["data"], row["loss"], row["bounds"]): row for row in counter_examples(PUBLISHED)}
    citeulike = pl.read_csv(PUBLISHED / OTHER_TABLES[0])
    of_loss = citeulike.filter(loss="nRBP").pivot("bounding", index=["nsr", "temperature"], values="nDCG")
    changes = (of_loss["min-max"] - of_loss["none"]).to_list()
    row = found["CiteULike-a", "nRBP", "affine"]
    assert (row["cells"], row["lowest"], row["highest"]) == (len(changes), min(changes), max(changes))
    assert row["lower"] is None
    regimes = pl.read_csv(PUBLISHED / OTHER_TABLES[3]).filter(loss="nRBP", bounding="min-max", n_untrained=0)
    row, signs = found["generated lists", "nRBP", "affine"], ((regimes["high"] < 0).sum(), (regimes["low"] > 0).sum())
    assert (row["cells"], row["lower"], row["higher"]) == (len(regimes), *signs)
    assert ("MovieLens, other negatives", "AP", "distribution") in found
    every = [*references()]
    content = (Path(__file__).parents[2] / "src/rankbound_study/reference/references.bib").read_text("utf-8")
    assert len(every) == content.count("@")
    assert "T. D. Westerborg. 2022" in [one.title for one in every]
    assert not [one for one in every if re.search(r"[{}\\]| \.|\.\.", one.title + one.text)]


def test_predictions_are_counted_and_shown_with_their_commit(results: Path) -> None:
    content = paper(results, elsewhere=PUBLISHED)
    outcomes = pl.read_csv(PUBLISHED / OTHER_TABLES[-1])
    (answer,) = (row[0] for question, row in answers(content).items() if "predictions for other data" in question)
    assert answer.startswith(f"Of {len(outcomes)}, ")
    for outcome, count in outcomes["outcome"].value_counts().rows():
        assert f"{count} {'are ' * (outcome == 'undecided')}{outcome}" in answer
    (block,) = next(one.blocks for one in content.sections if one.anchor == "predicted")
    assert isinstance(block, TableBlock)
    assert [row[0].text for row in block.rows] == outcomes["id"].to_list()
    assert outcomes["registered"][0][:8] in section(content, "predicted")
    assert "predicted" not in [one.anchor for one in paper(results).sections]


def test_without_other_tables_the_paper_says_less(results: Path) -> None:
    for name in (MEANS, PREDICTIONS, "table_claims.csv"):
        (results / "tables" / name).unlink()
    content = paper(results)
    assert [one.anchor for one in content.sections] == [
        *("abstract", "answers", "methods", "effects", "table-5-1", "practice", "limits", "data", "references")
    ]
    (results / "tables" / "table_5_1.csv").unlink()
    with pytest.raises(DataError, match=r"table_5_1\.csv"):
        paper(results)


def test_the_step_writes_the_paper_beside_the_report(results: Path, tmp_path: Path) -> None:
    made = [tmp_path / name for name in ("report.pdf", "report.html", "paper.pdf", "paper.html")]
    document(results, None, [], "{}", PUBLISHED, *made[:2], made[2:])
    assert made[2].read_bytes().startswith(b"%PDF-")
    page = made[3].read_text("utf-8")
    assert "<title>Does bounding a ranking loss list by list train better rankers? A reproduction</title>" in page
    for one in paper(results, elsewhere=PUBLISHED).sections:
        assert f'id="{one.anchor}"' in page
    with pytest.raises(ConfigError, match=r"--paper .*x\.txt: expected files that end in \.pdf or \.html"):
        document(results, None, [], "{}", None, *made[:2], [tmp_path / "x.txt"])
