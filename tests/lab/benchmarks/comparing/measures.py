"""The measurements of each server: speed, memory, and the result of the probe.

A measure asks one server that runs; it never sees another. Runs on the comparison's loop.
"""

import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from api.conformance.captures.values import WireDialect
from api.conformance.probe.run import probe
from api.conformance.probe.values import CheckOutcome, ProbeFailed, ProbeOptions, Report
from tests.lab.benchmarks.comparing.asking import Asker
from tests.lab.benchmarks.comparing.servers import Running

LONG = "Count from 1 to 100, one number per line"
STREAM_TOKENS, ROW_TOKENS = 256, 128
_SHORT_PROMPTS = 8
_CONVERSATION_LINES = 60

Values = dict[str, float]


@dataclass(frozen=True, slots=True)
class Measure:
    """A row of the table."""

    key: str
    title: str
    decimals: int = 0
    is_more_better: bool = False


MEASURES = (
    Measure("one", "one stream, tokens/s", is_more_better=True),
    Measure("four", "4 streams, tokens/s in all", is_more_better=True),
    Measure("eight", "8 streams, tokens/s in all", is_more_better=True),
    Measure("sixteen", "16 streams, tokens/s in all", is_more_better=True),
    Measure("busy_one", "one stream, processor time a token, ms", 2),
    Measure("busy_sixteen", "16 streams, processor time a token, ms", 2),
    Measure("first", "first token of a short prompt, ms", 1),
    Measure("long", "first token of a long conversation, ms", 1),
    Measure("second", "first token of its second turn, ms", 1),
    Measure("start", "from start to first answer, s", 2),
    Measure("memory", "memory after start, MB"),
    Measure("loaded", "memory after 16 streams, MB"),
)


@dataclass(frozen=True, slots=True)
class Visit:
    """One server, while it is measured."""

    server: Running
    asker: Asker
    number: int


async def start(visit: Visit) -> Values:
    """Time from the start of the process to the end of a first answer."""
    await visit.asker.together(["Hello"], 2)
    took_s = time.perf_counter() - visit.server.began_s
    return {"start": took_s, "memory": visit.server.memory_mb}


async def streams(visit: Visit) -> Values:
    """Tokens a second of one, four, eight and sixteen answers at once.

    The clock runs from asking to the last text of all: what is buffered or queued counts.
    """
    await visit.asker.together([LONG], ROW_TOKENS)  # warms up
    values: Values = {}
    for key, rows, tokens in (
        ("one", 1, STREAM_TOKENS),
        ("four", 4, ROW_TOKENS),
        ("eight", 8, ROW_TOKENS),
        ("sixteen", 16, ROW_TOKENS),
    ):
        busy_s = visit.server.processor_s
        readings = await visit.asker.together([LONG] * rows, tokens)
        busy_s = visit.server.processor_s - busy_s
        total = sum(one.tokens for one in readings)
        values[key] = total / max(one.last_s for one in readings)
        # If other work takes the cores, this says more than the clock.
        values[f"busy_{key}"] = busy_s / total * 1000
    return {**values, "loaded": visit.server.memory_mb}


async def first_token(visit: Visit) -> Values:
    """Time to the first text of a short prompt, one at a time."""
    times = []
    for index in range(_SHORT_PROMPTS):
        [reading] = await visit.asker.together([f"Say: {visit.number} {index}"], 4)
        times.append(reading.first_s * 1000)
    return {"first": statistics.median(times)}


async def second_turn(visit: Visit) -> Values:
    """Time to the first text of a long prompt, and of the turn that follows it."""
    words = ["blue", "green", "red", "yellow", "black", "white", "orange", "purple"]
    lines = [
        f"{line}. {' '.join(words[line % 8 :])} {line * 7}" for line in range(_CONVERSATION_LINES)
    ]
    prompt = "\n".join([f"Conversation {visit.number}", *lines, "Repeat exactly: blue 7"])
    once, answer = await visit.asker.turn((), prompt, 16)
    again, _ = await visit.asker.turn([(prompt, answer)], "Repeat exactly: red 8", 16)
    return {"long": once.first_s * 1000, "second": again.first_s * 1000}


STEPS: tuple[tuple[str, Callable[[Visit], Awaitable[Values]]], ...] = (
    ("start", start),
    ("first token", first_token),
    ("second turn", second_turn),
    ("streams", streams),
)


@dataclass(frozen=True, slots=True)
class Correctness:
    """The result of the probe."""

    counts: dict[CheckOutcome, int]
    failed: tuple[str, ...]


def correctness(report: Report) -> Correctness:
    outcomes = [one.outcome for one in report.results]
    return Correctness(
        {outcome: outcomes.count(outcome) for outcome in CheckOutcome},
        tuple(one.title for one in report.failed),
    )


async def probed(
    server: Running, dialect: WireDialect, model_name: str, *, limit_s: float
) -> Correctness:
    """Probe a server."""
    options = ProbeOptions(
        server.url, dialect, model_name, timeout_s=min(30.0, limit_s), time_limit_s=limit_s
    )
    try:
        return correctness(await probe(options))
    except ProbeFailed as failed:
        raise server.failed(f"the probe could not begin: {failed}") from failed
