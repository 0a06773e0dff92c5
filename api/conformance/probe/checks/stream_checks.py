"""Checks streams as such: their headers, form, pace and end.

Runs on the loop of whoever probes.
"""

from collections.abc import Iterator
from dataclasses import replace

from api.conformance.captures.values import WireDialect
from api.conformance.probe.asking.exchange import Exchange
from api.conformance.probe.checks.checking import Check, CheckSetting, Seen, fault, skipped
from api.conformance.probe.judging import Judgement, no_answer
from api.conformance.probe.values import Fault

_SSE = "text/event-stream"
# The dialects with another media type for streams.
_STREAMS = {
    WireDialect.OLLAMA: "application/x-ndjson",
    WireDialect.CONVERSE: "application/vnd.amazon.eventstream",
}
_JSON = "application/json"
_LONG = "Count from 1 to 1000, one number per line"
_MAX_TOKENS = 400
# A faster answer may arrive in one piece anyway.
_LEAST_S = 0.6
_LATE = 0.9


async def _framing(setting: CheckSetting) -> Seen:
    """A requested stream is sent, with the right media type, and its connection is closed."""
    found: dict[str, Fault] = {}
    answers = [run for run in setting.client.exchanges if run.is_answer]
    for run in answers:
        for verdict in _misframed(setting.client.driver.dialect, run):
            found.setdefault(verdict.code, fault(setting.client, run, verdict))
    return Seen(f"{len(answers)} answers were read", tuple(found.values()))


def _misframed(dialect: WireDialect, run: Exchange) -> Iterator[Judgement]:
    said = run.headers.get("content-type", "").partition(";")[0].strip().lower()
    stream = _STREAMS.get(dialect, _SSE)
    wanted = stream if run.is_streamed else _JSON
    if run.is_streamed and not run.capture.is_streamed and said != stream:
        yield Judgement(
            "not_a_stream",
            "A stream was asked for, but the answer came as one JSON object.",
            f"a stream of type {stream}",
            f"{said or 'no content type'}: {run.text[:200]}",
        )
    elif said != wanted:
        yield Judgement(
            "content_type",
            "The answer has the wrong content type.",
            wanted,
            said or "none",
        )
    if run.is_left_open:
        yield Judgement(
            "connection_left_open",
            "The connection stays open after the last event of the stream.",
            "the end of the answer",
            "nothing more, and no end",
        )


async def _pace(setting: CheckSetting) -> Seen:
    """The first piece of a stream comes long before the last."""
    ask = replace(setting.main.ask, prompt=_LONG, max_tokens=_MAX_TOKENS, is_streamed=True)
    for _ in range(2):
        run = await setting.client.ask(ask)
        if no_answer(run) is not None or run.first_s is None or not run.capture.is_streamed:
            return skipped("There was no long stream.")
        if run.total_s < _LEAST_S:
            return skipped("The server is too quick for a stream that is held back to show.")
        if run.first_s < _LATE * run.total_s:
            return Seen(f"the first piece after {run.first_s:.2f} of {run.total_s:.2f} s")
    verdict = Judgement(
        "stream_buffered",
        "The whole stream comes at once, when the answer is complete.",
        "the first piece long before the last",
        f"the first piece after {run.first_s:.2f} of {run.total_s:.2f} s",
    )
    return Seen(faults=(fault(setting.client, run, verdict),))


PACE_CHECKS = (Check("stream.pace", _pace),)
FRAMING_CHECKS = (Check("stream.framing", _framing),)
