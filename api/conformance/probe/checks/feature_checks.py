"""Checks stops together with other features: several choices, tools, structure, logprobs.

Runs on the loop of whoever probes.
"""

import re
from dataclasses import replace
from functools import partial
from typing import Any

from api.conformance.captures.draft import items, mapping
from api.conformance.captures.json_text import parsed
from api.conformance.captures.values import CapturedEnding
from api.conformance.probe.asking.client import Client
from api.conformance.probe.asking.exchange import Exchange
from api.conformance.probe.baseline import Baseline
from api.conformance.probe.checks.checking import (
    Check,
    CheckSetting,
    Seen,
    confirmed,
    fault,
    skipped,
    without_premise,
    working_case,
)
from api.conformance.probe.dialects.asks import Ask, Body
from api.conformance.probe.dialects.features import (
    STRUCTURE_PROMPT,
    TOOL_PROMPT,
    with_choices,
    with_logprobs,
    with_structure,
    with_tool,
)
from api.conformance.probe.judging import Judgement, judge, no_answer
from api.conformance.probe.planning.plan import StopCase, simple_case
from api.conformance.probe.values import Fault

_CHOICES = 2
_TOKENS = 256


async def _choices(setting: CheckSetting) -> Seen:
    """Each of several choices ends at the stop."""
    client, case = setting.client, working_case(setting)
    if isinstance(case, Seen):
        return case
    faults: list[Fault] = []
    for is_streamed in (False, True):
        ask = replace(case.baseline.ask, stops=case.stops, is_streamed=is_streamed)
        body = with_choices(client.driver.dialect, client.driver.body(ask, client.model), _CHOICES)
        if body is None:
            return skipped("The dialect has one choice only.")
        run, found = await confirmed(client, body, partial(_unstopped, case.stops[0]))
        if run.is_refusal:
            return skipped(f"Several choices are refused with status {run.status}.")
        if run.is_answer and len(_texts_of_choices(run)) < _CHOICES:
            return skipped("The server gives one choice only.")
        faults.extend(found)
    return Seen(f"{_CHOICES} choices with {case.stops[0]!r}", tuple(faults))


def _unstopped(stop: str, run: Exchange) -> list[Judgement]:
    broken = no_answer(run)
    if broken is not None:
        return [broken]
    for index, text in sorted(_texts_of_choices(run).items()):
        if stop in text:
            sentence = f"The stop {stop!r} was ignored in choice {index}."
            return [Judgement("choice_not_stopped", sentence, "the text before the stop", text)]
    return []


def _texts_of_choices(run: Exchange) -> dict[int, str]:
    """Return the text of each choice by its index."""
    texts: dict[int, str] = {}
    raws = [event.raw for event in run.capture.events] if run.capture.is_streamed else [run.text]
    for choice in (choice for raw in raws for choice in _choices_in(raw)):
        part = mapping(choice.get("message")) or mapping(choice.get("delta"))
        text = choice.get("text", part.get("content"))
        index = choice.get("index", 0)
        if isinstance(index, int):
            texts[index] = texts.get(index, "") + (text if isinstance(text, str) else "")
    return texts


def _choices_in(raw: str) -> list[dict[str, Any]]:
    try:
        return [mapping(one) for one in items(mapping(parsed(raw)).get("choices"))]
    except ValueError:
        return []


async def _logprobs(setting: CheckSetting) -> Seen:
    """Logprobs are listed only for tokens of the text."""
    client, case = setting.client, working_case(setting)
    if isinstance(case, Seen):
        return case
    ask = replace(case.baseline.ask, stops=case.stops)
    body = with_logprobs(client.driver.dialect, client.driver.body(ask, client.model))
    if body is None:
        return skipped("The probe knows no logprobs of this dialect.")
    run = await client.send(body)
    if run.is_refusal:
        return skipped(f"Logprobs are refused with status {run.status}.")
    broken_run = no_answer(run)
    if broken_run is not None:
        return Seen(faults=(fault(client, run, broken_run),))
    tokens = _logged(run)
    if not tokens:
        return skipped("The answer has no logprobs with tokens in words.")
    text = run.capture.text
    before_last = "".join(tokens[:-1])
    # The last token may extend beyond the cut, but no token may begin there.
    if len(before_last) >= len(text) and tokens[-1] and len(tokens) > 1:
        verdict = Judgement(
            "logprobs_of_dropped_tokens",
            "Logprobs are listed for tokens behind the end of the text.",
            text,
            "".join(tokens),
        )
        return Seen(faults=(fault(client, run, verdict),))
    return Seen(f"{len(tokens)} tokens with {case.stops[0]!r}")


