"""Why a run ended, in three steps: where the stop began, where it completed, what was kept.

Pure; any thread.
"""

import math

from engine import StopInfo, StopKind, channel_name, counted
from ui.inspector.tape.tape import Tape, percent
from ui.records.runs import Run
from ui.words.visible import quoted


def why(run: Run, tape: Tape | None) -> list[str]:
    """Return the steps that led to a run's end; an empty list while it is running."""
    finished = run.finished
    if finished is None:
        return []
    stop = finished.stop
    is_told = stop.kind not in (StopKind.CANCELLED, StopKind.ERROR)
    if is_told and stop.token_index is None and stop.text_offset:
        return ["That is the reason in the file that this answer came from. It has no tokens."]
    match stop.kind:
        case StopKind.STOP_STRING:
            return [_began(stop, tape), _completed(stop), _kept(stop)]
        case StopKind.STOP_TOKEN:
            return [f"Token {stop.value} is one of the stop token ids.", _drawn(stop), _kept(stop)]
        case StopKind.EOS:
            odds = _eos_odds(tape)
            kept = "Nothing was cut off."
            if stop.held:
                kept = f"{quoted(stop.held)} was still held back, and was then released."
            return [f"{quoted(stop.token_text or '')} is one of the model’s end tokens.",
                    f"{_drawn(stop)}{odds}", kept]  # fmt: skip
        case StopKind.MAX_TOKENS | StopKind.CONTEXT_FULL | StopKind.MEMORY_FULL:
            return [_limit(run, stop), _drawn(stop), _released(stop)]
        case StopKind.TOOL_CALL:
            return ["The text of a tool call was complete.", _drawn(stop), "The answer waits for "
                    "the tool’s result."]  # fmt: skip
        case _:
            return [_released(stop)]


def _began(stop: StopInfo, tape: Tape | None) -> str:
    row = None if tape is None else tape.first_matched_row()
    if tape is None or row is None:
        return f"{quoted(str(stop.value))} began at character {stop.text_offset + 1:,}."
    token = tape.tokens[row]
    return (
        f"{quoted(str(stop.value))} began in token {token.index + 1:,} {quoted(tape.texts[row])}, "
        f"at character {stop.text_offset + 1:,} of the {channel_name(stop.channel)}."
    )


def _completed(stop: StopInfo) -> str:
    number = 0 if stop.token_index is None else stop.token_index + 1
    return f"It was complete with token {number:,} {quoted(stop.token_text or '')}."


def _kept(stop: StopInfo) -> str:
    cut = f"; {counted(len(stop.dropped), 'character')} cut off" if stop.dropped else ""
    return f"The {channel_name(stop.channel)} was kept up to character {stop.text_offset:,}{cut}."


def _drawn(stop: StopInfo) -> str:
    if stop.token_index is None:
        return "No token was written."
    return f"It came as token {stop.token_index + 1:,} of the answer."


def _eos_odds(tape: Tape | None) -> str:
    stats = tape.tokens[-1].stats if tape is not None and tape.tokens else None
    return (
        "" if stats is None else f" Its probability there was {percent(math.exp(stats.logprob))}."
    )


def _limit(run: Run, stop: StopInfo) -> str:
    if stop.kind is StopKind.CONTEXT_FULL:
        return "Prompt and answer together fill the model’s context."
    if stop.kind is StopKind.MEMORY_FULL:
        return "Prompt and answer together take all the memory that answers may use."
    return f"The limit was {counted(run.max_tokens or 0, 'token')}."


def _released(stop: StopInfo) -> str:
    if stop.held:
        return f"{quoted(stop.held)} was still held back, and was then released."
    return "Nothing was held back, nothing was cut off."
