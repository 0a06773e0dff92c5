"""Where the time of a run went, from its submission to its end. Pure; any thread."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine import Finished, TokenTrace, counted, figure, seconds
from ui.chat.session.holding import HeldText
from ui.words.visible import quoted


@dataclass(frozen=True, slots=True)
class RunPhase:
    """A part of a run's time.

    Attributes:
        name: What was done.
        took_s: How long it took, in seconds.
        begins_s: When it began, in seconds after submission.
        note: Details, such as the number of tokens and the speed.
    """

    name: str
    took_s: float
    begins_s: float
    note: str = ""


def phases(finished: Finished) -> list[RunPhase]:
    """Return the phases of a finished run, in order."""
    timing, usage = finished.timing, finished.usage
    read = usage.prompt_tokens - usage.cached_tokens
    cached = f", {usage.cached_tokens:,} more were cached" if usage.cached_tokens else ""
    speed = f", {figure(read / timing.prefill_s)} tokens/s" if timing.prefill_s > 0 else ""
    prompt = counted(read, "prompt token")
    behind = "behind other requests"
    waited = f"for the cache on disk, and {behind}" if usage.disk_tokens else behind
    begin = timing.queued_s
    found = [
        RunPhase("Waiting", timing.queued_s, 0.0, waited),
        RunPhase("Reading", timing.prefill_s, begin, f"{prompt}{speed}{cached}"),
    ]
    if timing.first_token_s is not None:
        begin = timing.first_token_s
        rate = ""
        if usage.output_tokens > 1 and timing.decode_s > 0:
            rate = f", {figure((usage.output_tokens - 1) / timing.decode_s)} tokens/s"
        tokens = f"{counted(usage.output_tokens, 'token')}{rate}"
        found.append(RunPhase("Writing", timing.decode_s, begin, tokens))
        begin += timing.decode_s
    else:
        begin += timing.prefill_s
    rest = max(0.0, timing.total_s - begin)
    found.append(RunPhase("Finishing", rest, begin, "deciding the reason, releasing held text"))
    return found


def held_times(tokens: Sequence[TokenTrace]) -> list[tuple[str, float]]:
    """Return the texts that the matcher held back, with the seconds for each, longest first."""
    found: list[tuple[str, float]] = []
    held = HeldText()
    for token in tokens:
        before = held.text
        released = held.take(token, token.time_s)
        waited_s = token.time_s - released[0][1] if released else 0.0
        if before and not token.held.startswith(before):
            found.append((before, waited_s))
    if held.text and held.since_s is not None:
        found.append((held.text, tokens[-1].time_s - held.since_s))
    found.sort(key=lambda pair: -pair[1])
    return found


def held_words(tokens: Sequence[TokenTrace]) -> str:
    """Return in words how long text was held back because it could have become a stop."""
    waits = held_times(tokens)
    if not waits:
        return "No text was held back."
    longest, took_s = waits[0]
    return f"The longest wait was {seconds(took_s)}, of {quoted(longest)}."
