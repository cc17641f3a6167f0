"""Run `python -m rankbound_study`."""

import os
import sys

if os.environ.get("RANKBOUND_PROVENANCE"):
    from rankbound_study.provenance.records import watch

    # Before any other module is loaded: a step records which ones it runs.
    watch()

from rankbound_study.cli import main

sys.exit(main())
