"""Decode a picture file into a small array of pixels of a fixed size."""

import io

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from rankbound.errors import DataError
from rankbound_study.data.images import SIDE, Pixels

FILTER = "bilinear"
FIT = "squash"

# Smaller pictures would have to be enlarged; larger ones are not portraits of some hundred pixels.
_LONGEST_SIDE, _WIDEST = 4000, 2.0


def decode_image(content: bytes, where: str) -> Pixels:
    """Return the pixels of a JPEG file, `(3, SIDE, SIDE)`, red, green and blue, 0 .. 255.

    The whole picture is squashed into the square, not cropped: most of the faces are 8 : 9, so all are changed alike,
    and chin and hair, which indicate the age, stay in. Pillow's bilinear filter averages over all pixels that a smaller
    one covers. The camera's orientation is applied; grey and CMYK become RGB.

    Raises DataError for content that is not a JPEG, is truncated, or has a size that no such portrait has.
    """
    try:
        with Image.open(io.BytesIO(content), formats=("JPEG",)) as image:
            _check_size(*image.size, where)
            upright = ImageOps.exif_transpose(image).convert("RGB")
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{where}: not a readable JPEG image of {len(content)} bytes ({_reason(error)})") from error
    small = upright.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(small, dtype=np.uint8).transpose(2, 0, 1))


def _check_size(width: int, height: int, where: str) -> None:
    if min(width, height) < SIDE or max(width, height) > min(_LONGEST_SIDE, _WIDEST * min(width, height)):
        raise DataError(
            f"{where}: found an image of {width} x {height} pixels; expected sides from {SIDE} to {_LONGEST_SIDE}, "
            f"none above {_WIDEST:.0f} times the other"
        )


def _reason(error: Exception) -> str:
    return "unknown format" if isinstance(error, UnidentifiedImageError) else str(error)
