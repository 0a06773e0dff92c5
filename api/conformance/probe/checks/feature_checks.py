"""Checks of features beside stops: several choices, logprobs, tools, structured output."""

import re
from dataclasses import replace
from functools import partial
from typing import Any

from api.conformance.captures.draft import items, mapping
from api.conformance.captures.frames import parsed
from api.conformance.captures.values import Capture, CapturedChoice, CapturedEnding, WireDialect
from api.conformance.probe.checks.check import (
    Check,
    CheckSetting,
    Findings,
    Seen,
    skipped,
    undecided,
    without_premise,
    working_case,
)
from api.conformance.probe.dialects import (
    STRUCTURE_PROMPT,
    TOOL_PROMPT,
    Ask,
    Body,
    Driver,
    with_choices,
    with_logprobs,
    with_structure,
    with_tool,
)
from api.conformance.probe.judgement import Judgement, judge, no_answer
from api.conformance.probe.plan import Baseline, StopCase
from api.conformance.probe.values import Exchange

# Checks several choices.

_CHOICES = 2
_TOKENS = 256


async def _count(setting: CheckSetting) -> Seen:
    """As many choices come as are asked for, each with its own index, text and reason."""
    findings = Findings(setting)
    for is_streamed in (False, True):
        asked = setting.body(replace(setting.main.ask, is_streamed=is_streamed))
        body = with_choices(setting.client.driver.dialect, asked, _CHOICES)
        if body is None:
            return skipped("The dialect has one choice only.")
        run = await findings.ask(body, _counted, may_refuse=True)
        if run.is_refusal:
            return skipped(f"Several choices are refused with status {run.status}.")
    return findings.seen(f"{_CHOICES} choices")


def _counted(run: Exchange) -> list[Judgement]:
    broken = no_answer(run)
    if broken is not None:
        return [broken]
    choices: list[Capture | CapturedChoice] = [run.capture, *run.capture.choices]
    wanted = f"{_CHOICES} choices"
    if len(choices) < _CHOICES:
        said = f"{_CHOICES} choices were asked for, but {len(choices)} came."
        return [Judgement("choices_missing", said, wanted, str(len(choices)))]
    silent = [at for at, choice in enumerate(choices) if not choice.text and not choice.tool_calls]
    if silent:
        said = f"Choice {silent[0]} has no text."
        return [Judgement("choice_empty", said, wanted, repr([choice.text for choice in choices]))]
    unended = [at for at, choice in enumerate(choices) if choice.reason is None]
    if unended:
        said = f"Choice {unended[0]} gives no reason for its end."
        return [Judgement("reason_missing", said, "a reason for each", "none")]
    return []


async def _choices(setting: CheckSetting) -> Seen:
    """Each of several choices ends at the stop."""
    case = working_case(setting)
    if isinstance(case, Seen):
        return case
    findings = Findings(setting)
    for is_streamed in (False, True):
        ask = replace(case.baseline.ask, stops=case.stops, is_streamed=is_streamed)
        body = with_choices(setting.client.driver.dialect, setting.body(ask), _CHOICES)
        if body is None:
            return skipped("The dialect has one choice only.")
        run = await findings.ask(body, partial(_unstopped, case.stops[0]), may_refuse=True)
        if run.is_refusal:
            return skipped(f"Several choices are refused with status {run.status}.")
        if run.is_answer and len(_texts_of_choices(run)) < _CHOICES:
            return skipped("The server gives one choice only.")
    return findings.seen(f"{_CHOICES} choices with {case.stops[0]!r}")


def _unstopped(stop: str, run: Exchange) -> list[Judgement]:
    broken = no_answer(run)
    if broken is not None:
        return [broken]
    for index, text in sorted(_texts_of_choices(run).items()):
        if stop in text:
            sentence = f"The stop {stop!r} was ignored in choice {index}."
            wanted = "the text before the stop"
            return [Judgement("choice_not_stopped", sentence, wanted, text, is_certain=True)]
    return []


