"""The study of methods: its names in results, and the weights of VGG16, without which a comparison is left out."""

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
