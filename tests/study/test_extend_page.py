"""The page on extensions: its figure is drawn, and the files and packages that it names exist."""

import re
from pathlib import Path
from typing import Any

from rankbound_study.figures.style import house_style

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "extend.md").read_text("utf-8")


def test_the_figure_of_the_page_is_drawn(tmp_path: Path) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    module: dict[str, Any] = {}
    exec(code, module)
    assert list(module["SPECS"]) == ["figure_9_9"]
    with house_style():
        module["draw"]().savefig(tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").stat().st_size > 1000


def test_the_files_that_the_page_names_exist() -> None:
    named = re.findall(r"`((?:src|tests)/[^`]*?)`", PAGE)
    assert len(named) > 8
    folders = [name.replace("NAME.py", "") for name in named]
    assert [name for name in folders if not list(ROOT.glob(name))] == []
