"""Reads HTTP archives (HAR) of browsers and proxies, one exchange at a time.

http://www.softwareishard.com/blog/har-12-spec/. Pure; any thread.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from api.conformance.captures.draft import items, mapping
from api.conformance.captures.json_text import objects_of, parsed
from api.conformance.captures.opening.record import Record
from api.conformance.captures.values import Decode

_BEGINNING_CHARS = 64 * 1024
_LOG = re.compile(r'\s*\{\s*"log"\s*:\s*\{')
_ENTRIES = re.compile(r'"entries"\s*:\s*(?=\[)')


def entries_of(text: str) -> int | None:
    """Return the index of the list of exchanges; None if a text is not an archive."""
    if not _LOG.match(text):
        return None
    found = _ENTRIES.search(text)
    return None if found is None else found.end()


def records_of(text: str, begin: int, decode: Decode) -> Iterator[Record]:
    """Yield the exchanges with models' APIs, read one by one.

    Args:
        text: The archive.
        begin: The index of its list of exchanges.
        decode: Converts its pieces to text.

    Raises:
        ValueError: It is truncated, or an exchange is not an object.
    """
    for raw in objects_of(text, begin, is_alone=False):
        entry = mapping(parsed(decode(raw)))
        record = _record(mapping(entry.get("request")), mapping(entry.get("response")))
        if record.asks_a_model:
            yield record


def as_archive(records: Iterable[Record]) -> str:
    """Return exchanges as an archive that ``records_of`` reads back."""
    entries = [
        {
            "request": {"url": one.url, "postData": {"text": one.request}},
            "response": {
                "status": one.status or 0,
                "headers": [{"name": name, "value": text} for name, text in one.headers.items()],
                "content": {} if one.problem else {"text": one.body},
                **({"_error": one.problem} if one.problem else {}),
            },
        }
        for one in records
    ]
    return json.dumps({"log": {"version": "1.2", "entries": entries}}, ensure_ascii=False, indent=1)


def _record(request: dict[str, Any], response: dict[str, Any]) -> Record:
    content = mapping(response.get("content"))
    text, problem = content.get("text"), ""
    if not isinstance(text, str):
        text, problem = "", "the archive does not hold it"
        if content.get("size") == 0:
            problem = ""
    elif content.get("encoding") == "base64":
        try:
            text = base64.b64decode(text).decode("utf-8", "replace")
        except binascii.Error:
            text, problem = "", "its base64 is damaged"
    headers = {
        str(one.get("name")).lower(): str(one.get("value"))
        for one in map(mapping, items(response.get("headers")))
    }
    asked = mapping(request.get("postData")).get("text")
    status = response.get("status")
    error = response.get("_error")
    return Record(
        url=str(request.get("url") or ""),
        request=asked if isinstance(asked, str) else "",
        # Browsers write 0 if no answer arrived.
        status=status if isinstance(status, int) and status > 0 else None,
        headers=headers,
        body=text,
        problem=str(error) if isinstance(error, str) and not text else problem,
    )
