"""The whole workflow on generated data: everything is made once, and again only for a reason."""

import re
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path

import polars as pl
import pytest
import yaml
from fault_steps import RECORDS, digest, steps_of
from project import GENERATED, ROOT, Project

from rankbound import losses, metrics
from rankbound.bounds.base import kinds as bounds
from rankbound_study.cli import STEPS
from rankbound_study.config.code_digests import DATA, IGNORED, CodeDigests
from rankbound_study.figures import figure_specs, title
from rankbound_study.provenance.manifest import read_record
from rankbound_study.report.tables import table_specs

RUNS = "results/runs/published/synthetic-movielens-nsr1/matrix-factorization/nRBP"
ALL_DATA = {"generate": 2, "split": 2, "sample": 2}
TELL_WHEN = ("results/provenance.json", "results/paper/index.html", "results/paper/rankbound.pdf")
"""Files that tell when and how the steps before them ran."""
PAPER = {"provenance": 1, "document": 1}
# By the command line and the recorder of steps, which have no say in outputs.
ALWAYS_LOADED = {
    *("rankbound.cli", "rankbound.commands", "rankbound.texts"),
    *("rankbound_study", "rankbound_study.__main__", "rankbound_study.cli"),
    *(f"rankbound_study.provenance{name}" for name in ("", ".checksums", ".records")),
}
MODELS = ("boosted-trees", "random-forest", "lasso", "ridge", "cnn")
"""Those whose code only some trainings load."""
AFTER_RUNS = {"collect": 1, "join": 1, "table_5_1": 1, "figure_5_2": 1, **PAPER}
RERUN = {
    "figures/formulas.py": {"figure_1_1": 1, **PAPER},
    "jobs/controls_job.py": {"controls": 2, **AFTER_RUNS},
    "jobs/collect.py": AFTER_RUNS,
    "claims/worked.py": {"table_2_2": 1, **PAPER},
    "report/tables/protocols.py": {"document": 1},
    "provenance/manifest.py": PAPER,
    "provenance/records.py": PAPER,
    "data/synthetic.py": {**ALL_DATA, "distributions": 2, "controls": 2, "train": 8, **AFTER_RUNS},
}


def test_everything_that_the_targets_name_is_made_with_logs_and_costs_and_nothing_is_left(finished: Project) -> None:
    names = ["results/paper/index.html", "results/paper/rankbound.pdf", "results/metrics.json", "results/runs.parquet"]
    names += [f"results/figures/{name}.{kind}" for name in GENERATED["figures"] for kind in ("svg", "pdf")]
    names += [f"results/tables/{name}.csv" for name in GENERATED["tables"]]
    names += [f"{RUNS}/distribution.{kind}" for kind in ("parquet", "epochs.parquet", "weights.safetensors")]
    assert [name for name in names if not finished.path(name).stat().st_size] == []
    records = [read_record(path) for path in finished.path("results/provenance").rglob("*.json")]
    assert len(list(finished.path("logs").rglob("*.log"))) == len(records) == 26
    assert all(record.seconds > 0 and record.cpu_seconds > 0 for record in records)
    left = [path for folder in ("data", "results") for path in finished.path(folder).rglob("*")]
    assert [path for path in left if path.name.startswith(".") or path.name.endswith(".shards")] == []


def test_the_runs_table_holds_every_training(finished: Project) -> None:
    runs = pl.read_parquet(finished.path("results/runs.parquet")).filter(pl.col("loss") != "none")
    trained = runs.select("dataset", "loss", "bounding", "fold").unique()
    assert len(trained) == 2 * 2 * 2 * 2
    assert set(runs["study"]) == {"tiny"}


