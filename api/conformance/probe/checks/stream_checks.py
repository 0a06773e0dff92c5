"""Checks of streams as such, and of the errors for invalid requests."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from api.conformance.captures.frames import parse_json
from api.conformance.captures.values import CapturedEnding, WireDialect
from api.conformance.probe.checks.check import (
    CheckContext,
    Evaluation,
    Recorder,
    check,
    fault_list,
    skipped,
)
from api.conformance.probe.dialects import OLLAMA, Ask, Body, Driver, is_error
from api.conformance.probe.judgement import no_answer
from api.conformance.probe.values import Exchange, Fault

_LINE_END = re.compile(r"\r\n|\r|\n")
_FIELD = re.compile(r"(?:data|event|id|retry)(?::|\Z)|:|\Z")


@check("stream.framing")
async def _framing(ctx: CheckContext) -> Evaluation:
    answers = [run for run in ctx.client.exchanges if run.is_answer]
    found = ((run, fault) for run in answers for fault in _judge_framing(ctx.driver.dialect, run))
    return Evaluation(f"{len(answers)} answers were read", fault_list(found, ctx))


def _judge_framing(dialect: WireDialect, run: Exchange) -> Iterator[Fault]:
    header = run.headers.get("content-type", "")
    kind = header.partition(";")[0].strip().lower()
    stream = "application/x-ndjson" if dialect is OLLAMA else "text/event-stream"
    due = stream if run.is_streamed else "application/json"
    if run.is_streamed and not run.capture.is_streamed and kind != stream:
        sentence = "A stream was asked for, but the answer came as one JSON object."
        got = f"{kind or 'no content type'}: {run.text[:200]}"
        yield Fault("not_a_stream", sentence, f"a stream of type {stream}", got)
    elif kind != due:
        sentence = "The answer has the wrong content type."
        yield Fault("content_type", sentence, due, kind or "none")
    if run.capture.is_streamed and run.is_streamed:
        faults = _judge_lines(run) if dialect is OLLAMA else _judge_events(run)
        yield from [fault for fault in (next(faults, None),) if fault is not None]
    if run.is_open:
        sentence = "The connection stays open after the last event of the stream."
        expected = "the end of the answer"
        yield Fault("connection_left_open", sentence, expected, "nothing more, and no end")


def _judge_events(run: Exchange) -> Iterator[Fault]:
    """Yield where a stream is no series of server-sent events, read as clients read it."""
    code, is_named = "event_spelled", False
    data: list[str] = []
    # WHATWG: clients drop one byte order mark at the beginning of a stream.
    *lines, tail = _LINE_END.split(run.text.removeprefix("\ufeff"))
    for line in (*lines, *([tail] if tail else [])):
        if _FIELD.match(line) is None:
            sentence = "A line of the stream is no field of a server-sent event; clients ignore it."
            yield Fault(code, sentence, "data: and the JSON", line[:200])
        if not line:
            joined = "\n".join(data)
            if is_named and not data:
                sentence = "An event has a name and no data, so that clients lose what it says."
                yield Fault(code, sentence, "event: and data: without a blank line")
            if data and joined.strip() != "[DONE]" and _json(joined) is None:
                sentence = (
                    "An event of the stream is not JSON: clients join all its data, up to the "
                    "next blank line."
                )
                yield Fault(code, sentence, "a blank line behind each event", joined[:200])
            data, is_named = [], False
        elif line.startswith("data:"):
            data.append(line.removeprefix("data:").removeprefix(" "))
        is_named |= line.startswith("event:")
    if data and "".join(data).strip() != "[DONE]" and not run.is_open:
        sentence = "No blank line ends the last event of the stream, so that clients drop it."
        if len(data) > 1:
            sentence = (
                "No blank line is between the events of the stream, so that clients drop them."
            )
        yield Fault(code, sentence, "a blank line", "\n".join(data)[:200])


def _judge_lines(run: Exchange) -> Iterator[Fault]:
    """Yield where a stream is not one object a line."""
    for line in filter(str.strip, _LINE_END.split(run.text)):
        if not isinstance(_json(line), dict):
            sentence = "A line of the stream is not one JSON object, as clients read it."
            yield Fault("event_spelled", sentence, "one object a line", line[:200])


@check("stream.pace")
async def _pace(ctx: CheckContext) -> Evaluation:
    prompt = "Count from 1 to 1000, one number per line"
    ask = replace(ctx.main.ask, prompt=prompt, max_tokens=400, is_streamed=True)
    for _ in range(2):
        run = await ctx.client.ask(ask)
        if no_answer(run) is not None or run.first_s is None or not run.capture.is_streamed:
            raise skipped("There was no long stream.")
        # A queue before the first token is no fault: only generated tokens can be held back.
        short = await ctx.client.send_short()
        wait_s = max(ctx.short_s, short.total_s)
        # A faster answer may arrive in one piece.
        if run.total_s - wait_s < 0.6:
            raise skipped("The server is too quick for a stream that is held back to show.")
        shown = f"the first piece after {run.first_s:.2f} of {run.total_s:.2f} s"
        if run.first_s - wait_s < 0.9 * (run.total_s - wait_s):
            return Evaluation(shown)
    sentence = "The whole stream comes at once, when the answer is complete."
    fault = Fault("stream_buffered", sentence, "the first piece long before the last", shown)
    return Evaluation(faults=(ctx.fault(run, fault),))


# Invalid requests are refused in the dialect's error format, without harm.

_Spoil = Callable[[Driver, Body], Any]


async def _invalid(spoil: _Spoil, ctx: CheckContext, *, is_streamed: bool) -> Evaluation:
    client = ctx.client
    body = ctx.body(Ask("Hi", max_tokens=8, is_streamed=is_streamed))
    run = await client.send(spoil(ctx.driver, body))
    recorder = Recorder(ctx)
    recorder.note(run, _judge_refusal(ctx.driver, run))
    return recorder.evaluation(f"refused with status {run.status}")


def _judge_refusal(driver: Driver, run: Exchange) -> Iterator[Fault]:
    shown = f"{run.status} {run.text[:200]}"
    if run.problem:
        yield Fault("no_answer", f"There was no answer: {run.problem}.", "400", run.problem)
        return
    if run.status >= 500:
        sentence = f"A mistake of the client gets status {run.status}, as if the server had failed."
        yield Fault("server_error", sentence, "400", shown)
        return
    if run.status < 400:
        broken = no_answer(run) if run.capture.ending is CapturedEnding.ERROR else None
        accepted = Fault("wrong_type_accepted", "An invalid request is accepted.", "400", shown)
        yield broken or accepted
        return
    if run.status not in (400, 413, 422):
        sentence = f"The error has status {run.status}."
        yield Fault("wrong_status", sentence, "400", str(run.status))
    kind, body = run.headers.get("content-type", ""), _json(run.text)
    if "json" not in kind.lower() and body is not None:
        sentence = "The error has the wrong content type."
        yield Fault("content_type", sentence, "application/json", kind or "none")
    if not is_error(driver.dialect, body):
        sentence, due = "The error does not have this dialect's form.", "the dialect's error object"
        yield Fault("error_envelope", sentence, due, run.text[:200])


def _json(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return None


# Each invalid request, and whether it is for a stream, which is refused before there is one.
_INVALID: dict[str, tuple[_Spoil, bool]] = {
    "json": (lambda driver, body: json.dumps(body).encode()[:-1] + b", oops", False),
    "prompt": (lambda driver, body: driver.with_prompt(body, 5), False),
    "limit": (lambda driver, body: driver.with_limit(body, "ten"), True),
    "stop_object": (lambda driver, body: driver.with_stops(body, {"a": "b"}), False),
    "stop_number": (lambda driver, body: driver.with_stops(body, 5), False),
    "stop_item": (lambda driver, body: driver.with_stops(body, ["END", 1]), True),
}
for _code, (_spoil, _is_streamed) in _INVALID.items():
    check(f"errors.{_code}")(partial(_invalid, _spoil, is_streamed=_is_streamed))
