"""The step `weights`: a pretrained network's published weights as safetensors."""

import argparse
from pathlib import Path

SUMMARY = "Turn VGG16's published weights into safetensors, or generate a small stand-in"
EXAMPLES = """\
  python -m rankbound_study weights vgg16 --raw data/raw/vgg16-397923af.pth --out data/weights/vgg16.safetensors
  python -m rankbound_study weights synthetic-vgg16 --out data/weights/synthetic-vgg16.safetensors"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "source", metavar="SOURCE", choices=("vgg16", "synthetic-vgg16"), help="vgg16 or synthetic-vgg16"
    )
    parser.add_argument("--raw", type=Path, metavar="FILE", help="the publisher's file (vgg16 only)")
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the safetensors file to write")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="random seed of the stand-in (default 0)")


def run(arguments: argparse.Namespace) -> None:
    """Convert or generate the weights."""
    from rankbound.errors import ConfigError
    from rankbound_study.data.sources import RawFile, find_source
    from rankbound_study.jobs.vgg16 import SYNTHETIC, convert_weights, generate_weights

    if arguments.source == SYNTHETIC:
        generate_weights(arguments.out, arguments.seed)
        return
    if arguments.raw is None:
        raise ConfigError("vgg16 needs --raw: the file that `python -m rankbound_study download vgg16` saved")
    convert_weights(RawFile(find_source("vgg16"), arguments.raw), arguments.out)
