"""``fullstop inspect``: reads an answer that some server gave and says what is wrong with it.

Needs no model and asks nobody. Main thread.
"""

import os
import sys
from dataclasses import dataclass

from api.conformance.captures.diagnosis import diagnose
from api.conformance.captures.harmless import harmless, harmless_json
from api.conformance.captures.parsing import parse
from api.conformance.captures.report import as_data, as_text, has_faults
from app.process import exits
from app.process.exits import CommandError
from engine.files.text_memory import text_memory

_MAX_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class InspectOptions:
    """What to inspect.

    Attributes:
        file: The file; ``-`` reads standard input.
        stops: The stops of the request; () takes those of a curl command in the file.
        is_json: Print one JSON object.
    """

    file: str
    stops: tuple[str, ...] = ()
    is_json: bool = False


def run(options: InspectOptions) -> int:
    """Print what the file holds and what is wrong with it; return the exit code.

    Raises:
        CommandError: The file cannot be read or holds no answer.
    """
    capture = parse(_read(options.file))
    findings = diagnose(capture, options.stops)
    if capture.dialect is None and not options.is_json:
        raise CommandError(f"{options.file}: {findings[0].sentence}", exits.USAGE)
    if options.is_json:
        shown = harmless_json(as_data(capture, findings)) + "\n"
    else:
        shown = harmless(as_text(capture, findings))
    try:
        print(shown, end="", flush=True)
    except BrokenPipeError:
        # Whoever read the output has left; keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.READER_GONE
    if capture.dialect is None:
        return exits.USAGE
    return exits.FAILURE if has_faults(findings) else exits.OK


def _read(name: str) -> str:
    try:
        if name == "-":
            content = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            with open(name, "rb") as file:
                content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {error.strerror}", exits.USAGE) from error
    if len(content) > _MAX_BYTES:
        raise CommandError(f"{name} is larger than {_MAX_BYTES >> 20} MiB", exits.USAGE)
    if why := text_memory(content, is_json=True).excess(_MAX_BYTES):
        raise CommandError(f"{name} takes too much memory: {why}", exits.USAGE)
    # What is no UTF-8 is part of what was captured: it is shown, not refused.
    return content.decode("utf-8", "replace")
