"""Checks of the errors for invalid requests."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from api.conformance.captures.values import CapturedEnding
from api.conformance.probe.checks.check import CheckContext, Evaluation, Recorder, check
from api.conformance.probe.checks.stream_checks import json_or_none
from api.conformance.probe.dialects import Ask, Body, Driver, is_error
from api.conformance.probe.judgement import no_answer
from api.conformance.probe.values import Exchange, Fault

_Spoil = Callable[[Driver, Body], Any]


async def _invalid(spoil: _Spoil, ctx: CheckContext, *, is_streamed: bool) -> Evaluation:
    client = ctx.client
    body = ctx.body(Ask("Hi", max_tokens=8, is_streamed=is_streamed))
    exchange = await client.send(spoil(ctx.driver, body))
    recorder = Recorder(ctx)
    recorder.note(exchange, _judge_refusal(ctx.driver, exchange))
    return recorder.evaluation(f"refused with status {exchange.status}")


def _judge_refusal(driver: Driver, exchange: Exchange) -> Iterator[Fault]:
    shown = f"{exchange.status} {exchange.text[:200]}"
    if exchange.problem:
        yield Fault(
            "no_answer", f"There was no answer: {exchange.problem}.", "400", exchange.problem
        )
        return
    if exchange.status >= 500:
        sentence = (
            f"A mistake of the client gets status {exchange.status}, as if the server had failed."
        )
        yield Fault("server_error", sentence, "400", shown)
        return
    if exchange.status < 400:
        broken = no_answer(exchange) if exchange.capture.ending is CapturedEnding.ERROR else None
        accepted = Fault("wrong_type_accepted", "An invalid request is accepted.", "400", shown)
        yield broken or accepted
        return
    if exchange.status not in (400, 413, 422):
        sentence = f"The error has status {exchange.status}."
        yield Fault("wrong_status", sentence, "400", str(exchange.status))
    kind, body = exchange.headers.get("content-type", ""), json_or_none(exchange.text)
    if "json" not in kind.lower() and body is not None:
        sentence = "The error has the wrong content type."
        yield Fault("content_type", sentence, "application/json", kind or "none")
    if not is_error(driver.dialect, body):
        sentence, due = "The error does not have this dialect's form.", "the dialect's error object"
        yield Fault("error_envelope", sentence, due, exchange.text[:200])


# Each invalid request, and whether it is for a stream, which is refused before there is one.
_INVALID: dict[str, tuple[_Spoil, bool]] = {
    "json": (lambda driver, body: json.dumps(body).encode()[:-1] + b", oops", False),
    "prompt": (lambda driver, body: driver.with_prompt(body, 5), False),
    "limit": (lambda driver, body: driver.with_limit(body, "ten"), True),
    "stop_object": (lambda driver, body: driver.with_stops(body, {"a": "b"}), False),
    "stop_number": (lambda driver, body: driver.with_stops(body, 5), False),
    "stop_item": (lambda driver, body: driver.with_stops(body, ["END", 1]), True),
}
for _error, (_spoil, _is_streamed) in _INVALID.items():
    check(f"errors.{_error}")(partial(_invalid, _spoil, is_streamed=_is_streamed))
