"""A program in the place of a coding agent: it records how it was started, and asks the server."""

import json
import sys
from pathlib import Path
from typing import Any

CODE = 7

# A shell starts it, because the path of Python may have spaces; Python takes the line for a text.
_PROGRAM = """#!/bin/sh
"exec" "{python}" "$0" "$@"
import json, os, signal, sys, urllib.request
url = os.environ["ANTHROPIC_BASE_URL"]
found = {{"arguments": sys.argv[1:], "variables": dict(os.environ)}}
content = [{{"type": "text", "text": "Count from 1 to 3"}}]
if "--picture" in sys.argv:
    source = {{"type": "base64", "media_type": "image/png", "data": "AA=="}}
    content.append({{"type": "image", "source": source}})
body = {{"model": os.environ["ANTHROPIC_MODEL"], "max_tokens": 5,
        "messages": [{{"role": "user", "content": content}}]}}
headers = {{"authorization": "Bearer " + os.environ["ANTHROPIC_AUTH_TOKEN"],
           "content-type": "application/json"}}
request = urllib.request.Request(url + "/v1/messages", json.dumps(body).encode(), headers)
with urllib.request.urlopen(request, timeout=120) as answer:
    found["answer"] = json.load(answer)
if "--wait" in sys.argv:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit({code}))
with open({record!r} + ".new", "w") as file:
    json.dump(found, file)
os.rename({record!r} + ".new", {record!r})
if "--wait" in sys.argv:
    while True:
        signal.pause()
sys.exit({code})
"""


class StandIn:
    """An executable called ``claude``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "programs"
        self.folder.mkdir()
        self._record = folder / "record.json"
        program = self.folder / "claude"
        program.write_text(
            _PROGRAM.format(python=sys.executable, record=str(self._record), code=CODE)
        )
        program.chmod(0o755)

    @property
    def has_asked(self) -> bool:
        """Whether it was started and has its answer."""
        return self._record.is_file()

    @property
    def found(self) -> dict[str, Any]:
        """Its arguments, its variables and the answer that it got."""
        found: dict[str, Any] = json.loads(self._record.read_text())
        return found
