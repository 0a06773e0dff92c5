"""Pictures of requests, decoded within bounds. Any thread."""

import hashlib
import io
import warnings
from typing import Any

from engine.errors import InvalidRequest
from engine.values.request import Picture

_FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
# A larger file, or a claim of more pixels, is refused unread, because decoding takes
# more than 200 MB: 9 bytes a pixel, 16 of WebP. A JPEG is read at a fraction of its size, unless it
# is progressive: then its coefficients take up to 8 bytes a pixel.
_MAX_BYTES = 20 << 20
_MAX_PIXELS = 21_500_000
_MAX_PIXELS_BY_FORMAT = {"WEBP": 11_000_000, "JPEG": 120_000_000}
_MAX_SIDE = 20_000
# Each scan of a progressive JPEG is a pass over the whole picture; cameras write about ten.
_SCAN, _MAX_SCANS = b"\xff\xda", 100
_TOO_MANY = "has more pixels than are read"
# The most pixels that towers are given: of Qwen3-VL about 1,500 tokens, and 256 of a small picture.
_SEEN_PIXELS = 1_536 * 1_024
_SMALL_PIXELS = 512 * 512
# Towers cut a picture into squares; a narrower one is widened to this.
_MIN_SIDE = 28


def digest_of(picture: Picture) -> bytes:
    """Return 32 bytes that name what a tower is shown."""
    return hashlib.sha256(bytes([picture.is_small]) + picture.data).digest()


def draw_sample() -> Picture:
    """Return a red circle beside a blue square."""
    from PIL import Image, ImageDraw

    image, file = Image.new("RGB", (320, 192), "white"), io.BytesIO()
    pen = ImageDraw.Draw(image)
    pen.ellipse((32, 48, 128, 144), fill="red")
    pen.rectangle((192, 48, 288, 144), fill="blue")
    image.save(file, "PNG")
    return Picture(file.getvalue())


def decoded(picture: Picture, field: str) -> Any:
    """Return a picture as Pillow's RGB image: upright, of a GIF the first frame, on white.

    Raises:
        InvalidRequest: It is no picture of a known kind, damaged, or too large.
    """
    from PIL import Image, ImageOps

    if len(picture.data) > _MAX_BYTES:
        raise InvalidRequest(
            field, f"a picture has at most {_MAX_BYTES >> 20} MB; send a smaller one"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its own bounds are larger
            image = Image.open(io.BytesIO(picture.data), formats=_FORMATS)
            width, height = image.size
            max_pixels = _MAX_PIXELS_BY_FORMAT.get(str(image.format), _MAX_PIXELS)
            if image.info.get("progressive"):
                max_pixels = _MAX_PIXELS
                if picture.data.count(_SCAN) > _MAX_SCANS:
                    raise InvalidRequest(field, "has too many scans; save it again as a JPEG")
            if width * height > max_pixels or max(width, height) > _MAX_SIDE:
                raise InvalidRequest(field, f"{_TOO_MANY}: {width} × {height}; send a smaller one")
            pixels = _SMALL_PIXELS if picture.is_small else _SEEN_PIXELS
            scale = min(1.0, (pixels / (width * height)) ** 0.5)
            size = tuple(max(1, round(side * scale)) for side in image.size)
            image.draft("RGB", size)  # a JPEG is read at a fraction of its size
            if image.mode not in ("RGB", "RGBA"):
                image = image.convert("RGBA")
            size = tuple(max(side, _MIN_SIDE) for side in size)
            if image.size != size:
                image = image.resize(size, Image.Resampling.BICUBIC)
            image = ImageOps.exif_transpose(image)
            if image.mode == "RGBA":
                white = Image.new("RGBA", image.size, "white")
                image = Image.alpha_composite(white, image).convert("RGB")
            return image
    except InvalidRequest:
        raise
    except Image.DecompressionBombError as error:
        raise InvalidRequest(field, f"{_TOO_MANY}; send a smaller one") from error
    except Exception as error:  # decoders raise whatever their libraries do
        reason = "is damaged, or none of PNG, JPEG, WebP and GIF; send it in one of these"
        raise InvalidRequest(field, reason) from error
