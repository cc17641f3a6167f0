"""`python -m rankbound`: the command line."""

import sys

from rankbound.cli import main

if __name__ == "__main__":
    sys.exit(main())
