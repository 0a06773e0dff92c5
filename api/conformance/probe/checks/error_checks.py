"""Checks that invalid requests are refused in the dialect's error format, without harm.

Runs on the loop of whoever probes; these checks come last, because some servers crash on them.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from api.conformance.probe.asking.client import Client
from api.conformance.probe.asking.exchange import Exchange
from api.conformance.probe.checks.checking import (
    Check,
    CheckSetting,
    Seen,
    ServerGone,
    fault,
    make_sure_it_lives,
)
from api.conformance.probe.dialects.asks import Ask, Body
from api.conformance.probe.judging import Judgement

_PROPER = (400, 413, 422)
_ASK = Ask("Hi", max_tokens=8)

_Spoil = Callable[[Client, Body], Any]


def _refused(spoil: _Spoil) -> Callable[[CheckSetting], Awaitable[Seen]]:
    async def run(setting: CheckSetting) -> Seen:
        client = setting.client
        run = await client.send(spoil(client, client.driver.body(_ASK, client.model)))
        verdicts = _judge(client, run)
        faults = [fault(client, run, verdict) for verdict in verdicts]
        died = await make_sure_it_lives(setting, run)
        if died is not None:
            raise ServerGone(Seen("", (*faults, died)))
        return Seen(f"refused with status {run.status}", tuple(faults))

    return run


def _judge(client: Client, run: Exchange) -> list[Judgement]:
    if run.problem:
        return [Judgement("no_answer", f"There was no answer: {run.problem}.")]
    if run.status >= 500:
        return [
            Judgement(
                "server_error",
                f"A mistake of the client gets status {run.status}, as if the server had failed.",
                "400",
                f"{run.status} {run.text[:200]}",
            )
        ]
    if run.status < 400:
        return [
            Judgement(
                "wrong_type_accepted",
                "An invalid request is accepted.",
                "400",
                f"{run.status} {run.text[:200]}",
            )
        ]
    found = []
    if run.status not in _PROPER:
        found.append(
            Judgement("wrong_status", f"The error has status {run.status}.", "400", str(run.status))
        )
    if not client.driver.is_envelope(_json(run.text)):
        found.append(
            Judgement(
                "error_envelope",
                "The error does not have this dialect's form.",
                "the dialect's error object",
                run.text[:200],
            )
        )
    return found


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _bad_json(client: Client, body: Body) -> bytes:
    return json.dumps(body).encode()[:-1] + b", oops"


_SPOILED: tuple[tuple[str, _Spoil], ...] = (
    ("json", _bad_json),
    ("prompt", lambda c, b: c.driver.with_prompt(b, 5)),
    ("limit", lambda c, b: c.driver.with_limit(b, "ten")),
    ("stop_object", lambda c, b: c.driver.with_stop(b, {"a": "b"})),
    ("stop_number", lambda c, b: c.driver.with_stop(b, 5)),
    ("stop_item", lambda c, b: c.driver.with_stop(b, ["END", 1])),
)

ERROR_CHECKS = tuple(Check(f"errors.{code}", _refused(spoil)) for code, spoil in _SPOILED)
