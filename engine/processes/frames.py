"""The frames of bytes that a program and its helper process exchange.

A frame is four bytes of length, then its content. Blocks; needs no other part of the program.
"""

import struct
from collections.abc import Iterable
from typing import IO

HEAD = struct.Struct(">I")


def read_frame(stream: IO[bytes]) -> bytes | None:
    """Return the next frame; None at the end of the stream."""
    head = stream.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    [size] = HEAD.unpack(head)
    content = stream.read(size)
    return content if len(content) == size else None


def write_frame(stream: IO[bytes], content: bytes) -> None:
    """Write a frame and send it."""
    write_parts(stream, len(content), (content,))


def write_parts(stream: IO[bytes], size: int, parts: Iterable[bytes | bytearray]) -> None:
    """Write a frame with content in several parts, and send it."""
    stream.write(HEAD.pack(size))
    for part in parts:
        stream.write(part)
    stream.flush()