@pytest.mark.parametrize("steps_a_rule", [1, pytest.param(None, marks=pytest.mark.long)], ids=["one a rule", "all"])
def test_steps_load_only_the_code_that_their_digests_are_of_and_make_the_same_bytes(
    finished: Project, tmp_path: Path, steps_a_rule: int | None
) -> None:
    """The modules that a step has loaded at its end, by its own report, against those of its digest.

    The finished project was made with two cores; here the steps run one after the other, in another folder. All
    metrics, bounds, losses, figures and tables are loaded to find those that have a name; so each digest is one of all
    of them here.
    """
    copy, codes, checked = finished.copy(tmp_path / "copy"), CodeDigests(), set[str]()
    every_name = " ".join((*metrics.KINDS, *losses.KINDS, *bounds(), *MODELS))
    described = {
        "figure": [f"rankbound_study.figures.{spec.module}" for spec in figure_specs().values()],
        "table": [f"rankbound_study.report.tables.{spec.module}" for spec in table_specs().values()],
    }
    for step in chain.from_iterable(steps[:steps_a_rule] for steps in steps_of(finished).values()):
        for name in step.outputs:
            copy.path(name).unlink()
        subcommand = step.arguments[0]
        loaded = copy.modules_loaded_by(step.arguments, RANKBOUND_PROVENANCE=RECORDS)
        assert f"rankbound_study.{STEPS[subcommand].function.partition(':')[0]}" in loaded
        # The flags of `compare` are the library's.
        loaded = {name for name in loaded if not name.startswith("rankbound.commands.")}
        modules = codes.modules_of(subcommand, every_name, described.get(subcommand, []))
        claimed = {*modules, *DATA, *IGNORED, *ALWAYS_LOADED}
        assert loaded <= claimed, (step.arguments, loaded - claimed)
        made = {name: digest(copy.path(name)) for name in step.outputs if name not in TELL_WHEN}
        assert made == {name: digest(finished.path(name)) for name in made}
        checked.add(subcommand)
    steps = {"generate", "split", "sample", "distributions", "job", "controls", "collect", "table", "figure"}
    assert checked == steps | {"provenance", "document"}


def test_claims_read_the_faces_by_number_of_features(tmp_path: Path) -> None:
    """Without their predictions the claim about many features would be decided on web queries alone."""
    demo = yaml.safe_load((ROOT / "profiles/demo/study.yaml").read_text("utf-8"))
    project = Project.create(tmp_path / "demo", demo)
    table = Path(demo["pathvars"]["results"], "tables", "table_claims.csv")
    plan = project.run("snakemake", "--cores", "1", "--dry-run", "--printshellcmds", "--", str(table))
    (command,) = re.findall("^.* rankbound_study claims .*$", plan, re.MULTILINE)
    counts = {f"-of-{count}/" for count in demo["comparisons"]["faces-by-features"]["feature_counts"]}
    assert counts <= set(re.findall("-of-[0-9]+/", command))


def test_touching_every_file_reruns_nothing(finished: Project) -> None:
    for path in finished.path("src").rglob("*"):
        path.touch()
    finished.path("config.yaml").touch()
    for path in finished.path("data").rglob("*.parquet"):
        path.touch()
    assert finished.waiting() == {}


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("rankbound/training/models.py", {"train": 8, **AFTER_RUNS}),
        *(
            pytest.param(f"rankbound_study/{file}", expected, marks=pytest.mark.long)
            for file, expected in RERUN.items()
        ),
    ],
)
def test_changing_a_line_reruns_what_depends_on_it(finished: Project, file: str, expected: dict[str, int]) -> None:
    with _changed(finished.path(f"src/{file}")):
        assert finished.waiting() == expected


def test_lines_that_no_step_runs_comments_and_new_files_rerun_nothing(finished: Project) -> None:
    source = finished.path("src")
    new = source / "rankbound/losses/new.py"
    with ExitStack() as changes:
        for name in ("losses/lambda_loss.py", "io/run_files.py", "cli.py"):
            changes.enter_context(_changed(source / "rankbound" / name))
        changes.enter_context(_changed(source / "rankbound_study/cli.py"))
        comment = b'# a comment\n"""A text that does nothing."""\n'
        changes.enter_context(_changed(source / "rankbound/metrics/precision.py", comment))
        changes.callback(new.unlink)
        new.write_text('class NewLoss:\n    name = "new"\n')
        assert finished.waiting() == {}


