"""Converts the bytes of a saved file to text: decompresses, decodes, writes out binary formats.

Pure; any thread.
"""

import re
import zlib
from dataclasses import dataclass

from api.conformance.captures.opening import event_stream, flows
from api.conformance.captures.opening.record import Record
from api.conformance.captures.values import Decode, as_it_stands

MOST_BYTES = 128 * 1024 * 1024
_SAMPLE_BYTES = 4096


class NotReadable(ValueError):
    """A file cannot be read; the message says why and completes a sentence."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The content of a file: a text, or the exchanges of its format.

    Attributes:
        text: The text. For UTF-8 it has one character for each byte, so that it takes no more
            memory than the file.
        decode: Converts pieces of it to text.
        records: The exchanges.
    """

    text: str = ""
    decode: Decode = as_it_stands
    records: tuple[Record, ...] = ()


def opened(content: bytes, most_bytes: int = MOST_BYTES) -> Opened:
    """Return the content of a file.

    Args:
        content: Its bytes.
        most_bytes: Its largest permitted size once decompressed.

    Raises:
        NotReadable: Its compression is unknown, or it is damaged or too large.
    """
    content = unpacked(content, most_bytes)
    if event_stream.is_event_stream(content):
        return Opened(event_stream.as_server_sent_events(content))
    if flows.is_flows(content):
        try:
            return Opened(records=tuple(flows.records_of(content)))
        except ValueError as error:
            raise NotReadable(f"it is a damaged dump of mitmproxy: {error}") from error
    encoding = _wide_encoding(content[:_SAMPLE_BYTES])
    if encoding is not None:
        return Opened(content.decode(encoding, "replace"))
    content = content.removeprefix(b"\xef\xbb\xbf")
    if content.isascii():
        return Opened(content.decode("ascii"))
    return Opened(content.decode("latin-1"), from_utf8)


def from_utf8(piece: str) -> str:
    """Decode a piece of text that has one character for each byte of UTF-8."""
    # Invalid UTF-8 is part of the capture, so it is shown instead of refused.
    return piece if piece.isascii() else piece.encode("latin-1").decode("utf-8", "replace")


def unpacked(content: bytes, most_bytes: int = MOST_BYTES) -> bytes:
    """Return a file's content, decompressed if it is gzip.

    Raises:
        NotReadable: It is damaged, or would become too large.
    """
    if not content.startswith(b"\x1f\x8b"):
        return content
    unpacked_bytes = bytearray()
    while content.startswith(b"\x1f\x8b"):
        reader = zlib.decompressobj(wbits=31)
        try:
            unpacked_bytes += reader.decompress(content, most_bytes + 1 - len(unpacked_bytes))
        except zlib.error as error:
            raise NotReadable("its gzip compression is damaged") from error
        if len(unpacked_bytes) > most_bytes:
            raise NotReadable(f"it is larger than {most_bytes >> 20} MiB once it is decompressed")
        # The part before the end of a truncated file is still read.
        if not reader.eof and not unpacked_bytes:
            raise NotReadable("its gzip compression is damaged")
        content = reader.unused_data
    return bytes(unpacked_bytes)


def _wide_encoding(sample: bytes) -> str | None:
    """Return which UTF-16 encoding a text has; None for neither."""
    if sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if len(sample) < 4:
        return None
    # PowerShell and others leave out the byte order mark; in ASCII text every other byte is then
    # zero.
    half = len(sample) // 2
    for encoding, zeros in (("utf-16-le", sample[1::2]), ("utf-16-be", sample[0::2])):
        if zeros.count(0) > 0.7 * half and re.search(rb"[^\x00]\x00|\x00[^\x00]", sample):
            return encoding
    return None
