"""``fullstop inspect``: reports the faults of answers that some server gave. Main thread."""

import sys
from argparse import Namespace

from api.conformance.captures.diagnosis import as_json, as_text, diagnose, has_faults
from api.conformance.captures.sources import MAX_BYTES, captures_of
from app import exits
from app.exits import CommandError
from engine.files.causes import os_cause


def run(options: Namespace) -> int:
    """Print the answers in the file and their findings; return the exit code."""
    try:
        captures = captures_of(_read(options.file))
        judged = [(capture, diagnose(capture, options.stops)) for capture in captures]
    except ValueError as error:
        raise CommandError(f"{options.file} cannot be read: {error}", exits.USAGE) from error
    first, findings = judged[0]
    if options.is_json:
        sys.stdout.writelines(as_json(judged))
    elif not first.is_answer:
        raise CommandError(f"{options.file}: {findings[0].sentence}", exits.UNREACHABLE)
    else:
        reports = [as_text(*answer) for answer in judged]
        if len(reports) > 1:
            reports = [f"# answer {at}\n\n{report}" for at, report in enumerate(reports, 1)]
        sys.stdout.write("\n".join(reports))
    sys.stdout.flush()
    if not first.is_answer:
        return exits.UNREACHABLE
    if any(has_faults(findings) for _, findings in judged):
        return exits.FAILURE
    is_truncated = any(capture.is_truncated for capture, _ in judged)
    return exits.INCOMPLETE if is_truncated else exits.OK


def _read(name: str) -> bytes:
    try:
        if name == "-":
            content = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with open(name, "rb") as file:
                content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {os_cause(error)}", exits.USAGE) from error
    if len(content) > MAX_BYTES:
        raise CommandError(f"{name} is larger than {MAX_BYTES >> 20} MiB", exits.USAGE)
    return content
