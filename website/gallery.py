"""The gallery: every figure of the report with its caption, and the command that makes it.

Captions are those of the figures' specifications. Figures of formulas are drawn, and those that released evidence has
the scores of; of the others, those that a finished study has left in this clone are shown, but for pictures of a data
set, whose terms forbid it.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from rankbound_study import figures
from rankbound_study.export.evidence import Released, unpack
from rankbound_study.figures import FigureSpec, style
from rankbound_study.report import paper
from website.pages import filled

FOLDER = "gallery"
"""The folder of the drawings, beside the pages."""
EVIDENCE = "evidence.parquet"
"""The file of released evidence in a folder of results."""
OF_EVIDENCE = (*paper.FIGURES, *(f"figure_5_{number}" for number in range(2, 11)))
"""The figures that evidence draws as the study does: of the judging metrics, at the selected epoch."""
PICTURES = "It contains pictures of a data set, whose terms forbid showing them here"


def write(docs: Path, results: Path, configured: list[str]) -> list[str]:
    """Write `gallery.md` and the drawings that it shows, and return the names of these figures.

    There may be no `results` of a study; `configured` are the figures that `make paper` makes.
    """
    drawings = docs / FOLDER
    drawings.mkdir(exist_ok=True)
    specs = figures.figure_specs()
    groups = {
        "Formulas": [name for name in specs if not specs[name].needs],
        "Results of the study": [name for name in configured if specs[name].needs],
        "Other studies": [name for name in specs if name not in configured],
    }
    with TemporaryDirectory() as folder:
        released = cache(lambda: unpack(results / EVIDENCE, Path(folder)))
        drawn = [name for name in specs if _drawn(name, specs[name], drawings, results, released)]

    made = {name: command(name, spec, name in configured) for name, spec in specs.items()}
    facts = {"specs": specs, "title": figures.title, "commands": made, "drawn": drawn}
    page = filled("gallery.md", groups=groups, folder=FOLDER, pictures=PICTURES, **facts)
    (docs / "gallery.md").write_text(page, "utf-8")
    return drawn


def command(name: str, spec: FigureSpec, configured: bool) -> str:
    """Return the command that makes a figure, with all that it is made from."""
    if not spec.needs:
        return f"python -m rankbound_study figure {name} --out {name}.svg"
    target = figures.figure_file(Path("results"), name, ".svg")
    if configured:
        return f"snakemake --cores 2 {target}"
    check = "python -m rankbound_study check-config config.yaml mine.yaml"
    return f"# mine.yaml names {name} under `figures:`\n{check}\nsnakemake --cores 2 --configfile mine.yaml {target}"


def _drawn(
    name: str, spec: FigureSpec, drawings: Path, results: Path, released: Callable[[], Released] | None = None
) -> bool:
    """Return whether there is a drawing; if so, it lies among the drawings, for light and dark pages."""
    light, finished = drawings / f"{name}.svg", figures.figure_file(results, name, ".svg")
    evidence = results / EVIDENCE
    if not spec.needs:
        if _is_older(light, _last_edit()):
            style.save(figures.draw(name), [light])
    elif finished.is_file() and not spec.shows_pictures:
        light.write_text(finished.read_text("utf-8"), "utf-8")
    elif released is not None and name in OF_EVIDENCE and evidence.is_file():
        if _is_older(light, max(_last_edit(), evidence.stat().st_mtime)):
            scores = released()
            files = scores.files_with_tables(results / "tables")
            style.save(figures.draw(name, files, scores.options_for(spec.options)), [light])
    else:
        return False
    light.with_suffix(".dark.svg").write_text(recoloured(light.read_text("utf-8"), style.DARK), "utf-8")
    return True


def _is_older(drawing: Path, time: float) -> bool:
    """Return whether a drawing was made before that time, or not at all."""
    return not drawing.is_file() or drawing.stat().st_mtime < time


@cache
def _last_edit() -> float:
    """Return when code was last changed, after which drawings of formulas are drawn again."""
    return max(file.stat().st_mtime for file in Path(figures.__file__).parents[2].rglob("*.py"))


def recoloured(drawing: str, colours: Mapping[str, str]) -> str:
    """Return a drawing with other colours, all replaced at once."""
    return re.sub("|".join(colours), lambda colour: colours[colour[0]], drawing)
