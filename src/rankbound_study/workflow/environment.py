"""The environment variables of the workflow's steps."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def set_environment(config: Mapping[str, Any]) -> None:
    """Set what every step inherits from Snakemake's process.

    The steps run with Snakemake's Python, one thread each (lists are small: two parallel jobs beat two threads), and
    reuse the memory of freed tensors instead of returning it after each operation.
    """
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    os.environ.setdefault("RANKBOUND_MIRROR", config.get("mirror", ""))
    os.environ.update(
        POLARS_MAX_THREADS="1",
        PYTHONHASHSEED="0",
        # Every step leaves a record of its inputs, outputs and machine there, on any node.
        RANKBOUND_PROVENANCE=str(Path(config["pathvars"]["results"], "provenance")),
        CUBLAS_WORKSPACE_CONFIG=":4096:8",
        MALLOC_MMAP_THRESHOLD_="1073741824",
        MALLOC_TRIM_THRESHOLD_="4294967296",
    )
