"""The step `figure`: draw one figure of the thesis or of the neural-ranking study."""

from pathlib import Path
from typing import Any

from rankbound_study import figures
from rankbound_study.commands.files import study_files, use_given_titles
from rankbound_study.figures import style
from rankbound_study.options import parse_options


def figure(name: str, out: list[Path], options: str, titles: str, **files: Any) -> None:
    """Draw and write the figure."""
    use_given_titles(titles)
    style.save(figures.draw(name, study_files(files), parse_options(options)), out)
