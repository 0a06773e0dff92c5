"""Finds the stops of a request in a curl line that was pasted together with the answer.

Pure; any thread.
"""

import shlex
from collections.abc import Sequence
from typing import Any

from api.conformance.captures.json_text import parsed

# Words are read letter by letter; a request is far shorter than an answer may be.
_COMMAND_CHARS = 1_000_000
_DATA_OPTIONS = ("-d", "--data", "--data-raw", "--data-binary", "--data-ascii", "--json")


def asked_stops(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the stops that a curl command among the lines asks for; () where there is none."""
    for start, line in enumerate(lines):
        if line.lstrip("$ %>").startswith("curl "):
            return _stops_of_command("\n".join(lines[start:]))
    return ()


def stops_of_body(body: Any) -> tuple[str, ...]:
    """Return the stop strings of a request's body, in whichever dialect it is."""
    if not isinstance(body, dict):
        return ()
    for holder in (body, body.get("options"), body.get("sampling_params")):
        if isinstance(holder, dict):
            for name in ("stop_sequences", "stop"):
                value = holder.get(name)
                if isinstance(value, str):
                    return (value,)
                if isinstance(value, list):
                    return tuple(item for item in value if isinstance(item, str))
    return ()


def _stops_of_command(text: str) -> tuple[str, ...]:
    reader = shlex.shlex(text[:_COMMAND_CHARS].lstrip("$ %>"), posix=True, punctuation_chars=False)
    reader.whitespace_split = True
    reader.commenters = ""
    words: list[str] = []
    try:
        # The answer follows the command: words are read one by one, up to the body.
        for word in reader:
            if words and words[-1] in _DATA_OPTIONS:
                return stops_of_body(parsed(word))
            words.append(word)
    except ValueError:
        return ()
    return ()
