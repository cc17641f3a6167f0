"""Draw the time of a step of the loss against the number of items, on logarithmic axes."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.goals import Results
from benchmarks.rows import Row

_TITLES = {"default": "the allocator as it is", "kept": "the allocator keeps what is freed"}


def draw(results: Results, path: Path) -> bool:
    """Draw the question `loss`, a panel per allocator setting, to `path`; False if there is nothing to draw."""
    tables = {setting: rows for (name, setting), rows in results.items() if name == "loss"}
    if not tables:
        return False
    from rankbound_study.figures.style import house_style, panels, save, shared_legend

    with house_style():
        figure, axes = panels(1, len(tables), height=3.4, sharey=True, sharex=True)
        for panel, (setting, rows) in zip(axes[0], tables.items(), strict=True):
            _lines(panel, rows)
            panel.set(xscale="log", yscale="log", title=_TITLES[setting], xlabel="items in the list")
        axes[0, 0].set_ylabel("seconds, forward and backward")
        shared_legend(figure, axes, columns=3)
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, [path])
    return True


def _lines(panel: object, rows: Sequence[Row]) -> None:
    from rankbound_study.figures.style import SERIES, line

    names = dict.fromkeys(row.contender for row in rows)
    for name, look in zip(names, SERIES, strict=False):
        timed = [row for row in rows if row.contender == name and not row.left_out]
        if timed:
            line(panel, [row.n for row in timed], [row.value for row in timed], look, label=name, marks=100)
