"""Read what stands beside the leaderboard: facts about the data."""

import json
from pathlib import Path
from typing import Any

from rankbound_study.results.made_files import reading


def read_facts(folder: Path) -> dict[str, Any]:
    """Read the leaderboard's summary in the folder of the tables; DataError if it is damaged."""
    path = folder / "table_leaderboard_summary.json"
    with reading(path):
        facts: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if missing := {"margin", "data_sets"} - set(facts):
            raise KeyError(f"missing keys: {', '.join(sorted(missing))}")
    return facts