def _texts_of_choices(run: Exchange) -> dict[int, str]:
    """Return the text of each choice by its index."""
    texts: dict[int, str] = {}
    for choice in (choice for raw in _raws(run) for choice in _choices_in(raw)):
        part = mapping(choice.get("message")) or mapping(choice.get("delta"))
        text = choice.get("text", part.get("content"))
        index = choice.get("index", 0)
        if isinstance(index, int):
            texts[index] = texts.get(index, "") + (text if isinstance(text, str) else "")
    return texts


def _choices_in(raw: str) -> list[dict[str, Any]]:
    try:
        return [mapping(item) for item in items(mapping(parsed(raw)).get("choices"))]
    except ValueError:
        return []


# Checks logprobs.


async def _logprobs(setting: CheckSetting) -> Seen:
    """Logprobs are listed only for tokens of the text."""
    case = working_case(setting)
    if isinstance(case, Seen):
        return case
    findings = Findings(setting)
    whole: Exchange | None = None
    for is_streamed in (False, True):
        ask = replace(case.baseline.ask, stops=case.stops, is_streamed=is_streamed)
        body = with_logprobs(setting.client.driver.dialect, setting.body(ask))
        if body is None:
            return skipped("The probe knows no logprobs of this dialect.")
        run = await findings.ask(body, partial(_mislogged, whole), may_refuse=True)
        if run.is_refusal:
            return skipped(f"Logprobs are refused with status {run.status}.")
        if is_streamed or findings.faults:
            continue
        whole = run
        if not _logged(run):
            return skipped("The answer has no logprobs with tokens in words.")
        if run.capture.text not in "".join(_logged(run)):
            return undecided("The tokens of the logprobs do not spell the text.")
    return findings.seen(f"{len(_logged(whole)) if whole else 0} tokens with {case.stops[0]!r}")


def _mislogged(whole: Exchange | None, run: Exchange) -> list[Judgement]:
    verdicts = _logged_behind(run)
    if not verdicts and run.capture.ending is None:
        said = "With logprobs the answer gives no reason for its end."
        return [Judgement("reason_missing", said, "a reason", "none")]
    if whole is None or verdicts or _logged(whole) != _logged(run):
        return verdicts
    wanted, got = _offsets(whole), _offsets(run)
    if wanted == got or not got:
        return []
    said = "The offsets of the tokens, text_offset, are not those of the whole answer."
    return [Judgement("offsets_differ", said, repr(wanted)[:200], repr(got)[:200])]


def _offsets(run: Exchange) -> list[Any]:
    lists = (items(logged.get("text_offset")) for logged in _lists_of_logprobs(run))
    return [offset for offsets in lists for offset in offsets]


def _logged_behind(run: Exchange) -> list[Judgement]:
    broken = no_answer(run)
    if broken is not None:
        return [broken]
    text, tokens = run.capture.text, _logged(run)
    # Reasoning may be listed before the text.
    begin = "".join(tokens).rfind(text) if text else -1
    if begin < 0:
        return []
    # A token may extend beyond the cut, but none may begin there.
    starts = [len("".join(tokens[:at])) for at in range(len(tokens))]
    behind = [token for at, token in zip(starts, tokens, strict=True) if at >= begin + len(text)]
    if not "".join(behind):
        return []
    sentence = "Logprobs are listed for tokens behind the end of the text."
    return [Judgement("logprobs_of_dropped_tokens", sentence, text, "".join(tokens))]


def _lists_of_logprobs(run: Exchange) -> list[dict[str, Any]]:
    firsts = (next(iter(_choices_in(raw)), {}) for raw in _raws(run))
    return [mapping(choice.get("logprobs")) for choice in firsts]


def _raws(run: Exchange) -> list[str]:
    is_streamed = run.capture.is_streamed
    return [event.raw for event in run.capture.events] if is_streamed else [run.text]


def _logged(run: Exchange) -> list[str]:
    names: list[Any] = []
    for listed in _lists_of_logprobs(run):
        own = [mapping(item).get("token") for item in items(listed.get("content"))]
        names += own or items(listed.get("tokens"))
    # Some servers list ids, or nothing, in place of the token's text; these prove nothing here.
    return [str(name) for name in names] if all(isinstance(name, str) for name in names) else []


# Checks calls of a tool.

