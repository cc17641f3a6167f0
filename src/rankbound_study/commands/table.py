"""The step `table`: make tables of the thesis or of the neural-ranking study that are made from the same files."""

from pathlib import Path
from typing import Any

from rankbound_study.commands.files import study_files, use_given_titles
from rankbound_study.options import parse_options
from rankbound_study.report import tables
from rankbound_study.report.table_files import write_json


def table(names: list[str], out_dir: Path, metrics: Path | None, options: str, titles: str, **files: Any) -> None:
    """Compute and write the tables in all their forms, and the metrics of the one that has some."""
    use_given_titles(titles)
    for name in names:
        made = tables.make(name, study_files(files), parse_options(options))
        made.write(out_dir, name)
        if metrics is not None and made.metrics is not None:
            write_json(metrics, made.metrics)
