"""The paper: short, answers that follow the numbers, counter-examples by plain arithmetic."""

import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from rankbound.errors import ConfigError, DataError
from rankbound_study.claims import effects, law
from rankbound_study.commands.results import document
from rankbound_study.report.blocks import Document, TableBlock
from rankbound_study.report.paper import OTHER_TABLES, counter_examples, paper, references

PUBLISHED = Path(__file__).parents[2] / "published_results"
MEANS, PREDICTIONS = f"{effects.MEANS}.csv", f"{law.PREDICTIONS}.csv"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A results folder with the tables of the repository, to change."""
    shutil.copytree(PUBLISHED / "tables", tmp_path / "results" / "tables")
    return tmp_path / "results"


def answers(content: Document) -> dict[str, list[str]]:
    (block,) = next(section for section in content.sections if section.anchor == "answers").blocks
    assert isinstance(block, TableBlock)
    return {f"{place} {row[0].text}": [cell.text for cell in row[1:]] for place, row in enumerate(block.rows)}


def section(content: Document, anchor: str) -> str:
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
    changed = means.with_columns(
        low=pl.when(of_loss).then(low).otherwise("low"), high=pl.when(of_loss).then(high).otherwise("high")
    )
    path.write_text(changed.write_csv(float_precision=6))
    found = answers(paper(results))
    (of_affine,) = (row for question, row in found.items() if question.endswith("affine bounding raise the mean nDCG?"))
    assert of_affine[0].startswith(answer)
    assert ", over 12 cells: " in of_affine[0]
    assert f"{abs(low):.4f}" in of_affine[1]
    cells = pl.read_csv(results / "tables" / "table_effects.csv").filter(
        pl.col("p_holm") < 0.05, loss="nRBP", bounding="min-max"
    )
    (of_pairs,) = (row for question, row in found.items() if question.startswith("2 "))
    assert f"none are significantly lower, {len(cells)} higher" in of_pairs[0]
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
    for _, nsr, count in (
        pl.read_csv(results / "tables" / "table_effects.csv").select("dataset", "nsr", "n_topics").rows()
    ):
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
    columns = {"replicas": "seeds", "dataset": "mq2008-label1", "low": -0.1, "high": 0.1, "difference": 0.01}
    rows = pl.DataFrame([columns | {"low": low} for low in (-0.1, 0.05)]).with_columns(
        **{name: pl.lit(None, kind) for name, kind in effects.REPLICA_COLUMNS.items() if name not in columns}
    )
    rows.select(list(effects.REPLICA_COLUMNS)).write_csv(results / "tables" / "table_effects_replicas.csv")
    (block,) = next(one.blocks for one in paper(results).sections if one.anchor == "effects")
    assert isinstance(block, TableBlock)
    assert [cell.text for cell in block.rows[0]][2:4] == ["2", "1"]


def test_counter_examples_are_differences_of_the_tables() -> None:
    found = {(row["data"], row["loss"], row["bounds"]): row for row in counter_examples(PUBLISHED)}
    citeulike = pl.read_csv(PUBLISHED / OTHER_TABLES[0])
    of_loss = citeulike.filter(loss="nRBP").pivot("bounding", index=["nsr", "temperature"], values="nDCG")
    changes = (of_loss["min-max"] - of_loss["none"]).to_list()
    row = found["CiteULike-a", "nRBP", "affine"]
    assert (row["cells"], row["lowest"], row["highest"]) == (len(changes), min(changes), max(changes))
    assert row["lower"] is None
    regimes = pl.read_csv(PUBLISHED / OTHER_TABLES[3]).filter(loss="nRBP", bounding="min-max", n_untrained=0)
    row = found["generated lists", "nRBP", "affine"]
    assert (row["cells"], row["lower"], row["higher"]) == (
        len(regimes),
        (regimes["high"] < 0).sum(),
        (regimes["low"] > 0).sum(),
    )
    assert ("MovieLens, other negatives", "AP", "distribution") in found
    assert not [*counter_examples(None)]


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


def test_references_have_all_their_parts() -> None:
    every = [*references()]
    content = (Path(__file__).parents[2] / "src/rankbound_study/reference/references.bib").read_text("utf-8")
    assert len(every) == content.count("@")
    assert "T. D. Westerborg. 2022" in [one.title for one in every]
    assert not [one for one in every if re.search(r"[{}\\]| \.|\.\.", one.title + one.text)]


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
