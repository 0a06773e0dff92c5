"""One request and its answer, from formats that contain both. Pure values; any thread."""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from api.conformance.captures.framing import BodyForm, Framed, framed
from api.conformance.captures.json_text import parsed
from api.conformance.captures.requests import stops_of_body
from api.conformance.captures.values import Finding, Severity

_MOST_BODY_BYTES = 64 * 1024 * 1024
# The ends of the paths of models' APIs.
_PATH = re.compile(
    r"/(?:messages|completions?|responses|generate(?:_stream)?|converse(?:-stream)?"
    r"|api/chat|[^/]*:(?:stream)?[gG]enerateContent)/?$"
)
_ASKING = ("messages", "prompt", "input", "inputs", "contents", "text", "input_ids")


@dataclass(frozen=True, slots=True)
class Record:
    """A request and its answer.

    Attributes:
        url: Where the request went.
        request: The body of the request.
        status: The status of the answer; None if there was none.
        headers: Its headers, names in lower case.
        body: Its body.
        problem: Why the body is missing or incomplete; empty if it is complete.
    """

    url: str
    request: str = ""
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    problem: str = ""

    @property
    def asks_a_model(self) -> bool:
        """Whether a model answers this request; archives of web pages contain many others."""
        if _PATH.search(self.url.partition("?")[0]):
            return True
        asked = _value(self.request)
        return isinstance(asked, dict) and any(name in asked for name in _ASKING)

    def framed(self, number: int) -> Framed:
        """Return the answer, split into frames; ``number`` is its number among the others."""
        parts = framed(self.body) if self.body.strip() else Framed(BodyForm.NONE)
        notes: tuple[Finding, ...] = ()
        if self.problem:
            sentence = f"The body of the answer was not captured: {self.problem}."
            notes = (Finding("body_missing", Severity.WARNING, sentence),)
        return replace(
            parts,
            status=self.status,
            headers=dict(self.headers),
            stops=stops_of_body(_value(self.request)),
            is_cut=parts.is_cut or bool(self.problem),
            label=f"{number}: {self.url}",
            notes=notes,
        )


def body_text(content: bytes, encoding: str) -> tuple[str, str]:
    """Return the text of a body, and why it is missing.

    Args:
        content: Its bytes.
        encoding: The value of the header ``content-encoding``.
    """
    packed = encoding.strip().lower()
    if packed in ("gzip", "x-gzip", "deflate"):
        try:
            # 47: zlib's window size that detects gzip and zlib.
            content = zlib.decompressobj(wbits=47).decompress(content, _MOST_BODY_BYTES)
        except zlib.error:
            return "", f"it is damaged ({packed})"
    elif packed not in ("", "identity"):
        return "", f"it is compressed ({packed[:40]})"
    return content.decode("utf-8", "replace"), ""


def _value(text: str) -> Any:
    try:
        return parsed(text)
    except ValueError:
        return None