# A call cut after so many tokens is not whole.
_FEW_TOKENS = 6


async def _called(setting: CheckSetting) -> tuple[Exchange, bool] | Seen:
    """Return an answer that calls the tool, and whether it had to; else why there is none."""
    if "call" not in setting.shared:
        setting.shared["call"] = await _first_call(setting)
    called: tuple[Exchange, bool] | Seen = setting.shared["call"]
    return called


async def _first_call(setting: CheckSetting) -> tuple[Exchange, bool] | Seen:
    for is_forced in (False, True):
        body = _tool_body(setting, is_forced=is_forced)
        if body is None:
            return skipped("The probe knows no tools of this dialect.")
        plain = await setting.client.send(body)
        if plain.is_answer and plain.capture.tool_calls:
            return plain, is_forced
    return skipped("The model calls no tool.")


async def _call(setting: CheckSetting) -> Seen:
    """A call is the same whole and streamed, and the reason says that it is one."""
    called = await _called(setting)
    if isinstance(called, Seen):
        return called
    plain, is_forced = called
    findings = Findings(setting)
    driver = setting.client.driver
    for is_streamed in (False, True):
        judged = partial(_whole_call, driver, plain.capture.tool_calls[0].name, is_forced)
        asked = _tool_body(setting, is_forced=is_forced, is_streamed=is_streamed)
        await findings.ask(asked, judged)
    return findings.seen(f"a call of {plain.capture.tool_calls[0].name}")


def _whole_call(driver: Driver, name: str, is_forced: bool, run: Exchange) -> list[Judgement]:
    broken = no_answer(run)
    if broken is not None:
        return [broken]
    capture, words = run.capture, driver.words[CapturedEnding.TOOL]
    if not capture.tool_calls:
        said = "The call that another answer to the same request has is missing."
        return [Judgement("call_missing", said, f"a call of {name}", repr(capture.text))]
    judgements = []
    call = capture.tool_calls[0]
    if any(finding.code == "arguments_form" for finding in capture.findings):
        said = "The arguments of a call do not have the form of this dialect."
        judgements.append(
            Judgement("arguments_form", said, "a JSON string, or an object", run.text)
        )
    elif not _is_whole(call.arguments) and capture.ending is not CapturedEnding.LIMIT:
        said = "The arguments of a call are not a JSON object."
        judgements.append(Judgement("arguments_broken", said, "a JSON object", call.arguments))
    if driver.dialect not in _NAMING_CALLS:
        return judgements
    if capture.ending is None:
        said = "The answer with a call gives no reason for its end."
        judgements.append(Judgement("reason_missing", said, words, "none"))
    elif capture.ending is not CapturedEnding.TOOL and not (
        # The vendor itself says "stop" where a request names the tool.
        (is_forced and capture.ending is CapturedEnding.NATURAL_OR_STOP)
        or capture.ending is CapturedEnding.LIMIT
    ):
        said = "The answer has a call, but the reason says otherwise."
        judgements.append(Judgement("wrong_reason", said, words, str(capture.reason)))
    return judgements


# The dialects whose reason says that a tool is called.
_NAMING_CALLS = (WireDialect.CHAT, WireDialect.MESSAGES)


