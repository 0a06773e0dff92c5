"""``fullstop replay``: replays a saved run, with its own stops or with others.

Needs no model: the recorded tokens go through the pipeline that a real run uses. Main thread.
"""

import dataclasses
from argparse import Namespace
from pathlib import Path

from api.terminal_text import harmless_json
from app import exits
from app.exits import CommandError
from app.printer import Printer
from app.settings.repetition import repetition_detection
from engine.errors import EngineError
from engine.files.causes import os_cause
from engine.recording.replay import Replayed, replay
from engine.recording.run_trace import RunTrace
from engine.recording.saved_run import MAX_FILE_BYTES, from_json, question_of
from engine.stopping.record import StopKind
from engine.stopping.rules import StopRules
from engine.values.events import Finished, Timing, Usage
from engine.values.verdict import headline, sentence
from engine.wording import counted


def run(options: Namespace) -> int:
    """Replay the file, print text and reason, and return the exit code."""
    if options.no_stop and options.stops:
        raise CommandError("use either --stop or --no-stop", exits.USAGE)
    recording, _ = read_run(options.file)
    played = replay(recording, _rules(options, recording))
    if options.is_json:
        print(harmless_json(_as_json(played)), flush=True)
        return exits.OK
    printer = Printer(is_exact=False)
    if played.thinking:
        printer.thinking(played.thinking)
    printer.text(played.text)
    printer.end_line()
    printer.remark(f"[{_reason(played, recording)}]")
    return exits.OK


def read_run(file: Path) -> tuple[RunTrace, str]:
    """Return a saved run and its question; raises ``CommandError``."""
    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise CommandError(f"{file} is larger than {MAX_FILE_BYTES >> 20} MiB", exits.USAGE)
        text = content.decode("utf-8")
        return from_json(text), question_of(text)
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {os_cause(error)}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{file} is not a saved run: it is not UTF-8") from error
    except EngineError as error:
        raise CommandError(f"{file} is not a saved run: {error}") from error


def _rules(options: Namespace, recording: RunTrace) -> StopRules:
    rules = recording.rules
    if options.stops or options.no_stop:
        rules = rules.with_strings(options.stops)
    if options.repetition_detection is not None:
        detection = repetition_detection(options.repetition_detection)
        rules = dataclasses.replace(rules, repetition=detection)
    return rules


def _reason(played: Replayed, recording: RunTrace) -> str:
    if played.stop is None:
        assert recording.stop is not None, "a saved run has ended"
        return (
            f"No stop fires within the {counted(len(recording.tokens), 'recorded token')} · "
            f"the run itself ended here ({recording.stop.kind})"
        )
    if played.stop.kind in (
        StopKind.CONTEXT_FULL,
        StopKind.MEMORY_FULL,
    ):  # the prompt's length is not recorded
        reason = headline(played.stop)
    else:
        usage = Usage(output_tokens=played.output_tokens)
        reason = sentence(Finished(played.stop, usage, Timing(), details=played.details))
    return f"{reason} · token {played.output_tokens:,} of {len(recording.tokens):,}"


def _as_json(played: Replayed) -> dict[str, object]:
    cycle = played.details.repetition
    return {
        "text": played.text,
        "thinking": played.thinking,
        "tool_calls": [dataclasses.asdict(call) for call in played.calls],
        "stop": None if played.stop is None else dataclasses.asdict(played.stop),
        "output_tokens": played.output_tokens,
        "repetition": None if cycle is None else dataclasses.asdict(cycle),
    }
