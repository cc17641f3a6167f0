"""The step `claims`: a verdict on every claim of the sources, from a study's results."""

from pathlib import Path
from typing import Any

from rankbound_study.claims import verdict_table
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decide
from rankbound_study.claims.theorems import read
from rankbound_study.commands.files import study_files, use_given_titles
from rankbound_study.options import parse_options
from rankbound_study.report import claims_table
from rankbound_study.report.table_files import TableFiles


def claims(options: str, out_dir: Path, titles: str, name: str, theorems: Path | None = None, **files: Any) -> None:
    """Decide, and write the table in all its forms."""
    use_given_titles(titles)
    chosen = {kind: value for kind, value in vars(study_files(files)).items() if kind in Evidence.__annotations__}
    evidence = Evidence(parse_options(options)["study"], **chosen)
    table = verdict_table.frame(decide(evidence, read(theorems) if theorems else {}))
    TableFiles(table, claims_table.texts(table)).write(out_dir, name)
    print(verdict_table.summary(table))
