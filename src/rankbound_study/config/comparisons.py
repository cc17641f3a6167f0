"""Names in results: of the study of methods, and of experiments' variants; and the weights of VGG16."""

import os
from pathlib import Path

from rankbound_study.vocabulary import HONEST

STUDY = "neural"
"""The study's name in the keys and seeds of comparison runs: methods are paired, whatever the study's own name."""

PROTOCOL = HONEST
"""The validation part selects the epoch: the publication does not say how the methods were tuned."""

OF_FEATURES = "-of-"
"""Separates a method's name from its number of features: `RankNet-of-10`."""

VGG16_FILE = "vgg16-397923af.pth"
VGG16_WEIGHTS = "<data>/weights/vgg16.safetensors"


def vgg16_at(data: str, mirror: str) -> Path | None:
    """Return the path of VGG16's published weights (converted, downloaded or at a mirror's folder), or None."""
    mirror = os.environ.get("RANKBOUND_MIRROR") or mirror
    places = [Path(data, "weights/vgg16.safetensors"), Path(data, "raw", VGG16_FILE)]
    if mirror and "://" not in mirror:
        places.append(Path(mirror, VGG16_FILE))
    return next((place for place in places if place.is_file()), None)


VARIANT = "@"
"""Separates the study's name from the variant's, in runs and folders: `thesis@factors-16`."""

TESTING = ("test_nsr", "test_relevant", "judged_by")
"""The settings that change how a training is measured, not how it is done."""
