"""Adapts requests to what a server refuses, or advises the user which option to give.

Pure: values in, values out. Any thread.
"""

import re
from dataclasses import dataclass, replace

from api.conformance.captures.draft import mapping
from api.conformance.captures.harmless import on_one_line
from api.conformance.captures.json_text import parsed
from api.conformance.captures.values import WireDialect
from api.conformance.probe.asking.exchange import Exchange
from api.conformance.probe.dialects.driver import Driver

_REFUSED = (400, 404, 422)
_TOO_SMALL = ("at least", "minimum", "greater", ">", "too small", "too low", "below", "less than")
_MOST_SHORT_TOKENS = 1024
_NEW_LIMIT = "max_completion_tokens"
_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class Adaptation:
    """A changed way to send requests.

    Attributes:
        driver: The dialect, adapted to the server.
        conclusion: The conclusion, as a sentence.
    """

    driver: Driver
    conclusion: str


def adapted(driver: Driver, run: Exchange) -> Adaptation | None:
    """Return an adaptation after a refusal; None if the error suggests none."""
    if run.status not in _REFUSED or run.problem:
        return None
    said = said_by(run).lower()
    if driver.dialect is WireDialect.CHAT and not driver.limit_name and _NEW_LIMIT in said:
        return Adaptation(
            replace(driver, limit_name=_NEW_LIMIT),
            f"The limit is sent as {_NEW_LIMIT}: the server refuses max_tokens.",
        )
    for name in ("temperature", "stream_options"):
        if name in said and name not in driver.left_out:
            return Adaptation(
                replace(driver, left_out=(*driver.left_out, name)),
                f"{name} is left out: the server refuses the value that the probe sends.",
            )
    limit = driver.limit_name or driver.limit_path[-1]
    if _names(said, limit) and any(word in said for word in _TOO_SMALL):
        least = _least_in(said, driver.least_tokens)
        if least is not None:
            return Adaptation(
                replace(driver, least_tokens=least),
                f"Every request allows {least} tokens or more: the server refuses fewer.",
            )
    return None


def names_the_model(run: Exchange) -> bool:
    """Return whether a refusal is about the model's name."""
    return run.status in _REFUSED and re.search(r"\bmodels?\b", said_by(run).lower()) is not None


def may_be_the_model(run: Exchange) -> bool:
    """Return whether a different model name might be accepted.

    Some servers report an unknown model only as "not found".
    """
    if names_the_model(run):
        return True
    return run.status >= 400 and run.status not in (401, 403) and "error" in _object(run.text)


def advice(run: Exchange) -> str:
    """Return advice for a refusal, as the end of a sentence; empty for none."""
    if run.status in (401, 403):
        return f"; {run.status} asks for a key: give --api-key KEY, or --header NAME:VALUE"
    if names_the_model(run):
        return f"; {run.status} names the model: give --model NAME"
    if "header" in said_by(run).lower():
        return "; the answer speaks of a header: give --header NAME:VALUE"
    return ""


def why(run: Exchange) -> str:
    """Describe what the server sent instead of an answer."""
    if run.problem:
        return run.problem if run.status < 300 else f"status {run.status}, {run.problem}"
    return f"status {run.status}, {on_one_line(said_by(run) or 'an empty answer', _SHOWN_CHARS)}"


def said_by(run: Exchange) -> str:
    """Return the server's own error message."""
    return run.capture.error or run.text


def _names(said: str, limit: str) -> bool:
    return limit.lower() in said or "max_tokens" in said or "max tokens" in said


def _least_in(said: str, now: int) -> int | None:
    """Return the smallest number in an error that could be the minimum; else a usual minimum."""
    numbers = sorted(int(found) for found in re.findall(r"\b\d{1,4}\b", said))
    larger = (number for number in numbers if now < number <= _MOST_SHORT_TOKENS)
    usual = (number for number in (2, 16) if number > now)
    return next(larger, None) or next(usual, None)


def _object(text: str) -> dict[str, object]:
    try:
        return mapping(parsed(text))
    except ValueError:
        return {}