def test_a_changed_option_reruns_what_uses_it(finished: Project) -> None:
    training = GENERATED["training"]
    slower = {**training["synthetic-mq2008"], "learning_rate": {"published": 0.02}}
    try:
        finished.configure({**GENERATED, "training": {**training, "synthetic-mq2008": slower}})
        assert finished.waiting() == {"train": 4, **AFTER_RUNS}
    finally:
        finished.configure(GENERATED)
    assert finished.waiting() == {}


@pytest.mark.parametrize(
    "moment", ["fold-2-seed-0.runs.parquet", pytest.param("none.epochs.parquet", marks=pytest.mark.long)]
)
def test_a_killed_training_resumes_and_gives_the_same_bytes(finished: Project, tmp_path: Path, moment: str) -> None:
    """kill -9 of everything when a file is about to appear; what is finished is not trained again.

    Both folds take their steps together: as long as one is missing, none is finished.
    """
    endings = ("parquet", "epochs.parquet", "predictions.parquet", "weights.safetensors")
    outputs = [finished.path(f"{RUNS}/none.{ending}") for ending in endings]
    before = [path.read_bytes() for path in outputs]
    for path in outputs:
        path.unlink()
    target = f"{RUNS}/none.parquet"
    renames = finished.run_watched("snakemake", "--cores", "1", target, watcher=tmp_path, kill_at=moment)
    assert "fold-1-seed-0.runs.parquet" in renames.read_text("utf-8")
    assert not any(path.exists() for path in outputs[:2])

    finished.snakemake("--unlock")
    assert finished.waiting(target) == {"train": 1}
    renames = finished.run_watched("snakemake", "--cores", "1", target, watcher=tmp_path)
    trained_again = "fold-1-seed-0" in renames.read_text("utf-8")
    assert trained_again == moment.startswith("fold-2")
    assert [path.read_bytes() for path in outputs] == before
    assert not finished.path(f"{target}.shards").exists()
    assert finished.waiting() == {}


@contextmanager
def _changed(path: Path, code: bytes = b"assert True\n") -> Iterator[None]:
    original = path.read_bytes()
    try:
        path.write_bytes(original + code)
        yield
    finally:
        path.write_bytes(original)


def test_snakemakes_own_report_has_a_title_and_a_caption_for_every_result(finished: Project, tmp_path: Path) -> None:
    finished.run("snakemake", "--cores", "1", "--report", str(tmp_path / "report.html"))
    page = (tmp_path / "report.html").read_text("utf-8")
    for name in GENERATED["figures"]:
        entry = _reported(page, f"results/figures/{name}.svg")
        assert title(name) in entry
        assert figure_specs()[name].caption.split(",")[0] in entry
    for name in GENERATED["tables"]:
        entry = _reported(page, f"results/tables/{name}.csv")
        assert re.search(rf"<strong>{re.escape(table_specs()[name].title or name)}</strong>: \w.{{20}}", entry)
    assert re.search(r'"caption": "<p>\w.{20}', _reported(page, "results/paper/rankbound.pdf"))


def test_snakemakes_own_report_as_an_archive_has_every_result_whole(finished: Project, tmp_path: Path) -> None:
    finished.run("snakemake", "--cores", "1", "--report", str(tmp_path / "report.zip"))
    with zipfile.ZipFile(tmp_path / "report.zip") as archive:
        held = {Path(name).name: archive.read(name) for name in archive.namelist()}
    names = [f"results/figures/{name}.svg" for name in GENERATED["figures"]]
    names += [f"results/tables/{name}.csv" for name in GENERATED["tables"]]
    for path in map(finished.path, [*names, "results/paper/rankbound.pdf"]):
        assert held[path.name] == path.read_bytes()


def _reported(page: str, file: str) -> str:
    """Return the page's record of a file, up to the step that made it."""
    start = page.index(f'"{file}": {{')
    return page[start : page.index('"data_uri"', start)]
