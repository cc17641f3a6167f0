"""Near-duplicate faces: examples at hash distances around the threshold that keeps them in one part of a split."""

from typing import Any

import numpy as np

from rankbound_study.data.contracts import read_row_groups
from rankbound_study.data.image_hash import Bits
from rankbound_study.data.images import Faces, read_faces
from rankbound_study.figures import style
from rankbound_study.figures._pictures import pair_grid, picture, pixels_of
from rankbound_study.figures.remark import remark
from rankbound_study.figures.spec import FigureSpec
from rankbound_study.results.neural_names import TABLES, what_is_missing
from rankbound_study.results.specs import StudyFiles

SPECS = {
    "figure_neural_duplicates": FigureSpec(
        "Pairs of similar pictures by the distance of their perceptual hashes. Up to the threshold they are in one "
        "group, which no split separates; beyond it, pairs mostly show different people. Identities are unknown: one "
        "person may still appear in two parts.",
        title="Near duplicates",
        needs=("images",),
        data=(2,),
        shows_pictures=True,
        order=3,
    )
}

COLUMNS = 4


def draw(files: StudyFiles) -> Any:
    """Draw a row of pairs per stretch of distances; titles are black where pairs are grouped, else coloured."""
    from rankbound_study.data.image_hash import THRESHOLD, example_pairs

    if files.images is None:
        return remark(f"No faces to draw.\n{what_is_missing(TABLES[1])}")
    # Of 256 bits; the last two stretches lie beyond the threshold.
    stretches = (range(31), range(31, 47), range(47, THRESHOLD + 1), range(THRESHOLD + 1, 61), range(61, 65))
    faces = read_faces(files.images)
    examples = example_pairs(_hashes(files, faces), range(stretches[-1].stop), per_distance=2)
    chosen = [_spread([pair for pair in examples if pair[0] in stretch]) for stretch in stretches]
    pixels = pixels_of(files.images, np.unique([face for pairs in chosen for pair in pairs for face in pair[1:]]))
    title = f"Pairs of similar pictures by the distance of their hashes; the threshold is {THRESHOLD} of 256 bits"
    figure, panels = pair_grid(len(stretches), COLUMNS, title, lines=2, left=0.45)
    for stretch, pairs, row in zip(stretches, chosen, panels, strict=True):
        _label(row[0], stretch, is_grouped=stretch.stop <= THRESHOLD + 1)
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


def _label(panel: Any, stretch: range, *, is_grouped: bool) -> None:
    text = f"{stretch.start} to {stretch.stop - 1} bits\n{'one group' if is_grouped else 'not grouped'}"
    panel.text(
        -0.12, 0.5, text, transform=panel.transAxes, rotation=90, ha="right", va="center", fontsize=8,
        multialignment="center", color=style.INK if is_grouped else style.VERMILION,
    )  # fmt: skip


def _spread(pairs: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Return pairs spread evenly over a stretch, nearest first."""
    places = np.linspace(0, max(len(pairs) - 1, 0), min(COLUMNS, len(pairs))).astype(int)
    return [pairs[place] for place in np.unique(places).tolist()]


def _hashes(files: StudyFiles, faces: Faces) -> Bits:
    from rankbound_study.data.image_hash import perceptual_hashes

    assert files.images is not None
    some = [
        perceptual_hashes(
            np.frombuffer(b"".join(table.column("pixels").to_pylist()), np.uint8).reshape(len(table), *faces.shape)
        )
        for table in read_row_groups(files.images, "images", ["pixels"])
    ]
    return np.concatenate(some)
