"""Near-duplicate faces: examples at distances of their hashes around the threshold that keeps them in one split."""

from typing import Any

import numpy as np

from rankbound_study.data.contracts import read_row_groups
from rankbound_study.data.image_hash import THRESHOLD, Bits, example_pairs, perceptual_hashes
from rankbound_study.data.images import Faces, read_faces
from rankbound_study.figures import style
from rankbound_study.figures.pictures import pair_grid, picture, pixels_of
from rankbound_study.figures.remark import remark
from rankbound_study.figures.spec import StudyFiles
from rankbound_study.results.neural_names import TABLES, what_is_missing

DISTANCES = (range(31), range(31, 47), range(47, THRESHOLD + 1), range(THRESHOLD + 1, 61), range(61, 65))
"""Stretches of distances, of 256 bits; the last two lie beyond the threshold."""

COLUMNS = 4


def draw(files: StudyFiles) -> Any:
    """A row per stretch of distances; black ones are grouped, the others are not."""
    if files.images is None:
        return remark(f"No faces to draw.\n{what_is_missing(TABLES[1])}")
    faces = read_faces(files.images)
    hashes = _hashes(files, faces)
    found = example_pairs(hashes, range(DISTANCES[-1].stop), per_distance=2)
    chosen = [_some([pair for pair in found if pair[0] in stretch]) for stretch in DISTANCES]
    pixels = pixels_of(files.images, np.unique([face for pairs in chosen for pair in pairs for face in pair[1:]]))
    title = f"Pairs of alike pictures by the distance of their hashes; the threshold is {THRESHOLD} of 256 bits"
    figure, panels = pair_grid(len(DISTANCES), COLUMNS, title, lines=2, left=0.45)
    for stretch, pairs, row in zip(DISTANCES, chosen, panels, strict=True):
        _label(row[0], stretch)
        if not pairs:
            style.empty_panel(row[0], "no such\npair")
        for place, (distance, first, second) in enumerate(pairs):
            picture(row[2 * place], pixels[first], f"{faces.ages[first]} years")
            picture(row[2 * place + 1], pixels[second], f"{faces.ages[second]} years")
            row[2 * place + 1].text(
                -0.04, 1.02, f"{distance} bits", transform=row[2 * place + 1].transAxes, ha="center", va="bottom",
                fontsize=7, color=style.MUTED,
            )  # fmt: skip
    return figure


def _label(panel: Any, stretch: range) -> None:
    grouped = stretch.stop <= THRESHOLD + 1
    text = f"{stretch.start} to {stretch.stop - 1} bits\n{'one group' if grouped else 'not grouped'}"
    panel.text(
        -0.12, 0.5, text, transform=panel.transAxes, rotation=90, ha="right", va="center", fontsize=8,
        multialignment="center", color=style.INK if grouped else style.VERMILION,
    )  # fmt: skip


def _some(pairs: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Pairs spread evenly over a stretch, nearest first."""
    places = np.linspace(0, max(len(pairs) - 1, 0), min(COLUMNS, len(pairs))).astype(int)
    return [pairs[place] for place in np.unique(places).tolist()]


def _hashes(files: StudyFiles, faces: Faces) -> Bits:
    assert files.images is not None
    some = [
        perceptual_hashes(
            np.frombuffer(b"".join(table.column("pixels").to_pylist()), np.uint8).reshape(len(table), *faces.shape)
        )
        for table in read_row_groups(files.images, "images", ["pixels"])
    ]
    return np.concatenate(some)
