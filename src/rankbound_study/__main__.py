"""Run `python -m rankbound_study`."""

import sys

from rankbound_study.warm import run_warm

status = run_warm(sys.argv[1:])
if status is None:
    from rankbound_study.cli import main

    status = main()
sys.exit(status)
