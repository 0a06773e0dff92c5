"""Writes the Mac's container of icons: a head, then each picture as it is, a PNG. Pure.

Source of the rule: the layout that ``iconutil`` writes, a big-endian (type, length) before each
picture, where the length counts those eight bytes.
"""

import struct
from collections.abc import Mapping

_MAGIC = b"icns"
_HEAD = struct.Struct(">4sI")
_PNG = b"\x89PNG\r\n\x1a\n"
# Side in pixels to the types of that size: for an ordinary screen, and for half as large an icon
# on a doubled one.
_TYPES: Mapping[int, tuple[bytes, ...]] = {
    16: (b"icp4",),
    32: (b"icp5", b"ic11"),
    64: (b"ic12",),
    128: (b"ic07",),
    256: (b"ic08", b"ic13"),
    512: (b"ic09", b"ic14"),
    1024: (b"ic10",),
}
SIDES = tuple(_TYPES)


def packed(pictures: Mapping[int, bytes]) -> bytes:
    """Return the container of PNG pictures.

    Args:
        pictures: Side in pixels to the PNG; sides are among ``SIDES``.

    Raises:
        ValueError: A side has no place in the container, or a picture is no PNG of that side.
    """
    parts = []
    for side, picture in sorted(pictures.items()):
        if side not in _TYPES:
            raise ValueError(f"{side}: the container takes {', '.join(map(str, SIDES))}")
        if side_of(picture) != side:
            raise ValueError(f"{side}: the picture is {side_of(picture)} pixels wide")
        parts += [_block(kind, picture) for kind in _TYPES[side]]
    return _block(_MAGIC, b"".join(parts))


def side_of(picture: bytes) -> int:
    """Return the width of a PNG in pixels.

    Raises:
        ValueError: It is no PNG.
    """
    if not picture.startswith(_PNG) or picture[12:16] != b"IHDR":
        raise ValueError("this is no PNG")
    return int.from_bytes(picture[16:20], "big")


def _block(kind: bytes, content: bytes) -> bytes:
    return _HEAD.pack(kind, _HEAD.size + len(content)) + content
