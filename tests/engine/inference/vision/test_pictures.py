"""Pictures of requests are decoded within bounds, or refused by their place."""

import io
from typing import Any

import pytest

pytest.importorskip("PIL")

from PIL import Image

from engine.errors import InvalidRequest
from engine.inference.vision.pictures import decoded, digest_of
from engine.values.request import Picture


def file(image: Any, kind: str, **options: Any) -> bytes:
    made = io.BytesIO()
    image.save(made, kind, **options)
    return made.getvalue()


def frames(color: str, other: str, kind: str) -> bytes:
    images = [Image.new("RGB", (40, 30), one) for one in (color, other)]
    return file(images[0], kind, save_all=True, append_images=images[1:])


_NOISE = file(Image.effect_noise((800, 600), 50).convert("RGB"), "JPEG")
_SMOOTH = file(Image.new("RGB", (40, 30)), "JPEG", progressive=True)
_SCANS = _SMOOTH[:-2] + _SMOOTH[_SMOOTH.rindex(b"\xff\xda") : -2] * 100 + _SMOOTH[-2:]
_TURNED = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "damaged"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "damaged"),
        (file(Image.new("RGB", (30, 20)), "BMP"), "damaged"),
        (_NOISE[:9000], "damaged"),
        (file(Image.new("1", (20_001, 1)), "PNG"), "20001 × 1"),
        (file(Image.new("1", (19_000, 19_000)), "PNG"), "more pixels"),
        (_SCANS, "scans"),
        (file(Image.new("L", (6000, 4000)), "JPEG", progressive=True), "more pixels"),
        (b"\0" * (21 << 20), "20 MB"),
    ],
    ids=["empty", "svg", "bmp", "cut", "wide", "bomb", "scans", "progressive", "large"],
)
def test_unreadable_picture_is_refused_by_its_place(data: bytes, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"^messages\[2\]: .*{reason}"):
        decoded(Picture(data), "messages[2]")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF"])
def test_picture_of_each_kind_is_rgb(kind: str) -> None:
    image = decoded(Picture(file(Image.new("RGB", (90, 60), "red"), kind)), "")
    red, green, blue = image.getpixel((40, 30))
    assert (image.mode, image.size) == ("RGB", (90, 60))
    assert red > 240 > 20 > max(green, blue)


@pytest.mark.parametrize("kind", ["GIF", "WEBP"])
def test_first_frame_of_an_animation_is_read(kind: str) -> None:
    assert decoded(Picture(frames("red", "blue", kind)), "").getpixel((9, 9))[0] > 240


def test_transparent_parts_are_white() -> None:
    clear = file(Image.new("RGBA", (40, 40), (0, 0, 0, 0)), "PNG")
    assert decoded(Picture(clear), "").getpixel((5, 5)) == (255, 255, 255)


def test_picture_is_turned_as_its_camera_was_held() -> None:
    data = file(Image.new("RGB", (90, 60)), "JPEG", exif=_TURNED)
    assert decoded(Picture(data), "").size == (60, 90)


def test_large_picture_is_read_smaller_and_a_small_one_is_another_picture() -> None:
    data = file(Image.new("RGB", (4000, 3000)), "JPEG")
    large, small = Picture(data), Picture(data, is_small=True)
    sizes = [decoded(one, "").size for one in (large, small)]
    assert sizes[0][0] * sizes[0][1] <= 1_580_000
    assert sizes[1][0] * sizes[1][1] <= 263_000
    assert digest_of(large) != digest_of(small)


def test_thin_picture_is_widened_for_the_squares_of_a_tower() -> None:
    data = file(Image.new("RGB", (3, 500)), "PNG")
    assert decoded(Picture(data), "").size == (28, 500)
