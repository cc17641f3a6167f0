"""Check the names on the pages, and write the pages that come from code: `python -m website [DOCS [RESULTS]]`."""

import sys
from pathlib import Path

import yaml

from rankbound.errors import DataError
from website import gallery, name_check, pages, report

ROOT = Path(__file__).resolve().parents[1]


def main(docs: Path = ROOT / "docs", results: Path = ROOT / "published_results") -> int:
    """Write the pages; the exit status is 1 if a page mentions what does not exist, or the report cannot be made."""
    if wrong := list(name_check.problems(docs)):
        print(*wrong, sep="\n", file=sys.stderr)
        return 1
    pages.write(ROOT, docs)
    configured = yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))
    drawn = gallery.write(docs, results, configured["figures"])
    try:
        report.write(docs, results, drawn, configured)
    except DataError as error:
        print(f"python -m website: the report cannot be made: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
