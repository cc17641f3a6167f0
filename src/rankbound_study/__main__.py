"""Run `python -m rankbound_study`."""

import sys

from rankbound_study.cli import main

sys.exit(main())
