"""Decodes the bytes of a text file in any common encoding. Pure; any thread."""

import codecs
import re

# The byte order marks, longer ones first: that of UTF-32 begins like that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LEGACY = "cp1252"
_LEGACY_NAME = "Windows-1252"
_NUL = re.compile("\0")
# Hardly any text has these characters: they show that the guessed encoding is wrong.
_CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_LOOKED_AT_BYTES = 4096
# The largest share of letters beyond ASCII in Western text.
_MOST_HIGH_SHARE = 0.3
# In UTF-16 text of a Latin script, at least this share of every second byte is zero.
_LEAST_ZERO_SHARE = 0.6


class NotText(Exception):
    """The bytes are not text, or their encoding cannot be recognised."""


def decoded(data: bytes) -> tuple[str, str]:
    """Return the text of a file, and the name of its encoding if that had to be guessed.

    A byte order mark states the encoding. Without one it is UTF-8, or UTF-16 if the bytes look like
    that, or else Windows-1252, as browsers assume for pages that do not state their encoding.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _checked(data, encoding), ""
    if encoding := _unmarked_utf16(data):
        return _checked(data, encoding, _CONTROL), encoding.upper()
    try:
        return _checked(data, "utf-8"), ""
    except NotText:
        high = sum(byte >= 0x80 for byte in data)
        if b"\0" in data or high > _MOST_HIGH_SHARE * len(data):
            raise
    return _checked(data, _LEGACY, _CONTROL), _LEGACY_NAME


def _checked(data: bytes, encoding: str, never: re.Pattern[str] = _NUL) -> str:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise NotText(encoding) from error
    if never.search(text):
        raise NotText(encoding)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _unmarked_utf16(data: bytes) -> str:
    """Return the byte order of UTF-16 that the bytes look like; empty for neither."""
    head = data[:_LOOKED_AT_BYTES]
    half = len(head) // 2
    if half < 2 or len(data) % 2:
        return ""
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if odd > _LEAST_ZERO_SHARE * half and not even:
        return "utf-16-le"
    return "utf-16-be" if even > _LEAST_ZERO_SHARE * half and not odd else ""
