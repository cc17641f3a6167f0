"""One picture file as a small array of pixels of a fixed size, or an error that says what is wrong with it."""

import io
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from rankbound.errors import DataError
from rankbound_study.data.images import SIDE, Pixels

FILTER = "bilinear"
FIT = "squash"

# Pictures below would have to be made larger; those above are no portraits of some hundred pixels.
_LONGEST_SIDE, _WIDEST = 4000, 2.0


def decode_image(content: bytes, where: str) -> Pixels:
    """The pixels of a JPEG file, `(3, SIDE, SIDE)`, red, green and blue, 0 .. 255.

    The whole picture is squashed into the square, not cropped: most of the faces are 8 : 9, so that all are changed
    alike, and chin and hair, which tell an age, stay in. Pillow's bilinear filter averages over all pixels that a
    smaller one covers. The orientation that a camera noted is applied; grey and CMYK become RGB.

    Raises DataError for content that is no JPEG, is cut off, or has a size that no portrait of this kind has.
    """
    try:
        with Image.open(io.BytesIO(content), formats=("JPEG",)) as image:
            _check_size(*image.size, where)
            upright = ImageOps.exif_transpose(image).convert("RGB")
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{where}: not a readable JPEG image of {len(content)} bytes ({_reason(error)})") from error
    small = upright.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(small, dtype=np.uint8).transpose(2, 0, 1))


def encode_image(pixels: npt.NDArray[Any], quality: int = 95) -> bytes:
    """JPEG of `(3, height, width)` pixels 0 .. 255: what stand-ins and tests pack into archives."""
    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)), "RGB").save(stream, "JPEG", quality=quality)
    return stream.getvalue()


def _check_size(width: int, height: int, where: str) -> None:
    if min(width, height) < SIDE or max(width, height) > min(_LONGEST_SIDE, _WIDEST * min(width, height)):
        raise DataError(
            f"{where}: found an image of {width} x {height} pixels; expected sides from {SIDE} to {_LONGEST_SIDE}, "
            f"none above {_WIDEST:.0f} times the other"
        )


def _reason(error: Exception) -> str:
    return "unknown format" if isinstance(error, UnidentifiedImageError) else str(error)
