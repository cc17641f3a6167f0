"""The same bytes however the steps were run, and a record of how they were."""

from project import GENERATED, Project

from rankbound_study.provenance.checksums import result_files
from rankbound_study.provenance.manifest import known_of, read_manifest


def test_every_result_is_as_its_step_recorded(finished: Project) -> None:
    text = finished.run("rankbound_study", "verify", "--strict")
    assert "nothing differs from what was recorded" in text
    known = known_of(finished.path("results"))
    assert set(known.files()) >= set(result_files(finished.path("results")))
    assert known.unrecorded == {}
    assert known.config == GENERATED
    logs = list(finished.path("logs").rglob("*.log"))
    assert len(known.steps) == len(logs), "a step left no record, or one that it shares with another"


def test_every_training_says_where_it_ran_and_with_which_seeds(finished: Project) -> None:
    steps = [step for step in known_of(finished.path("results")).steps if step.subcommand == "job"]
    assert len(steps) == 8
    for step in steps:
        assert step.machine.processor
        assert step.machine.instructions
        assert step.seeds == tuple(GENERATED["seeds"]["published"])
        assert step.switches["OMP_NUM_THREADS"] == "1"
        assert {"torch", "numpy", "pyarrow"} <= set(step.versions)
        assert any(path.startswith("../data/instances/") for path in step.inputs)


def test_the_report_tells_it(finished: Project) -> None:
    page = finished.path("results/paper/index.html").read_text("utf-8")
    known = known_of(finished.path("results"))
    job = next(step for step in known.steps if step.subcommand == "job")
    instances = next(path for path in job.inputs if "instances" in path)
    # What the page is made from: not with the record of the page itself.
    loaded = read_manifest(finished.path("results/provenance.json")).files_of_code
    assert loaded[job.code.sha256]["rankbound/training/models.py"]
    code = f"{len({pair for files in loaded.values() for pair in files.items()}):,}, each with its SHA-256"
    for text in (code, job.machine.processor, job.versions["torch"], job.inputs[instances].sha256):
        assert text in page
