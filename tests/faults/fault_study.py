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
from project import GENERATED, Project

from rankbound_study.config.sections.description import known_set
from tests.raw_files import encode_image, folder_of, pack

MIRROR = "mirror"
MOVIELENS, FACES, VGG16 = "ml-latest-small.zip", "All-Age-Faces.zip", "vgg16-397923af.pth"
STUDY_SEED = 20
NOWHERE = "http://127.0.0.1:9"
"""In the place of the publishers' addresses: nothing listens there."""

ASIDE = "data/weights/synthetic-vgg16.safetensors"
"""A generated file that nothing here is made of: it only stands for its rule."""
"""What the finished study has: everything, and the stand-in for the weights, which no data set of it reads."""

SETTINGS = {"optimiser": "adam", "learning_rate": 0.001, "epochs": 2, "batch_size": 100, "scale": "standard"}
RANK_LR = {"family": "rank", "model": {"name": "linear"}, "loss": "RankNet"}
OF_FACES = {"judged_by": "PairAccuracy", "folds": [1], "seeds": [0]}
OF_QUERIES = {"datasets": ["synthetic-mq2008-label1"], "judged_by": "nDCG@10", "seeds": [0], "settings": SETTINGS}

CONFIG: dict[str, Any] = {
    **GENERATED,
    "study": "faults",
    "datasets": ["movielens", "synthetic-mq2008"],
    "losses": ["nDCG"],
    "interactions": {
        "movielens": {
            "archive": MOVIELENS,
            "threshold": 4,
            "min_relevant": 25,
            "nsr": [1],
            "validation_share": 0.1,
            "seed": 0,
        }
    },
    "images": {
        "aaf": {
            "archive": FACES,
            "folds": 1,
            "validation_share": 0.2,
            "test_share": 0.2,
            "above": 5,
            "pairs": {"train": 40, "validation": 20, "test": 20},
            "seed": 0,
            "vgg16_side": 32,
        }
    },
    "training": {
        "movielens": {
            "model": {"name": "matrix-factorization", "factors": 4},
            "learning_rate": {"published": 0.01},
            "epochs": 2,
            "batch_size": 32,
        },
        "synthetic-mq2008": GENERATED["training"]["synthetic-mq2008"],
    },
    "comparisons": {
        "web-queries": {**OF_QUERIES, "folds": [1, 2], "methods": {"Rank-LR": RANK_LR}},
        "web-queries-by-features": {**OF_QUERIES, "folds": [1], "feature_counts": [5], "methods": {"Rank-LR": RANK_LR}},
        "faces-pixels": {
            **OF_FACES,
            "datasets": ["aaf"],
            "settings": {"scale": "standard"},
            "methods": {
                "Reg-l2": {
                    "family": "reg",
                    "model": {"name": "ridge", "penalties": [0.01]},
                    "loss": "squared",
                    "target": "value",
                }
            },
        },
        "faces-vgg16": {**OF_FACES, "datasets": ["aaf-vgg16"], "settings": SETTINGS, "methods": {"Rank-LR": RANK_LR}},
    },
    "experiments": {
        "rates": {
            "datasets": ["synthetic-mq2008-label1"],
            "boundings": ["none"],
            "folds": [1],
            "variants": {"low": {"learning_rate": 0.003}},
        },
        "tilts": {
            "datasets": ["synthetic-mq2008-label1"],
            "boundings": ["distribution(tilt=4)"],
            "folds": [1],
            "variants": {"t4": {"learning_rate": 0.003}},
        },
    },
    "figures": [
        *("figure_1_1", "figure_5_2", "figure_neural_3", "figure_neural_duplicates"),
        *("figure_leaderboard_scores", "figure_leaderboard_epochs", "figure_leaderboard_lengths"),
        "figure_leaderboard_topics",
    ],
    "tables": [
        *("table_2_2", "table_5_1", "table_5_1_honest", "table_flattery", "table_sensitivity", "table_claims"),
        *("table_neural_1", "table_neural_2", "table_neural_features", "table_leaderboard"),
    ],
}


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
    project.run("fault_weights", str(folder / VGG16), PYTHONPATH=_with_helpers(project))
    digests = {name: hashlib.md5(text, usedforsecurity=False).hexdigest() for name, text in ratings.items()}
    changes: dict[str, dict[str, Any]] = {
        "movielens": {"content": {"algorithm": "md5", "members": digests}},
        "aaf": {"folder": folder_of(faces).model_dump(exclude_unset=True)},
        "vgg16": {"content": {"file": hashlib.sha256((folder / VGG16).read_bytes()).hexdigest()}},
    }
    for name, change in changes.items():
        path = project.path(f"src/rankbound_study/config/known/{name}.yaml")
        keys = known_set(name).model_dump(exclude_unset=True) | change | {"addresses": [f"{NOWHERE}/{name}"]}
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


def _with_helpers(project: Project) -> str:
    return f"{Path(__file__).parent}:{project.path('src')}"
