"""Text outputs: written whole or not at all, with the same bytes for the same content."""

import json
from pathlib import Path
from typing import Any

from rankbound.io.atomic import atomic_path


def write_text(path: Path, text: str) -> None:
    """Write `text` in UTF-8 with plain newlines."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(text.encode())


def write_json(path: Path, content: Any) -> None:
    """Write `content` as indented JSON; keys keep their order, which the writer has fixed."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
