"""Files in a bucket: steps on machines that share nothing but an S3, as in a cloud, and the profiles for clouds."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from project import GENERATED, Project

from tests.local_s3 import KEYS, serving

for module in ("moto", "snakemake_executor_plugin_cluster_generic", "snakemake_storage_plugin_s3"):
    pytest.importorskip(module, reason="these need what `make test-workflow` installs")

TRAINED = "results/runs/published/synthetic-mq2008-label1/mlp/nDCG/none.parquet"
STUDY = {
    **GENERATED,
    "datasets": ["synthetic-mq2008"],
    "interactions": {},
    "losses": ["nDCG"],
    "boundings": ["none"],
    "training": {"synthetic-mq2008": GENERATED["training"]["synthetic-mq2008"]},
    "figures": ["figure_1_1"],
}
# A machine of its own: an empty folder, with the programs and the keys, and nothing else of this one.
SUBMIT = """\
#!/bin/sh
folder=$(mktemp -d "$MACHINES/XXXXXX")
cp "$1" "$folder.sh"
(
    cd "$folder"
    env -i HOME="$folder" PATH="$PATH" PYTHONPATH=src OMP_NUM_THREADS=1 \\
        AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any sh "$folder.sh" > "$folder.log" 2>&1 \\
        && echo success > "$folder.state" || echo failed > "$folder.state"
) > /dev/null 2>&1 &
echo "$folder"
"""
STATE = """\
#!/bin/sh
cat "$1.state" 2> /dev/null || echo running
"""
PROFILES = {
    "kubernetes": ("kubernetes", "gpu_manufacturer=nvidia"),
    "aws-batch": ("aws_batch", "mem_mb=4096"),
    "google-batch": ("googlebatch", "mem_mb=3000"),
}
"""Profile -> plugin, and resources of a training, as its plugin wants them."""


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that speaks S3, for everything that these tests start."""
    with serving(tmp_path_factory.mktemp("s3") / "log") as address, pytest.MonkeyPatch.context() as patch:
        for name, value in KEYS.items():
            patch.setenv(name, value)
        yield address


def test_machines_that_share_a_bucket_alone_make_the_same_files_and_then_nothing(
    finished: Project, s3: str, tmp_path: Path
) -> None:
    import boto3

    machines = tmp_path / "machines"
    machines.mkdir()
    for name, text in (("submit", SUBMIT), ("state", STATE)):
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    project = Project.create(tmp_path / "project", STUDY)
    # What git names is what Snakemake sends to the other machines.
    for arguments in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *arguments], cwd=project.folder, check=True)
    arguments = (
        *("--executor", "cluster-generic", "--jobs", "2", "--local-cores", "2"),
        *("--cluster-generic-submit-cmd", str(tmp_path / "submit")),
        *("--cluster-generic-status-cmd", str(tmp_path / "state")),
        *("--default-storage-provider", "s3", "--default-storage-prefix", "s3://study/tiny"),
        *("--storage-s3-endpoint-url", s3, "--shared-fs-usage", "none", "--job-deploy-sources"),
    )
    project.snakemake(*arguments, MACHINES=str(machines))
    logs = "".join(log.read_text("utf-8") for log in machines.glob("*.log"))
    assert set(re.findall(r"Finished jobid: 0 \(Rule: (\w+)\)", logs)) == {"train"}

    client = boto3.client("s3", endpoint_url=s3)
    stored = {item["Key"]: item["Size"] for item in client.list_objects_v2(Bucket="study")["Contents"]}
    wanted = [*project.outputs_of_all(), "data/instances/synthetic-mq2008-label1.parquet", "logs/document.log"]
    assert {f"tiny/{path}" for path in wanted} <= stored.keys()
    made = [path for folder in ("data", "results") for path in project.path(folder).rglob("*.parquet")]
    assert made == []
    content = client.get_object(Bucket="study", Key=f"tiny/{TRAINED}")["Body"].read()
    assert content == finished.path(TRAINED).read_bytes()

    assert "Nothing to be done" in project.snakemake(*arguments, MACHINES=str(machines))


@pytest.mark.parametrize("profile", PROFILES)
def test_a_dry_run_of_a_cloud_s_profile_plans_a_training_as_its_plugin_wants_it(
    profile: str, s3: str, tmp_path: Path
) -> None:
    plugin, resources = PROFILES[profile]
    pytest.importorskip(f"snakemake_executor_plugin_{plugin}")
    project = Project.create(tmp_path / "project", STUDY)
    output = project.snakemake("-n", "--workflow-profile", f"profiles/{profile}", "--storage-s3-endpoint-url", s3)
    training = output[output.index("\nrule train:") :].partition("\n[")[0]
    assert "s3://rankbound/study/data/instances/synthetic-mq2008-label1.parquet (retrieve from storage)" in training
    assert resources in training
    assert "This was a dry-run" in output
