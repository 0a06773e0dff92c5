"""Converts Amazon's binary event streams to server-sent events.

https://docs.aws.amazon.com/transcribe/latest/dg/event-stream.html. Pure; any thread.
"""

import struct
import zlib
from collections.abc import Iterator

_PRELUDE = struct.Struct(">III")
_LONGEST = 16 * 1024 * 1024
# The size of a header's value in bytes, by its type; None for types that include their size.
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 6: None, 7: None, 8: 8, 9: 16}


def is_event_stream(content: bytes) -> bool:
    """Whether bytes begin such a stream: the checksum of its first lengths is right."""
    if len(content) < _PRELUDE.size:
        return False
    length, _, sum_ = _PRELUDE.unpack_from(content)
    return bool(16 <= length <= _LONGEST and zlib.crc32(content[:8]) == sum_)


def as_server_sent_events(content: bytes) -> str:
    """Return the events with their names; a truncated last event is left out."""
    return "".join(
        f"event: {name}\ndata: {payload.decode('utf-8', 'replace')}\n\n"
        for name, payload in _messages(content)
    )


def _messages(content: bytes) -> Iterator[tuple[str, bytes]]:
    at = 0
    while at + _PRELUDE.size <= len(content):
        length, header_length, _ = _PRELUDE.unpack_from(content, at)
        first, end = at + _PRELUDE.size, at + length - 4
        if length < 16 or end - first < header_length:
            return
        names = _headers(content[first : first + header_length])
        name = names.get(":event-type") or names.get(":exception-type") or "error"
        yield name, content[first + header_length : min(end, len(content))]
        at += length


def _headers(content: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    while at < len(content):
        name_end = at + 1 + content[at]
        if name_end >= len(content):
            break
        name = content[at + 1 : name_end].decode("utf-8", "replace")
        size = _SIZES.get(content[name_end], 0)
        at = name_end + 1
        if size is None:
            size = int.from_bytes(content[at : at + 2])
            at += 2
        found[name] = content[at : at + size].decode("utf-8", "replace")
        at += size
    return found
