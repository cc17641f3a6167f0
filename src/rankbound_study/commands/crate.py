"""The step `crate`: a finished study as an RO-Crate."""

import argparse
from pathlib import Path

SUMMARY = "Pack a finished study as an RO-Crate: results, workflow, environment, and what made each file from what"
EXAMPLES = """\
  python -m rankbound_study crate results --out-dir crate
  python -m rankbound_study crate results/demo --out-dir demo-crate
  python -m rankbound_study crate results --out-dir crate --licensed      # not for publication

The folder is checked first, as `verify` does. The crate has the results, the workflow, the configuration, the locked
environment, and ro-crate-metadata.json: an action for every step with its inputs, results, code, libraries, machine and
time, and a checksum for every file, by RO-Crate 1.1 and its profiles of workflow runs. Raw data are not included, but
named by checksum; so are, without --licensed, files with pictures of licensed data (licensed/, paper/)."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "results", type=Path, nargs="?", default=Path("results"), metavar="RESULTS", help="(default: results)"
    )
    parser.add_argument("--out-dir", type=Path, metavar="DIR", required=True, help="the new folder to write")
    parser.add_argument("--licensed", action="store_true", help="include what shows pictures of licensed data")
    # The step's record is named after it.
    parser.set_defaults(name="crate")


def run(arguments: argparse.Namespace) -> None:
    """Check, write the folder, and summarise it."""
    from rankbound.io.files import needs_extra
    from rankbound.texts import quantity

    with needs_extra("study"):
        from rankbound_study.export.crate import write_crate
    packed = write_crate(arguments.results, arguments.out_dir, licensed=arguments.licensed)
    left_out = f", {quantity(packed.left_out, 'file')} of licensed data by checksum only" if packed.left_out else ""
    print(
        f"wrote {arguments.out_dir}: {quantity(packed.files, 'file')} of results{left_out}, "
        f"{quantity(packed.steps, 'step')}; ro-crate-metadata.json describes them"
    )
