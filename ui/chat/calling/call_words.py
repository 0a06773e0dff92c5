"""The words on the card of a tool call. Pure; main thread."""

import json

from engine import seconds
from ui.records.runs import Run
from ui.records.tools import CallProgress, CallResult, CallState
from ui.words.tones import Tone
from ui.words.visible import (
    lines_of,
    with_control_pictures,
    with_directions_shown,
    with_escapes_for_hidden,
)

UNFINISHED = "Unfinished call"
_MOST_SHOWN_CHARS = 20_000

_ENDINGS = {
    CallState.DONE: "done",
    CallState.FAILED: "failed",
    CallState.DENIED: "not allowed",
    CallState.CANCELLED: "stopped",
}
_TONES = {
    CallState.DONE: Tone.TOOL,
    CallState.FAILED: Tone.FAULT,
    CallState.DENIED: Tone.LIMIT,
    CallState.CANCELLED: Tone.QUIET,
}


def state_words(run: Run, call_id: str) -> tuple[str, Tone]:
    """Return the state of a call in words, with its tone."""
    if (result := run.result_of(call_id)) is not None:
        return _ended(result), _TONES[result.state]
    if (progress := run.progress.get(call_id)) is not None:
        return _under_way(progress), Tone.TOOL
    if run.is_calling:
        return "waits for its turn", Tone.TOOL
    if run.paused_at or run.is_cut_off:
        return "not run yet", Tone.LIMIT
    if run.results:
        return "not run", Tone.QUIET
    return "waits for its result", Tone.TOOL


def share_done(progress: CallProgress | None) -> float | None:
    """Return the share of a call that is done, from 0 to 1; None if it is not known."""
    if progress is None or progress.done is None or not progress.total:
        return None
    share = progress.done / progress.total
    return min(max(share, 0.0), 1.0) if share == share else None


def pretty(arguments: str) -> str:
    """Return arguments with a line for each; if they are not JSON, unchanged.

    Nothing in them is hidden from the person who is asked for permission.
    """
    try:
        shown = json.dumps(json.loads(arguments), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        shown = arguments
    return with_escapes_for_hidden(shown)


def has_none(arguments: str) -> bool:
    """Return whether a call has no arguments."""
    return "".join(arguments.split()) in ("", "{}")


def shown_result(text: str) -> str:
    """Return a result, shortened to what its card shows."""
    shown = with_directions_shown(with_control_pictures(text[:_MOST_SHOWN_CHARS]))
    return shown if fits_card(text) else f"{shown}\n…"


def fits_card(text: str) -> bool:
    """Return whether the card of a call has room for a whole result."""
    return len(text) <= _MOST_SHOWN_CHARS


def call_lines(run: Run) -> list[str]:
    """Return the lines of the unfolded cards of a run."""
    lines: list[str] = []
    for call in run.tool_calls:
        arguments, result = pretty(call.arguments), run.result_of(call.id)
        lines += [call.name, *([] if has_none(arguments) else lines_of(arguments))]
        lines += [] if result is None else lines_of(shown_result(result.text))
    unfinished = run.finished.unfinished_tool_call if run.finished is not None else ""
    return [*lines, UNFINISHED, *lines_of(unfinished)] if unfinished else lines


def _ended(result: CallResult) -> str:
    parts = [_ENDINGS[result.state]]
    if result.server and result.state in (CallState.DONE, CallState.FAILED):
        parts += [seconds(result.took_s), result.server]
    return " · ".join(parts)


def _under_way(progress: CallProgress) -> str:
    if progress.asks:
        return f"{progress.server} · asks for your permission"
    parts = [progress.server, f"running for {seconds(progress.running_s)}"]
    if progress.done is not None:
        total = "" if progress.total is None else f" of {progress.total:g}"
        parts.append(f"{progress.done:g}{total}")
    if progress.message:
        parts.append(progress.message)
    return " · ".join(parts)
