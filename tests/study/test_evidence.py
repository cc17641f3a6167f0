"""Released evidence: paper, verdicts and law come out of it as of the results, and nothing else is in it."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from planted import BOUNDINGS, LOSSES, World, settings, where_bounded
from test_law import COLUMNS, SLOPE, evidence, write

from rankbound.errors import ConfigError, DataError
from rankbound_study import figures
from rankbound_study.claims import verdicts
from rankbound_study.claims.evidence import Evidence, choose_smallest_effects, smallest_effect
from rankbound_study.claims.law import law
from rankbound_study.cli import main
from rankbound_study.config.check import merged
from rankbound_study.config.study import Study
from rankbound_study.data.reader import read_instances
from rankbound_study.export.evidence import Released, release, unpack
from rankbound_study.figures import style
from rankbound_study.results.scores import METRICS
from rankbound_study.results.study_files import StudyFiles
from website import gallery

OPTIONS = {"study": "thesis", "protocol": "honest"}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Evidence, list[Path]]:
    """A results folder with planted runs and its table of claims, its evidence, and its instances."""
    folder = tmp_path_factory.mktemp("results")
    instances = {column: write(folder / f"{column.dataset}.parquet", column) for column in COLUMNS}
    made = evidence(instances, folder)
    for name, path in (("runs", made.runs), ("experiments", made.experiments)):
        assert path is not None
        if path != folder / f"{name}.parquet":
            shutil.copy(path, folder / f"{name}.parquet")
    assert main(["claims", "--runs", str(made.runs), "--out-dir", str(folder / "tables")]) == 0
    return folder, made, list(instances.values())


@pytest.fixture(scope="module")
def file(study: tuple[Path, Evidence, list[Path]]) -> Path:
    folder, _, instances = study
    release(folder, instances, folder / "evidence.parquet", OPTIONS, {})
    return folder / "evidence.parquet"


@pytest.fixture(scope="module")
def released(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Released:
    return unpack(file, tmp_path_factory.mktemp("unpacked"))


def test_the_law_is_that_of_the_results(study: tuple[Path, Evidence, list[Path]], released: Released) -> None:
    _, made, paths = study
    one, other = (
        law(evidence, {column: read_instances(path) for column, path in zip(COLUMNS, own, strict=True)})
        for evidence, own in ((made, paths), (released.evidence, released.files.instances))
    )
    assert [str(effect) for effect in one.effects] == [str(effect) for effect in other.effects]
    for a, b in zip(one.effects, other.effects, strict=True):
        assert a.changes == b.changes
        assert a.contrast.mean == pytest.approx(b.contrast.mean, abs=1e-7)
    assert other.line() is not None
    assert other.line()["slope"] == pytest.approx(SLOPE, abs=0.0004)  # type: ignore[index]


def test_verdicts_are_those_of_the_results(study: tuple[Path, Evidence, list[Path]], released: Released) -> None:
    """The evidence decides again what it can, and keeps what takes metrics that it lacks."""
    decided, expected = released.decided(), verdicts.read(study[0] / "tables" / "table_claims.csv")
    assert decided.select("id", "verdict", "reason").equals(expected.select("id", "verdict", "reason"))
    assert len(set(decided["verdict"])) > 2
    assert 0 < len(released.kept) < len(decided) / 4
    other = replace(released, claims=released.claims.with_columns(verdict=pl.lit("refuted"))).decided()
    changed = other.join(decided, on=["id", "verdict"], how="anti")
    assert set(changed["id"]) == set(released.kept) - set(decided.filter(verdict="refuted")["id"])


def test_evidence_has_scores_of_the_selected_epoch_and_no_items(file: Path, released: Released) -> None:
    table = pl.read_parquet(file)
    assert {kind for kind in table.schema.values() if kind.is_float()} == {pl.Float32()}
    assert not {"items", "features", "relevance", "rating"} & set(table.columns)
    assert not any(isinstance(kind, pl.List) for kind in table.schema.values())
    assert set(table.filter(table="runs")["selection"]) == {"validation"}
    for path in released.files.instances:
        for split in read_instances(path).splits.values():
            assert all(
                (np.diff(split.items[start:stop]) == 1).all()
                for start, stop in zip(split.offsets, split.offsets[1:], strict=False)
            )


@pytest.mark.parametrize("name", ["figure_5_3", "figure_5_8"])
def test_the_site_draws_from_evidence_what_the_study_draws(
    name: str, study: tuple[Path, Evidence, list[Path]], released: Released, tmp_path: Path
) -> None:
    spec = figures.figure_specs()[name]
    assert name in gallery.OF_EVIDENCE
    assert gallery._drawn(name, spec, tmp_path, study[0], lambda: released)
    whole = StudyFiles(runs=study[1].runs, epochs=study[1].epochs)
    style.save(figures.draw(name, whole, OPTIONS), [tmp_path / "whole.svg"])
    one, other = ((tmp_path / file).read_text("utf-8") for file in (f"{name}.svg", "whole.svg"))
    digits = re.compile(r"-?\d+\.\d+")
    assert digits.sub("", one) == digits.sub("", other)
    # In points: scores are released in single precision.
    np.testing.assert_allclose(*(list(map(float, digits.findall(text))) for text in (one, other)), atol=0.5)
    # A drawing that is newer than evidence and code is kept.
    assert gallery._drawn(name, spec, tmp_path, study[0], lambda: pytest.fail("read again"))


@pytest.mark.slow
def test_the_step_makes_a_paper_and_another_smallest_effect_moves_verdicts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Gains of .001 with noise are undecided at .002, and shown to be none that matters at .02."""
    made = World(where_bounded(0.001), settings(LOSSES, BOUNDINGS, (1, 2, 3, None)), topics=200).files(tmp_path)
    assert made.runs is not None
    runs = pl.read_parquet(made.runs)
    both = pl.concat([runs, runs.with_columns(protocol=pl.lit("published"), selection=pl.lit("test"))])
    both.write_parquet(tmp_path / "runs.parquet")
    assert main(["claims", "--runs", str(tmp_path / "runs.parquet"), "--out-dir", str(tmp_path / "tables")]) == 0
    release(tmp_path, [], tmp_path / "evidence.parquet", {**OPTIONS, "protocol": "published"}, {})
    flags = [word for metric in METRICS for word in ("--smallest-effect", f"{metric}=0.02")]
    try:
        assert main(["report", str(tmp_path / "evidence.parquet"), "--out-dir", str(tmp_path / "report"), *flags]) == 0
    finally:
        choose_smallest_effects(dict.fromkeys(METRICS, 0.002))
    found = [verdicts.read(folder / "tables" / "table_claims.csv") for folder in (tmp_path, tmp_path / "report")]
    moved = found[0].join(found[1], on="id").filter(pl.col("verdict") != pl.col("verdict_right"))
    assert moved.filter(id="T23").select("verdict", "verdict_right").row(0) == ("inconclusive", "confirmed")
    assert (tmp_path / "report" / "paper.pdf").read_bytes().startswith(b"%PDF-")
    assert "What bounding does" in (tmp_path / "report" / "paper.html").read_text("utf-8")
    assert "claims: " in capsys.readouterr().out


