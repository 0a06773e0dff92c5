"""Decodes text files: by byte order mark, as UTF-8, or as Windows-1252."""

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
_NUL = re.compile("\0")
# Hardly any text has these characters: they show that the assumed encoding is wrong.
_CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")


def decoded(data: bytes) -> tuple[str, str]:
    """Return the text of a file, and the name of its encoding if it is an assumption.

    A byte order mark states the encoding. Without one it is UTF-8, or else Windows-1252, as
    browsers assume. Raises ``ValueError`` if it is neither.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _checked(data, encoding), ""
    try:
        return _checked(data, "utf-8"), ""
    except ValueError:
        # Less than a third of Western text is beyond ASCII.
        if b"\0" in data or 3 * sum(byte >= 0x80 for byte in data) > len(data):
            raise
    return _checked(data, "cp1252", _CONTROL), "Windows-1252"


def _checked(data: bytes, encoding: str, never: re.Pattern[str] = _NUL) -> str:
    text = data.decode(encoding)
    if never.search(text):
        raise ValueError(encoding)
    return text.replace("\r\n", "\n").replace("\r", "\n")
