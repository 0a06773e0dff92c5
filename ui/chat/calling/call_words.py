"""What a card says of a call. Pure; main thread."""

from engine import seconds
from ui.records.runs import Run
from ui.records.tooling.calls import CallProgress, CallResult, CallState
from ui.words.tones import Tone

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
    """Return how a call is doing, with its color."""
    if (result := run.result_of(call_id)) is not None:
        return _ended(result), _TONES[result.state]
    if (progress := run.progress.get(call_id)) is not None:
        return _under_way(progress), Tone.TOOL
    if run.is_calling:
        return "waits for its turn", Tone.TOOL
    if run.paused_at:
        return "not run yet", Tone.LIMIT
    if run.results:
        return "not run", Tone.QUIET
    return "waits for its result", Tone.TOOL


def share_done(progress: CallProgress | None) -> float | None:
    """Return how much of a call is done, from 0 to 1; None where nobody says."""
    if progress is None or progress.done is None or not progress.total:
        return None
    share = progress.done / progress.total
    return min(max(share, 0.0), 1.0) if share == share else None


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
