"""The step `table`: make one table of the thesis or of the neural-ranking study."""

from pathlib import Path
from typing import Any

from rankbound_study.commands.files import study_files, use_given_titles
from rankbound_study.options import parse_options
from rankbound_study.report import tables
from rankbound_study.report.table_files import write_json


def table(name: str, out_dir: Path, metrics: Path | None, options: str, titles: str, **files: Any) -> None:
    """Compute and write the table in all its forms."""
    use_given_titles(titles)
    made = tables.make(name, study_files(files), parse_options(options))
    made.write(out_dir, name)
    if metrics is not None:
        write_json(metrics, made.metrics)
