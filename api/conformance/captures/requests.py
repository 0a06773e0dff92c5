"""Finds the stops of a request in a curl command that was pasted together with the answer.

Pure; any thread.
"""

import re
import shlex
from typing import Any

from api.conformance.captures.json_text import parsed

# Only this much is read, because words are read letter by letter; requests are much shorter.
_COMMAND_CHARS = 256 * 1024
_LONGEST_PROMPT = 100
_BREAK = re.compile(r"\r\n|\r")
# A shell's prompt may precede a command.
_PROMPT = re.compile(r"(?:.{0,80}[$#%>] )?[$ %>]*")
# The paths of the stops in the APIs' bodies.
_HOLDERS = (
    "options",
    "sampling_params",
    "parameters",
    "generationConfig",
    "generation_config",
    "inferenceConfig",
)
_NAMES = ("stop_sequences", "stop", "stopSequences")
_DATA_OPTIONS = ("-d", "--data", "--data-raw", "--data-binary", "--data-ascii", "--json")


def asked_stops(text: str) -> tuple[str, ...]:
    """Return the stops that a curl command in a text asks for; () if there is no command."""
    begin = find_command(text)
    if begin is None:
        return ()
    return _stops_of_command(_BREAK.sub("\n", text[begin : begin + _COMMAND_CHARS]))


def find_command(text: str, begin: int = 0) -> int | None:
    """Return the index of ``curl`` in the next line that begins with a curl command."""
    at = text.find("curl ", begin)
    while at >= 0:
        line = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
        if at - line < _LONGEST_PROMPT and _PROMPT.fullmatch(text, line, at):
            return at
        at = text.find("curl ", at + 1)
    return None


def stops_of_body(body: Any) -> tuple[str, ...]:
    """Return the stop strings of a request's body in any dialect."""
    if not isinstance(body, dict):
        return ()
    for holder in (body, *(body.get(name) for name in _HOLDERS)):
        if isinstance(holder, dict):
            for name in _NAMES:
                value = holder.get(name)
                if isinstance(value, str):
                    return (value,)
                if isinstance(value, list):
                    return tuple(item for item in value if isinstance(item, str))
    return ()


def _stops_of_command(text: str) -> tuple[str, ...]:
    reader = shlex.shlex(text, posix=True, punctuation_chars=False)
    reader.whitespace_split = True
    reader.commenters = ""
    words: list[str] = []
    try:
        # The answer follows the command, so words are read one by one, up to the body.
        for word in reader:
            if words and words[-1] in _DATA_OPTIONS:
                return stops_of_body(parsed(word))
            words.append(word)
    except ValueError:
        return ()
    return ()
