"""The step `features`: a pretrained network's features of pictures."""

import argparse
from pathlib import Path

SUMMARY = "Extract the features of images with a pretrained VGG16, resuming where an earlier run stopped"
EXAMPLES = """\
  python -m rankbound_study features --images data/images/aaf.parquet --weights data/weights/vgg16.safetensors \\
      --out data/features/aaf-vgg16.parquet"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--images", type=Path, metavar="FILE", required=True, help="output of `python -m rankbound_study convert`"
    )
    parser.add_argument(
        "--weights", type=Path, metavar="FILE", required=True, help="output of `python -m rankbound_study weights`"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the parquet file to write")
    parser.add_argument("--side", type=int, default=224, metavar="N", help="enlarge pictures to N x N (default 224)")
    parser.add_argument("--device", default="auto", metavar="D", help="cpu, cuda or auto (default)")
    parser.add_argument("--code", default="", metavar="DIGEST", help="its digest; chunks of other code are not reused")


def run(arguments: argparse.Namespace) -> None:
    """Extract the features."""
    from rankbound_study.jobs.determinism import use_fixed_algorithms
    from rankbound_study.jobs.vgg16 import extract_features

    use_fixed_algorithms()
    extract_features(
        arguments.images,
        arguments.weights,
        arguments.out,
        side=arguments.side,
        device=arguments.device,
        code=arguments.code,
    )