async def _cut_by_limit(setting: CheckSetting) -> Seen:
    """A call that the limit cuts ends with the limit as its reason."""
    called = await _called(setting)
    if isinstance(called, Seen):
        return called
    plain, is_forced = called
    driver = setting.client.driver
    usage = plain.capture.usage
    tokens = usage.output_tokens if usage is not None else None
    limit = max(_FEW_TOKENS, driver.least_tokens)
    if tokens is not None:
        limit = max(limit, tokens - max(2, tokens // 4))
        if tokens <= limit:
            return undecided("The call is too short for a limit.")
    findings = Findings(setting)
    for is_streamed in (False, True):
        body = _tool_body(setting, is_forced=is_forced, is_streamed=is_streamed, limit=limit)
        judged = partial(_limited_call, driver, plain.capture.tool_calls[0].arguments)
        await findings.ask(body, judged, may_refuse=True)
    return findings.seen(f"{limit} tokens")


def _limited_call(driver: Driver, arguments: str, run: Exchange) -> list[Judgement]:
    broken, capture = no_answer(run), run.capture
    if broken is not None:
        return [broken]
    calls = capture.tool_calls
    if calls and calls[0].arguments == arguments:
        return []  # the limit came after the call
    if capture.ending in (CapturedEnding.LIMIT, None) or driver.dialect not in _NAMING_CALLS:
        return []
    words = driver.words[CapturedEnding.LIMIT]
    said = "The limit cut a call, but the reason does not say so."
    return [Judgement("call_cut_by_limit", said, words, str(capture.reason))]


async def _tools(setting: CheckSetting) -> Seen:
    """A stop inside the arguments of a call does not leave half a call."""
    called = await _called(setting)
    if isinstance(called, Seen):
        return called
    plain, is_forced = called
    arguments = plain.capture.tool_calls[0].arguments
    words = [word for word in re.findall(r"[a-z]{4,}", arguments) if word != "text"]
    if not words:
        return undecided("The arguments of the call have no word for a stop.")
    stop = words[-1][1:3]
    findings = Findings(setting)
    whole = ""
    for is_streamed in (False, True):
        body = _tool_body(setting, (stop,), is_forced=is_forced, is_streamed=is_streamed)
        judged = partial(_half_call, stop, arguments, whole)
        run = await findings.ask(body, judged, may_refuse=True)
        if run.is_refusal:
            return skipped("Stops beside tools are refused.")
        whole = run.capture.text
    return findings.seen(f"{stop!r} in {arguments}")


def _tool_body(
    setting: CheckSetting,
    stops: tuple[str, ...] = (),
    *,
    is_forced: bool,
    is_streamed: bool = False,
    limit: int | None = None,
) -> Body | None:
    tokens = limit or max(_TOKENS, setting.main.ask.max_tokens)
    is_thinking = setting.main.ask.is_thinking
    ask = Ask(TOOL_PROMPT, stops, tokens, is_streamed=is_streamed, is_thinking=is_thinking)
    return with_tool(setting.client.driver.dialect, setting.body(ask), is_forced=is_forced)


def _half_call(stop: str, arguments: str, whole: str, run: Exchange) -> list[Judgement]:
    broken = no_answer(run)
    if broken is not None:
        return [broken]
    capture = run.capture
    calls = capture.tool_calls
    if not calls and whole.strip() and not capture.text.strip():
        said = "The text before the stop, which the whole answer has, is missing from the stream."
        return [Judgement("partial_call_dropped", said, whole, capture.text)]
    if not calls and capture.ending is not CapturedEnding.TOOL:
        return []  # the stop ended the answer, and no call is reported
    if any(finding.code == "arguments_form" for finding in capture.findings):
        return []  # the check of a call says so
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


# Checks structured output.


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
    case = setting.simple(given)
    if case is None:
        return skipped("The JSON has no text for a stop.")
    findings = Findings(setting)
    for is_streamed in (False, True):
        if is_streamed and setting.main.streamed_text is not None:
            continue
        stopped = _structured(setting, replace(ask, stops=case.stops, is_streamed=is_streamed))
        judged = partial(_judge_structured, case, client.driver)
        run = await findings.ask(stopped, judged, may_refuse=True)
        if run.is_refusal:
            return skipped("Stops beside structured output are refused.")
    return findings.seen(f"{case.stops[0]!r} in {text}")


def _structured(setting: CheckSetting, ask: Ask) -> Body | None:
    return with_structure(setting.client.driver.dialect, setting.body(ask))


def _judge_structured(case: StopCase, driver: Driver, run: Exchange) -> list[Judgement]:
    return [
        replace(judgement, code="structured_stop_ignored")
        if judgement.code == "stop_ignored"
        else judgement
        for judgement in judge(case, run, driver)
    ]


FEATURE_CHECKS = (
    Check("choices.count", _count),
    Check("choices.stop", _choices),
    Check("logprobs.stop", _logprobs),
    Check("tools.call", _call),
    Check("tools.limit", _cut_by_limit),
    Check("tools.stop", _tools),
    Check("structured.stop", _structure),
)