def _logged(run: Exchange) -> list[str]:
    choice = next(iter(_choices_in(run.text)), {})
    listed = mapping(choice.get("logprobs"))
    names = [mapping(one).get("token") for one in items(listed.get("content"))]
    names = names or items(listed.get("tokens"))
    # Some servers list ids, or nothing, in place of the token's text; these prove nothing here.
    return [str(one) for one in names] if all(isinstance(one, str) for one in names) else []


async def _tools(setting: CheckSetting) -> Seen:
    """A stop inside the arguments of a call does not leave half a call."""
    client = setting.client
    plain_body = _tool_body(setting, (), is_streamed=False)
    if plain_body is None:
        return skipped("The probe knows no tools of this dialect.")
    plain = await client.send(plain_body)
    if not plain.is_answer or not plain.capture.tool_calls:
        return skipped("The model calls no tool.")
    arguments = plain.capture.tool_calls[0].arguments
    words = [word for word in re.findall(r"[a-z]{4,}", arguments) if word != "text"]
    if not words:
        return skipped("The arguments of the call have no word for a stop.")
    stop = words[-1][1:3]
    faults: list[Fault] = []
    for is_streamed in (False, True):
        body = _tool_body(setting, (stop,), is_streamed=is_streamed)
        run, found = await confirmed(client, body, partial(_half_call, stop, arguments))
        if run.is_refusal:
            return skipped("Stops beside tools are refused.")
        faults.extend(found)
    return Seen(f"{stop!r} in {arguments}", tuple(faults))


def _tool_body(setting: CheckSetting, stops: tuple[str, ...], *, is_streamed: bool) -> Body | None:
    client = setting.client
    tokens = max(_TOKENS, setting.main.ask.max_tokens)
    is_thinking = setting.main.ask.is_thinking
    ask = Ask(TOOL_PROMPT, stops, tokens, is_streamed=is_streamed, is_thinking=is_thinking)
    return with_tool(client.driver.dialect, client.driver.body(ask, client.model))


def _half_call(stop: str, arguments: str, run: Exchange) -> list[Judgement]:
    broken = no_answer(run)
    if broken is not None:
        return [broken]
    capture = run.capture
    calls = capture.tool_calls
    if not calls and capture.ending is not CapturedEnding.TOOL:
        return []  # the stop ended the answer, and no call is reported
    got = calls[0].arguments if calls else ""
    if _is_whole(got) and stop in got:
        return []
    return [
        Judgement(
            "call_cut_by_stop",
            f"The stop {stop!r} cut the arguments of a call, which is reported as a call.",
            f"{arguments}, or no call at all",
            got or "a call without arguments",
        )
    ]


def _is_whole(arguments: str) -> bool:
    try:
        return isinstance(parsed(arguments), dict)
    except ValueError:
        return False


async def _structure(setting: CheckSetting) -> Seen:
    """A stop ends an answer of a given structure like any other."""
    if (broken := without_premise(setting)) is not None:
        return broken
    client = setting.client
    tokens = max(_TOKENS, setting.main.ask.max_tokens)
    ask = Ask(STRUCTURE_PROMPT, max_tokens=tokens, is_thinking=setting.main.ask.is_thinking)
    body = _structured(setting, ask)
    if body is None:
        return skipped("The probe knows no structured output of this dialect.")
    plain, again = await client.send(body), await client.send(body)
    text = plain.capture.text
    if not plain.is_answer or text != again.capture.text or not _is_whole(text):
        return skipped("The server gives no JSON that repeats itself.")
    given = Baseline(ask, text, text, thinking=plain.capture.thinking, ending=plain.capture.ending)
    case = simple_case(given)
    if case is None:
        return skipped("The JSON has no text for a stop.")
    faults: list[Fault] = []
    for is_streamed in (False, True):
        if is_streamed and setting.main.streamed_text is not None:
            continue
        stopping = replace(ask, stops=case.stops, is_streamed=is_streamed)
        stopped = _structured(setting, stopping)
        run, found = await confirmed(client, stopped, partial(_judge_structured, case, client))
        if run.is_refusal:
            return skipped("Stops beside structured output are refused.")
        faults.extend(found)
    return Seen(f"{case.stops[0]!r} in {text}", tuple(faults))


def _structured(setting: CheckSetting, ask: Ask) -> Body | None:
    client = setting.client
    return with_structure(client.driver.dialect, client.driver.body(ask, client.model))


def _judge_structured(case: StopCase, client: Client, run: Exchange) -> list[Judgement]:
    return [
        replace(one, code="structured_stop_ignored") if one.code == "stop_ignored" else one
        for one in judge(case, run, client.driver)
    ]


FEATURE_CHECKS = (
    Check("choices.stop", _choices),
    Check("logprobs.stop", _logprobs),
    Check("tools.stop", _tools),
    Check("structured.stop", _structure),
)
