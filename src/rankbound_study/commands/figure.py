"""The step `figure`: draw figures of the thesis or of the neural-ranking study that are made from the same files."""

from pathlib import Path
from typing import Any

from rankbound.errors import ConfigError
from rankbound_study import figures
from rankbound_study.commands.files import study_files, use_given_titles
from rankbound_study.figures import style
from rankbound_study.options import parse_options


def figure(names: list[str], out: list[Path], options: str, titles: str, **files: Any) -> None:
    """Draw and write the figures; of several, the name of a file says which one it shows."""
    use_given_titles(titles)
    shown = {name: out if len(names) == 1 else [file for file in out if file.stem == name] for name in names}
    if strange := [str(file) for file in out if not any(file in of_one for of_one in shown.values())]:
        raise ConfigError(f"--out: found {strange[0]}, expected files named after the figures: {', '.join(names)}")
    for name, written in shown.items():
        style.save(figures.draw(name, study_files(files), parse_options(options)), written)
