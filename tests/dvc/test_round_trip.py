"""Results that travel: made, pushed to a folder and to S3, pulled elsewhere, settled, and made no second time."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

import yaml

from tests.dvc.conftest import BUCKET, STUDY, clone_of, git
from tests.workflow.project import Project

LICENSED = ("data/", "results/licensed", "results/paper")
"""Rows and pictures."""
AFTER_RUNS = {"collect", "join", "table_5_1", "figure_5_2", "provenance", "document"}
RATE = "training.synthetic-mq2008.learning_rate.published"


def test_repro_has_made_everything_and_makes_it_once(origin: Project) -> None:
    assert origin.waiting() == {}
    names = [f"results/tables/{name}.csv" for name in STUDY["tables"]] + ["results/paper/index.html"]
    before = {name: origin.path(name).stat().st_mtime_ns for name in names}
    assert "up to date" in origin.run("dvc", "repro")
    assert {name: origin.path(name).stat().st_mtime_ns for name in names} == before
    # Nothing that is made is left out of DVC's outputs, but for its records.
    stages = yaml.safe_load(origin.path("dvc.yaml").read_text("utf-8"))["stages"].values()
    known = [path for stage in stages for out in stage["outs"] + stage.get("metrics", []) for path in out]
    made = [path.relative_to(origin.folder) for top in ("data", "results") for path in origin.path(top).rglob("*")]
    left = {path for path in made if not any(path.is_relative_to(k) or Path(k).is_relative_to(path) for k in known)}
    assert {path.parts[1] for path in left} <= {"provenance"}, left


def test_a_folder_holds_no_licensed_rows_but_its_own_does(origin: Project) -> None:
    remotes = origin.folder.parent / "rankbound-dvc"
    shared, licensed = (_hashes(file for file in (remotes / name).rglob("*")) for name in ("shared", "licensed"))
    rows, others = _recorded_hashes(origin)
    assert rows <= licensed
    assert not rows & shared
    assert others <= shared


def test_through_s3_to_a_clone_that_has_nothing_to_do(origin: Project, s3: str) -> None:
    import boto3

    client = boto3.client("s3", endpoint_url=s3)
    client.create_bucket(Bucket=BUCKET)
    sender = clone_of(origin, "sender")
    sender.run("dvc", "pull", "-q")
    _use_s3(sender, s3)
    sender.run("dvc", "push", "-q")
    stored = _hashes(Path(one["Key"]) for one in client.list_objects_v2(Bucket=BUCKET)["Contents"])
    rows, others = _recorded_hashes(origin)
    assert others <= stored
    assert not rows & stored, "licensed rows went to the shared remote"

    clone = clone_of(origin, "receiver")
    _use_s3(clone, s3)
    clone.run("dvc", "pull", "-q")
    assert clone.run("rankbound_study", "settle").startswith("settled")
    assert clone.waiting() == {}
    assert "up to date" in clone.run("dvc", "status")
    assert git(clone.folder, "status", "--short") == ""


def test_without_the_licensed_remote_data_are_made_here(origin: Project) -> None:
    clone = clone_of(origin, "stranger")
    clone.run("dvc", "remote", "modify", "--local", "licensed", "url", "../../nowhere")
    clone.run("dvc", "pull", "-q", "--remote", "shared", "--allow-missing")
    message = clone.run("rankbound_study", "settle", status=2)
    assert "data/folds is missing" in message
    clone.snakemake("data")
    assert "train" in clone.waiting()

    # DVC has no copy of these files, and so does not say whether they are the recorded ones.
    folds = clone.path("data/folds/synthetic-mq2008.parquet")
    content = folds.read_bytes()
    folds.write_bytes(content + b"damaged")
    assert "data/folds is modified" in clone.run("rankbound_study", "settle", status=2)
    folds.write_bytes(content)
    # Of what shows pictures nothing was pulled: it is made here.
    assert "snakemake --cores 2` makes results/licensed, results/paper" in clone.run("rankbound_study", "settle")
    assert clone.waiting() == {"figure_neural_duplicates": 1, "provenance": 1, "document": 1}
    clone.snakemake()
    assert clone.waiting() == {}

    lock = clone.path("dvc.lock").read_bytes()
    clone.run("dvc", "commit", "data")
    assert clone.path("dvc.lock").read_bytes() == lock


def test_an_experiment_reruns_the_trainings_of_its_one_change(pulled: Project, tmp_path: Path) -> None:
    clone = pulled.copy(tmp_path / "clone")
    output = clone.run("dvc", "exp", "run", "-n", "faster", "-S", f"config.yaml:{RATE}=0.02")
    assert set(re.findall(r"^(?:local)?rule (\w+):$", output, re.MULTILINE)) - {"all", "runs"} == {"train", *AFTER_RUNS}
    assert re.search(r"^train +4$", output, re.MULTILINE)
    assert clone.waiting() == {}
    assert "up to date" in clone.run("dvc", "status")

    changed = json.loads(clone.run("dvc", "metrics", "diff", "--json"))["results/metrics.json"]
    assert changed
    assert all(name.startswith("synthetic-mq2008") for name in changed)
    assert list(json.loads(clone.run("dvc", "params", "diff", "--json"))["config.yaml"]) == [RATE]
    table = clone.run("dvc", "exp", "show", "--csv", "--only-changed")
    assert "faster" in table
    assert RATE in table

    # Back to what was committed: the files come from DVC's cache, and settling spares the second training.
    git(clone.folder, "checkout", "-q", ".")
    clone.run("dvc", "checkout", "-q")
    assert "train" in clone.waiting()
    clone.run("rankbound_study", "settle")
    assert clone.waiting() == {}


def test_a_changed_figure_is_drawn_again_and_nothing_trained(pulled: Project, tmp_path: Path) -> None:
    clone = pulled.copy(tmp_path / "clone")
    # Contents count, times do not.
    clone.path("src/rankbound/training/trainer.py").touch()
    with clone.path("src/rankbound_study/figures/formulas.py").open("a") as file:
        file.write("assert True\n")
    output = clone.run("dvc", "repro")
    ran = set(re.findall(r"^(?:local)?rule (\w+):$", output, re.MULTILINE))
    assert {"figure_1_1", "document"} <= ran
    assert not ran & {"train", "collect", "sample", "distributions", "figure_5_2"}
    assert clone.waiting() == {}
    # The drawing has the same bytes, so that DVC has nothing new to keep of it.
    assert "up to date" in clone.run("dvc", "status")


def test_another_table_needs_no_other_list_of_outputs(pulled: Project, tmp_path: Path) -> None:
    clone = pulled.copy(tmp_path / "clone")
    clone.configure({**STUDY, "tables": ["table_5_1", "table_3_1"]})
    clone.run("dvc", "repro", "-q")
    assert clone.path("results/tables/table_3_1.csv").is_file()
    assert "up to date" in clone.run("dvc", "status")
    clone.run("rankbound_study", "settle")
    assert clone.waiting() == {}


def _use_s3(project: Project, address: str) -> None:
    project.run("dvc", "remote", "modify", "--local", "shared", "url", f"s3://{BUCKET}/study")
    project.run("dvc", "remote", "modify", "--local", "shared", "endpointurl", address)


def _hashes(files: Iterable[Path]) -> set[str]:
    """Checksums by the paths of a remote: the first two digits are a folder."""
    paths = [file for file in files if re.fullmatch(r"[0-9a-f]{2}", file.parent.name)]
    return {(path.parent.name + path.name).removesuffix(".dir") for path in paths}


def _recorded_hashes(project: Project) -> tuple[set[str], set[str]]:
    """Checksums of the licensed files and of all others that DVC keeps, the lists of folders' files included."""
    kept: tuple[set[str], set[str]] = (set(), set())
    stages = yaml.safe_load(project.path("dvc.yaml").read_text("utf-8"))["stages"]
    lock = yaml.safe_load(project.path("dvc.lock").read_text("utf-8"))["stages"]
    cache = project.path(".dvc/cache/files/md5")
    for name, stage in stages.items():
        sums = {out["path"]: out["md5"] for out in lock[name]["outs"]}
        for out in stage["outs"]:
            (path, settings), *_ = out.items()
            if settings.get("cache", True):
                found = kept[0 if path.startswith(LICENSED) else 1]
                found.add(sums[path].removesuffix(".dir"))
                if sums[path].endswith(".dir"):
                    listing = json.loads((cache / sums[path][:2] / sums[path][2:]).read_text("utf-8"))
                    found.update(one["md5"] for one in listing)
    assert all(kept)
    return kept
