"""Templates of the report, and text files written atomically: the same content gives the same bytes."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from rankbound.io.atomic import atomic_path


def template(name: str) -> str:
    """Read a file of `templates`."""
    return files(__package__).joinpath("templates", name).read_text("utf-8")


def write_text(path: Path, text: str) -> None:
    """Write `text` in UTF-8 with plain newlines."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(text.encode())


def write_json(path: Path, content: Any) -> None:
    """Write `content` as indented JSON, with its keys in their order."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
