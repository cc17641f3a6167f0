"""Steps run as the command line runs them, with their errors, and the texts of drawings."""

import argparse
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars as pl

from rankbound_study.cli import STEPS
from rankbound_study.figures import style
from rankbound_study.report import tables
from rankbound_study.results.study_files import StudyFiles


def run(step: str, *words: object) -> None:
    """Run a step without the command line's report of its errors."""
    parser = argparse.ArgumentParser()
    STEPS[step].configure(parser)
    STEPS[step].run(parser.parse_args([str(word) for word in words]))


def made_table(name: str, files: Any, folder: Path, **options: Any) -> tuple[pl.DataFrame, list[str]]:
    """Make a table, write its files and read them back; return its rows, and the lines of its Markdown."""
    given = {field: value for field, value in vars(files).items() if hasattr(StudyFiles, field)}
    made = tables.make(name, StudyFiles(**given), options)
    made.write(folder, name)
    assert list(tables.table_specs()[name].shown(name, folder))
    return made.table, made.beside[".md"].replace("\N{NO-BREAK SPACE}", " ").splitlines()


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def svg_of(figure: Any, folder: Path) -> str:
    """Save a figure as figure.svg, and return its text, which is well-formed."""
    style.save(figure, [folder / "figure.svg"])
    svg = (folder / "figure.svg").read_text("utf-8")
    ElementTree.fromstring(svg)
    return svg


def texts(svg: str) -> list[str]:
    """Return the texts of a drawing with glyph paths, which matplotlib leaves as comments."""
    return [text.strip() for text in re.findall(r"<!--(.*?)-->", svg, re.DOTALL)]
