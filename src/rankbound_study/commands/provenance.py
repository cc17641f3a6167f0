"""The step `provenance`: one file with the provenance of every file of a results folder."""

import argparse
from pathlib import Path

SUMMARY = "Collect the records of all steps, the configuration and checksums of all results in one file"
EXAMPLES = """\
  python -m rankbound_study provenance --results results --options "$(cat study.json)" --out results/provenance.json
  python -m rankbound_study provenance --results results --out results/provenance.json

--options is the study's configuration as JSON; the workflow passes it. Steps leave their records in the folder of the
environment variable RANKBOUND_PROVENANCE, which the workflow sets to results/provenance."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--results", type=Path, metavar="DIR", required=True, help="the folder of a study's results")
    parser.add_argument("--options", metavar="JSON", default="{}", help="the study's configuration")
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="DIR/provenance.json")


def run(arguments: argparse.Namespace) -> None:
    """Collect the records, check them against the files, write."""
    from rankbound.texts import quantity
    from rankbound_study.options import parse_options
    from rankbound_study.provenance.manifest import make_manifest, write_manifest

    manifest = make_manifest(arguments.results, parse_options(arguments.options))
    write_manifest(manifest, arguments.out)
    files = sum(len(step.outputs) for step in manifest.steps)
    steps, made = quantity(len(manifest.steps), "step"), quantity(files, "file")
    print(f"{steps} made {made}; without a record: {quantity(len(manifest.unrecorded), 'file')}")
