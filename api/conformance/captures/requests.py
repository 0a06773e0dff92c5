"""Finds the stops of a request in a curl line that was pasted together with the answer.

Pure; any thread.
"""

import re
import shlex
from typing import Any

from api.conformance.captures.json_text import parsed

# Words are read letter by letter; a request is far shorter than an answer may be.
_COMMAND_CHARS = 256 * 1024
_BREAK = re.compile(r"\r\n|\r")
_CURL = re.compile(r"(?:\A|(?<=[\r\n]))[$ %>]*+curl ")
_DATA_OPTIONS = ("-d", "--data", "--data-raw", "--data-binary", "--data-ascii", "--json")


def asked_stops(text: str) -> tuple[str, ...]:
    """Return the stops that a curl command in a text asks for; () where there is none."""
    found = _CURL.search(text)
    if found is None:
        return ()
    command = text[found.start() : found.start() + _COMMAND_CHARS]
    return _stops_of_command(_BREAK.sub("\n", command).lstrip("\n"))


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
    reader = shlex.shlex(text.lstrip("$ %>"), posix=True, punctuation_chars=False)
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