@pytest.mark.parametrize("text", ["nDCG", "nDCG=", "nDCG=-1", "nDCG=2", "nDCG=nan"])
def test_a_smallest_effect_is_a_number(
    text: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(file), "--out-dir", str(tmp_path), "--smallest-effect", text]) == 2
    assert f"--smallest-effect {text}: expected a metric and a number between 0 and 1" in capsys.readouterr().err
    assert smallest_effect("nDCG") == 0.002
    # A misspelt metric would leave every verdict as it is, without a word.
    assert main(["report", str(file), "--out-dir", str(tmp_path), "--smallest-effect", "nDGC=0.01"]) == 2
    assert "nDGC" in capsys.readouterr().err


def test_other_files_are_refused(file: Path, study: tuple[Path, Evidence, list[Path]], tmp_path: Path) -> None:
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"cut\.parquet"):
        unpack(cut, tmp_path)
    strange = tmp_path / "strange.parquet"
    pl.DataFrame({"table": ["runs"]}).write_parquet(strange)
    with pytest.raises(DataError, match=r"strange\.parquet: found .*, expected a file of evidence/1"):
        unpack(strange, tmp_path)
    with pytest.raises((DataError, ConfigError), match=r"runs\.parquet"):
        release(tmp_path / "nothing", [], tmp_path / "x.parquet", OPTIONS, {})
    assert not (tmp_path / "x.parquet").exists()


def test_a_claim_is_trained_alone(tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its configuration is valid and has what its verdict rests on: losses, boundings, data sets, experiments."""
    out = tmp_path / "claim.yaml"
    assert main(["claim", "T45", "--evidence", str(file), "--out", str(out)]) == 0
    study = Study.of(merged([Path("config.yaml"), out]))
    assert {job.request.loss for job in study.jobs} == {"nRBP"}
    assert {job.request.bounding for job in study.jobs} == set(BOUNDINGS)
    assert {job.request.protocol for job in study.jobs} == {"honest"}
    # The evidence lacks a bounding: the claim is trained on all that it is about.
    assert [*study.instances] == [*(f"movielens-nsr{nsr}" for nsr in (1, 2, 3)), "mq2008-label1"]
    assert (
        study.jobs[0].request
        == next(job for job in Study.of(merged([Path("config.yaml")])).jobs if job.stem == study.jobs[0].stem).request
    )
    capsys.readouterr()
    assert main(["claim", "T45", "N01", "M03", "--evidence", str(file)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in told] == ["T45", "N01", "M03"]
    assert "movielens, mq2008; 20 training jobs, some " in told[0]
    assert "mq2008, web-queries; 13 training jobs, some " in told[1]
    assert told[2].endswith("no training")
    for words, message in (
        (["T4"], "there is no claim 'T4': did you mean T4"),
        (["M03", "--out", str(out)], "rests on no training"),
        (["T45", "T28", "--out", str(out)], "expected one claim, found 2 claims"),
    ):
        assert main(["claim", *words, "--evidence", str(file)]) == 2
        assert message in capsys.readouterr().err
