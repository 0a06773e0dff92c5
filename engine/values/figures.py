"""The figures of a finished generation that are worth a glance. Pure; any thread."""

from engine.values.events import Finished, tokens_per_s
from engine.wording import counted, figure, seconds


def figures(finished: Finished) -> tuple[str, ...]:
    """Return the numbers worth a glance, as far as they exist.

    For example ``("41 tok/s", "0.38 s to first token", "143 tokens")``.
    """
    usage, timing = finished.usage, finished.timing
    found: list[str] = []
    speed = tokens_per_s(usage, timing)
    if speed is not None:
        found.append(f"{figure(speed)} tok/s")
    if timing.first_token_s is not None:
        found.append(f"{seconds(timing.first_token_s)} to first token")
    found.append(counted(usage.output_tokens, "token"))
    return tuple(found)
