"""Checks of what a request may do to others, and of clients that hang up."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from api.conformance.probe.checks.checking import (
    Check,
    CheckSetting,
    Seen,
    faults_of,
    undecided,
    working_case,
)
from api.conformance.probe.dialects import Ask
from api.conformance.probe.judging import Judgement, no_answer
from api.conformance.probe.plan import StopCase
from api.conformance.probe.values import Exchange, Fault

# Checks that the stops of one request do not affect other requests.

_DIFFERS = "The same question got another answer, which no stop explains."


async def _sticky(setting: CheckSetting) -> Seen:
    """A request without stops has none, whatever the request before it had."""
    case = working_case(setting)
    if isinstance(case, Seen):
        return case
    client, given = setting.client, case.baseline
    faults: list[Fault] = []
    for is_streamed in (False, True):
        in_mode = case.in_mode(is_streamed=is_streamed)
        if in_mode is None:
            continue
        await client.ask(replace(given.ask, stops=case.stops, is_streamed=is_streamed))
        after = await client.ask(replace(given.ask, is_streamed=is_streamed))
        sentence = f"The stop {case.stops[0]!r} of one request ended the answer to the next."
        verdicts = _cut(in_mode, after, "stop_sticks", sentence)
        if verdicts is None:
            return undecided(_DIFFERS)
        faults.extend(faults_of(client, after, verdicts))
    return Seen(f"without {case.stops[0]!r} the answer is whole again", tuple(faults))


async def _concurrent(setting: CheckSetting) -> Seen:
    """Requests at the same time each have their own stops."""
    case = working_case(setting)
    if isinstance(case, Seen):
        return case
    client, given = setting.client, case.baseline
    with_stop = replace(given.ask, stops=case.stops)
    asks = [with_stop, given.ask, with_stop, given.ask]
    runs = await asyncio.gather(*map(client.ask, asks))
    sentence = f"The stop {case.stops[0]!r} of one request ended another at the same time."
    faults: list[Fault] = []
    # Answers computed at the same time may differ slightly, so only a cut right before the stop
    # counts.
    doubts = 0
    for run in runs[1::2]:
        verdicts = _cut(case, run, "stop_leaks", sentence)
        doubts += verdicts is None
        faults.extend(faults_of(client, run, verdicts or []))
    for run in runs[::2]:
        faults.extend(faults_of(client, run, _kept(case, run)))
    if doubts and not faults:
        return undecided(_DIFFERS)
    return Seen(f"{len(asks)} requests at the same time", _one_of_each(faults))


def _cut(case: StopCase, run: Exchange, code: str, sentence: str) -> list[Judgement] | None:
    """Judge an answer that no stop should have ended; None if it is a different answer."""
    broken = no_answer(run)
    if broken is not None:
        return [broken]
    got, full = run.capture.text, case.baseline.text
    if got == full:
        return []
    return [Judgement(code, sentence, full, got, full)] if got == case.text else None


def _kept(case: StopCase, run: Exchange) -> list[Judgement]:
    broken = no_answer(run)
    if broken is not None:
        return [broken]
    if case.stops[0] not in run.capture.text:
        return []
    sentence = f"The stop {case.stops[0]!r} was lost beside requests without stops."
    full = case.baseline.text
    return [Judgement("stop_leaks", sentence, case.text, run.capture.text, full)]


def _one_of_each(faults: Sequence[Fault]) -> tuple[Fault, ...]:
    return tuple({fault.code: fault for fault in reversed(faults)}.values())


ISOLATION_CHECKS = (
    Check("stops.sticky", _sticky),
    Check("stops.concurrent", _concurrent),
)


# Checks that a server answers the next client after some clients have hung up.
#
# The only evidence from outside is how soon the next client is answered.

# At least one of these gets a long answer from any model.
_LONG_CHAT = (
    "Count from 1 to 1000, one number per line",
    "Count from 1 to 40 in words, one number per line.",
    "Write a long story about a fox.",
)
_LONG_PLAIN = ("1\n2\n3\n4\n5\n6\n", "Once upon a time", "The alphabet is A B C D E F")
_MAX_TOKENS = 1500
_WAIT_S = 0.3
_USUAL = 4


def _hang_up(is_streamed: bool) -> Callable[[CheckSetting], Awaitable[Seen]]:
    async def run(setting: CheckSetting) -> Seen:
        client = setting.client
        prompts = _LONG_CHAT if client.driver.has_chat_template else _LONG_PLAIN
        asks = [Ask(text, max_tokens=_MAX_TOKENS, is_streamed=is_streamed) for text in prompts]
        wait_s = min(_WAIT_S, setting.main.total_s / 2)
        left = await asyncio.gather(*(client.hang_up_on(ask, wait_s) for ask in asks))
        allowed_s = setting.options.patience_s + _USUAL * setting.short_s
        after = await client.ask_shortly()
        if not after.is_answer or after.total_s > allowed_s:
            why = after.problem or (
                f"the next request took {after.total_s:.1f} s"
                if after.is_answer
                else f"the next request got status {after.status}"
            )
            body = client.driver.body(asks[0], client.model)
            fault = Fault(
                "not_freed",
                f"After {len(asks)} clients hung up {why}.",
                # Streamed or not, the fault is the same: the server does not free the client's
                # slot.
                expected=f"an answer within {allowed_s:.1f} s",
                got=why,
                curl=client.curl(body, is_cut=True),
            )
            return Seen(faults=(fault,))
        if not any(left):
            return undecided("The answers ended before a client could hang up.")
        return Seen(f"the next request took {after.total_s:.2f} s")

    return run


HANG_UP_CHECKS = (
    Check("hang_up.streamed", _hang_up(is_streamed=True)),
    Check("hang_up.whole", _hang_up(is_streamed=False)),
)
