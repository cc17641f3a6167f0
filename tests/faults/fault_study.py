"""A study so small that it can be made hundreds of times, with every rule of the workflow in it.

Nothing in it is real: the raw archives are generated, and the descriptions in the copied package have their checksums
instead of the publishers', so that fetching, checking and converting are those of the real ones.
"""

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from project import STUDIES, Project

from rankbound_study.config.sections.description import known_sets
from tests.raw_files import encode_image, folder_of, pack

MIRROR = "mirror"
MOVIELENS, FACES, VGG16 = "ml-latest-small.zip", "All-Age-Faces.zip", "vgg16-397923af.pth"
STUDY_SEED = 20
NOWHERE = "http://127.0.0.1:9"
"""In the place of the publishers' addresses: nothing listens there."""

ASIDE = "data/weights/synthetic-vgg16.safetensors"
"""A generated file that nothing here is made of: it only stands for its rule."""
"""What the finished study has: everything, and the stand-in for the weights, which no data set of it reads."""

CONFIG: dict[str, Any] = STUDIES["faults"]


def make_study(folder: Path) -> Project:
    """Set the study up in `folder`, archives included, and run all of it."""
    project = Project.create(folder, CONFIG)
    _generate_archives(project)
    # One after the other: the manifest of `all` tells of all steps that have ended by then.
    for target in (ASIDE, "all"):
        project.snakemake(target, RANKBOUND_MIRROR=MIRROR)
    return project


def _generate_archives(project: Project) -> None:
    folder = project.path(MIRROR)
    folder.mkdir()
    random = np.random.default_rng(STUDY_SEED)
    ratings = _ratings(random)
    pack(folder / MOVIELENS, {f"ml-latest-small/{name}": text for name, text in ratings.items()})
    faces = _faces(random)
    pack(folder / FACES, {f"All-Age-Faces/original images/{name}": content for name, content in faces.items()})
    _make_network_small(project.path("src/rankbound_study/jobs/vgg16.py"))
    with_helpers = f"{Path(__file__).parent}:{project.path('src')}"
    project.run("fault_weights", str(folder / VGG16), PYTHONPATH=with_helpers)
    digests = {name: hashlib.md5(text, usedforsecurity=False).hexdigest() for name, text in ratings.items()}
    changes: dict[str, dict[str, Any]] = {
        "movielens": {"content": {"algorithm": "md5", "members": digests}},
        "aaf": {"folder": folder_of(faces).model_dump(exclude_unset=True)},
        "vgg16": {"content": {"file": hashlib.sha256((folder / VGG16).read_bytes()).hexdigest()}},
    }
    for name, change in changes.items():
        path = project.path(f"src/rankbound_study/config/known/{name}.yaml")
        keys = known_sets()[name].model_dump(exclude_unset=True) | change | {"addresses": [f"{NOWHERE}/{name}"]}
        path.write_text(yaml.safe_dump(keys), "utf-8")


def _ratings(random: np.random.Generator) -> dict[str, bytes]:
    """MovieLens' four tables: ten users with some sixty ratings each, half of them high."""
    rows = [
        f"{user},{movie},{random.choice([4.0, 4.5, 5.0] if place % 2 else [1.0, 2.5, 3.5])},{1_000_000 + place}"
        for user in range(1, 11)
        for place, movie in enumerate(np.sort(random.choice(np.arange(1, 121), 64, replace=False)).tolist())
    ]
    ratings = "\n".join(["userId,movieId,rating,timestamp", *rows, ""]).encode()
    return {"ratings.csv": ratings, **{f"{name}.csv": f"{name}\n".encode() for name in ("movies", "tags", "links")}}


def _faces(random: np.random.Generator) -> dict[str, bytes]:
    """Pictures that differ, by file name: the older, the brighter."""
    found = {}
    for number in range(60):
        age = 2 + int(random.integers(79))
        coarse = random.integers(0, 90, (3, 8, 8)) + 2 * age
        pixels = np.kron(coarse, np.ones((1, 13, 13))).clip(0, 255).astype(np.uint8)
        found[f"{number:05}A{age:02}.jpg"] = encode_image(pixels)
    return found


def _make_network_small(path: Path) -> None:
    """Half a gigabyte of weights would be hashed and copied hundreds of times."""
    text = path.read_text("utf-8")
    for name, value in (("STAGES", "((2, 2), (2, 2), (2, 3), (2, 3), (2, 3))"), ("WIDTH", "16"), ("N_CLASSES", "4")):
        text, count = re.subn(rf"^{name} = .*$", f"{name} = {value}", text, flags=re.MULTILINE)
        assert count == 1, name
    path.write_text(text, "utf-8")
