"""The workflow as a module of another one, twice: two studies beside each other, which share one Snakemake."""

from pathlib import Path

import yaml
from project import GENERATED, Project

HOST = """
import os

import yaml

BEFORE = dict(os.environ)
with open("a.yaml") as one, open("b.yaml") as other:
    A, B = yaml.safe_load(one), yaml.safe_load(other)


module a:
    snakefile:
        "workflow/Snakefile"
    config:
        A


use rule * from a as a_*


module b:
    snakefile:
        "workflow/Snakefile"
    config:
        B


use rule * from b as b_*


# Polars sets one as it is imported.
changed = {name for name, _ in BEFORE.items() ^ os.environ.items()}
assert changed <= {"_RJEM_MALLOC_CONF"}, changed


rule both:
    default_target: True
    input:
        "a/results/tables/table_2_2.csv",
        "b/results/tables/table_2_2.csv",
        "b/data/folds/synthetic-mq2008.parquet",
"""


def test_two_studies_in_one_workflow_keep_their_provenance_apart(tmp_path: Path) -> None:
    project = Project.create(tmp_path / "host", GENERATED)
    project.path("config.yaml").unlink()
    for name in "ab":
        folders = {folder: f"{name}/{folder}" for folder in GENERATED["pathvars"]}
        project.path(f"{name}.yaml").write_text(yaml.safe_dump({**GENERATED, "study": name, "pathvars": folders}))
    project.path("Snakefile").write_text(HOST)
    project.snakemake()
    steps = {name: {file.name for file in project.path(f"{name}/results/provenance").rglob("*.json")} for name in "ab"}
    data = {"synthetic-mq2008.parquet.json"}
    assert steps == {"a": {"table_2_2.csv.json"}, "b": {"table_2_2.csv.json", *data}}
    assert "Nothing to be done" in project.snakemake()
