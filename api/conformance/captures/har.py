"""Reads HTTP archives (HAR) of browsers and proxies, one entry at a time.

http://www.softwareishard.com/blog/har-12-spec/. Pure; any thread.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from api.conformance.captures.draft import items, mapping
from api.conformance.captures.frames import (
    BodyForm,
    Framed,
    framed,
    objects_of,
    parsed,
    stops_of_body,
)
from api.conformance.captures.values import Finding, Severity

_LOG = re.compile(r'\s*\{\s*"log"\s*:\s*\{')
_ENTRIES = re.compile(r'"entries"\s*:\s*(?=\[)')
# The ends of the paths of models' APIs.
_PATH = re.compile(r"/(?:messages|completions?|responses|generate|api/chat)/?$")
_REQUEST_FIELDS = ("messages", "prompt", "input", "text", "input_ids")


def entries_of(text: str) -> int | None:
    """Return the index of the array of entries; None if a text is not an archive."""
    if not _LOG.match(text):
        return None
    match = _ENTRIES.search(text)
    return None if match is None else match.end()


def answers_of_archive(text: str, begin: int) -> Iterator[Framed]:
    """Yield the answers of models' APIs; web pages have many other entries."""
    number = 0
    try:
        for raw in objects_of(text, begin, is_alone=False):
            entry = mapping(parsed(raw))
            request, response = mapping(entry.get("request")), mapping(entry.get("response"))
            url = str(request.get("url") or "")
            sent = _value(mapping(request.get("postData")).get("text"))
            if _is_model_api(url, sent):
                number += 1
                yield replace(
                    _answer(response), stops=stops_of_body(sent), label=f"{number}: {url}"
                )
    except ValueError:
        sentence = "The archive is cut off or damaged: the rest was not read."
        note = Finding("archive_damaged", Severity.WARNING, sentence)
        yield Framed(BodyForm.NONE, is_cut=True, label=f"{number + 1}", notes=(note,))


def _is_model_api(url: str, body: Any) -> bool:
    if _PATH.search(url.partition("?")[0]):
        return True
    return isinstance(body, dict) and any(name in body for name in _REQUEST_FIELDS)


def _value(text: Any) -> Any:
    try:
        return parsed(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _answer(response: dict[str, Any]) -> Framed:
    body, problem = _body(mapping(response.get("content")))
    error = response.get("_error")
    if isinstance(error, str) and not body:
        problem = error
    notes: tuple[Finding, ...] = ()
    if problem:
        sentence = f"The body of the answer was not captured: {problem}."
        notes = (Finding("body_missing", Severity.WARNING, sentence),)
    parts = framed(body) if body.strip() else Framed(BodyForm.NONE)
    status = response.get("status")
    return replace(
        parts,
        # Browsers write 0 if no answer arrived.
        status=status if isinstance(status, int) and status > 0 else None,
        headers={
            str(item.get("name")).lower(): str(item.get("value"))
            for item in map(mapping, items(response.get("headers")))
        },
        is_cut=parts.is_cut or bool(problem),
        notes=notes,
    )


def _body(content: dict[str, Any]) -> tuple[str, str]:
    """Return the text of a body, and why it is missing."""
    text = content.get("text")
    if not isinstance(text, str):
        return "", "" if content.get("size") == 0 else "the archive does not hold it"
    if content.get("encoding") != "base64":
        return text, ""
    try:
        return base64.b64decode(text).decode("utf-8", "replace"), ""
    except binascii.Error:
        return "", "its base64 is damaged"
