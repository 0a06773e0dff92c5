"""Checks of features beside stops: several choices, logprobs, tools, structured output."""

import re
from dataclasses import replace
from functools import partial
from typing import Any

from api.conformance.captures.frames import items, mapping, parse_json
from api.conformance.captures.values import (
    Capture,
    CapturedCall,
    CapturedChoice,
    CapturedEnding,
    WireDialect,
)
from api.conformance.probe.checks.check import (
    Check,
    CheckSetting,
    Findings,
    Seen,
    skipped,
    undecided,
    without_premise,
)
from api.conformance.probe.checks.limit_checks import limited
from api.conformance.probe.checks.request_checks import Situation, judged_in, modes
from api.conformance.probe.dialects import (
    STRUCTURE_PROMPT,
    TOOL_NAME,
    TOOL_PROMPT,
    Ask,
    Body,
    Choice,
    Driver,
    after_call,
    with_choices,
    with_logprobs,
    with_structure,
    with_tool,
)
from api.conformance.probe.judgement import Judgement, no_answer
from api.conformance.probe.plan import Baseline
from api.conformance.probe.values import Exchange

# Checks several choices.

_CHOICES = 2
MANY_TOKENS = 256
_TEMPERATURE = 0.7


async def _several(setting: CheckSetting) -> Exchange | Seen:
    """Return an answer of several choices; else why there is none.

    Some servers give several only where they are sampled.
    """
    if "choices" not in setting.shared:
        run: Exchange | None = None
        for temperature in (0.0, _TEMPERATURE):
            setting.shared["choices_temperature"] = temperature
            body = of_several(setting, setting.main.ask)
            if body is None:
                setting.shared["choices"] = skipped("The dialect has one choice only.")
                break
            run = await setting.client.send(body)
            said = f"Several choices are refused with status {run.status}."
            setting.shared["choices"] = skipped(said) if run.is_refusal else run
            if not run.is_refusal or "temperature" in setting.client.driver.left_out:
                break
    several: Exchange | Seen = setting.shared["choices"]
    return several


def of_several(setting: CheckSetting, ask: Ask) -> Body | None:
    """Return a request for several choices; None if the dialect has one only."""
    temperature: float = setting.shared.get("choices_temperature", 0.0)
    body = setting.body(replace(ask, temperature=temperature))
    return with_choices(setting.client.driver.dialect, body, _CHOICES)


async def _count(setting: CheckSetting) -> Seen:
    """As many choices come as are asked for, each with its own index, text and reason."""
    whole = await _several(setting)
    if isinstance(whole, Seen):
        return whole
    findings = Findings(setting)
    judged = partial(_counted, setting.main)
    await findings.ask(whole.body, judged, first=whole)
    streamed = of_several(setting, replace(setting.main.ask, is_streamed=True))
    await findings.ask(streamed, judged)
    if setting.client.driver.can_think and setting.main.is_repeatable and not findings.faults:
        thinking = replace(setting.main.ask, is_thinking=True, is_streamed=True)
        findings.situation = "With thinking"
        several = of_several(setting, replace(thinking, max_tokens=2 * MANY_TOKENS))
        await findings.ask(several, _thought_each, may_refuse=True)
    return findings.seen(f"{_CHOICES} choices")


def _thought_each(run: Exchange) -> list[Judgement]:
    broken = no_answer(run)
    if broken is not None:
        return [broken]
    choices: list[Capture | CapturedChoice] = [run.capture, *run.capture.choices]
    for name in ("thinking", "text"):
        parts = [getattr(choice, name).strip() for choice in choices]
        if any(parts) and not all(parts):
            said = f"Choice {parts.index('')} has no {name}, which another choice has."
            return [Judgement("choice_empty", said, f"{name} in each", repr(parts))]
    return []


def _counted(main: Baseline, run: Exchange) -> list[Judgement]:
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
    usage = run.capture.usage
    tokens = usage.output_tokens if usage is not None else None
    is_known = tokens is not None and main.tokens and {one.text for one in choices} == {main.text}
    if is_known and tokens != _CHOICES * (main.tokens or 0):
        said = f"The counts of {_CHOICES} choices are not those of {_CHOICES} such answers."
        wanted = f"{_CHOICES} times {main.tokens} tokens"
        return [Judgement("usage_choices", said, wanted, f"{tokens} tokens")]
    return []


async def _choices(setting: CheckSetting) -> Seen:
    """Each of several choices ends at the stop, and at the limit."""
    whole = await _several(setting)
    if isinstance(whole, Seen):
        return whole
    if whole.is_answer and len(_each(whole)) < _CHOICES:
        return skipped("The server gives one choice only.")
    situation = Situation(
        "With several choices", of_several, views=_each, ignored="choice_not_stopped"
    )
    return await judged_in(situation, setting)


def _each(run: Exchange) -> list[Exchange]:
    """Return an answer as one answer for each of its choices."""
    capture = run.capture
    choices: list[Capture | CapturedChoice] = [capture, *capture.choices]
    # The counts are those of all choices.
    return [
        replace(run, capture=replace(capture.of_choice(choice), usage=None, choices=()))
        for choice in choices
    ]


def _choices_in(raw: str) -> list[dict[str, Any]]:
    try:
        return [mapping(item) for item in items(mapping(parse_json(raw)).get("choices"))]
    except ValueError:
        return []


# Checks logprobs.

_TOPS = 2


async def _logprobs(setting: CheckSetting) -> Seen:
    """Logprobs are listed only for tokens of the text, and for all of them."""
    if (broken := without_premise(setting)) is not None:
        return broken
    client = setting.client
    for tops in (_TOPS, 1):
        body = with_logprobs(client.driver.dialect, setting.body(setting.main.ask), tops)
        if body is None:
            return skipped("The probe knows no logprobs of this dialect.")
        run = await client.send(body)
        if not run.is_refusal:
            break
    if run.is_refusal:
        return skipped(f"Logprobs are refused with status {run.status}.")
    if run.is_answer and not logged_tokens(run):
        return skipped("The answer has no logprobs with tokens in words.")
    text, logged = run.capture.text, "".join(logged_tokens(run))
    if run.is_answer and text not in logged and logged not in text:
        return undecided("The tokens of the logprobs do not spell the text.")
    wholes: dict[str, Exchange] = {}
    situation = Situation(
        "With logprobs",
        lambda setting, ask: with_logprobs(client.driver.dialect, setting.body(ask), tops),
        extra=partial(_mislogged, wholes, tops),
    )
    return await judged_in(situation, setting)


def _mislogged(wholes: dict[str, Exchange], tops: int, run: Exchange) -> list[Judgement]:
    verdicts = _logged_behind(run) or _logged_as_chat(run) or _logged_too_few(tops, run)
    if not verdicts and run.capture.ending is None:
        said = "With logprobs the answer gives no reason for its end."
        return [Judgement("reason_missing", said, "a reason", "none")]
    if not run.is_streamed and not verdicts:
        wholes[run.capture.text] = run
    whole = wholes.get(run.capture.text)
    if whole is None or verdicts:
        return verdicts
    if logged_tokens(whole) != logged_tokens(run):
        spelled, streamed = "".join(logged_tokens(whole)), "".join(logged_tokens(run))
        # One of them may list the tokens of the reasoning, too.
        is_part = spelled.endswith(streamed) or streamed.endswith(spelled)
        if whole.capture.text != run.capture.text or (is_part and streamed):
            return []
        said = "The tokens of the stream's logprobs are not those of the whole answer."
        return [Judgement("logprobs_differ", said, spelled, streamed or "none")]
    if _is_own_alternative(whole) and not _is_own_alternative(run):
        said = "The alternatives in the stream's logprobs are those of other tokens."
        return [Judgement("tops_differ", said, "the token itself among them", "other tokens")]
    wanted, got = _offsets(whole), _offsets(run)
    if wanted == got or not got or not wanted:
        return []
    said = "The offsets of the tokens, text_offset, are not those of the whole answer."
    return [Judgement("offsets_differ", said, repr(wanted)[:200], repr(got)[:200])]


def _logged_as_chat(run: Exchange) -> list[Judgement]:
    logged = [listed for listed in _lists_of_logprobs(run) if listed.get("content")]
    if run.capture.dialect is not WireDialect.COMPLETIONS or not logged:
        return []
    said = "The logprobs have the form of Chat Completions: they have content, but no tokens."
    return [Judgement("logprobs_form", said, "tokens, token_logprobs", ", ".join(logged[0]))]


def _logged_too_few(tops: int, run: Exchange) -> list[Judgement]:
    text, logged = run.capture.text, "".join(logged_tokens(run))
    # A stop may leave half a character of a token; the template's white space has no token.
    if text.rstrip("\ufffd").strip() not in logged:
        said = "The logprobs lack tokens of the text: some are missing."
        return [Judgement("logprobs_missing", said, text, logged)]
    counts = [count for listed in _lists_of_logprobs(run) for count in _tops_in(listed)]
    if counts and min(counts) < tops:
        said = f"{tops} tokens were asked for in each place of the logprobs, but fewer are listed."
        return [Judgement("tops_missing", said, str(tops), str(min(counts)))]
    return []


def _tops_in(listed: dict[str, Any]) -> list[int]:
    entries = [items(mapping(item).get("top_logprobs")) for item in items(listed.get("content"))]
    return [len(entry) for entry in (*entries, *items(listed.get("top_logprobs"))) if entry != {}]


def _is_own_alternative(run: Exchange) -> bool:
    """Return whether each token is among its alternatives, as the likeliest one always is."""
    entries = [item for listed in _lists_of_logprobs(run) for item in items(listed.get("content"))]
    return all(
        mapping(entry).get("token")
        in [mapping(top).get("token") for top in items(mapping(entry).get("top_logprobs"))]
        for entry in entries
    )


def _offsets(run: Exchange) -> list[Any]:
    lists = (items(logged.get("text_offset")) for logged in _lists_of_logprobs(run))
    return [offset for offsets in lists for offset in offsets]


def _logged_behind(run: Exchange) -> list[Judgement]:
    broken = no_answer(run)
    if broken is not None:
        return [broken]
    text, tokens = run.capture.text, logged_tokens(run)
    # Reasoning may be listed before the text.
    begin = "".join(tokens).rfind(text) if text else -1
    if begin < 0:
        return []
    # A token may extend beyond the cut, but none may begin there.
    starts = [len("".join(tokens[:at])) for at in range(len(tokens))]
    behind = [token for at, token in zip(starts, tokens, strict=True) if at >= begin + len(text)]
    if not "".join(behind):
        return []
    sentence = "The logprobs list tokens behind the end of the text."
    return [Judgement("logprobs_of_dropped_tokens", sentence, text, "".join(tokens))]


def _lists_of_logprobs(run: Exchange) -> list[dict[str, Any]]:
    # Several choices may take turns in a stream.
    choices = (choice for raw in _raws(run) for choice in _choices_in(raw))
    return [mapping(choice.get("logprobs")) for choice in choices if not choice.get("index")]


def _raws(run: Exchange) -> list[str]:
    is_streamed = run.capture.is_streamed
    return [event.raw for event in run.capture.events] if is_streamed else [run.text]


def has_logprobs(run: Exchange) -> bool:
    """Return whether logprobs are listed, be it with tokens in words or with their ids."""
    return any(listed.get("content") or listed.get("tokens") for listed in _lists_of_logprobs(run))


def logged_tokens(run: Exchange) -> list[str]:
    """Return the tokens that are listed with logprobs; [] if they are not listed in words."""
    names: list[Any] = []
    for listed in _lists_of_logprobs(run):
        own = [mapping(item).get("token") for item in items(listed.get("content"))]
        names += own or items(listed.get("tokens"))
    # Some servers list ids, or nothing, in place of the token's text; these prove nothing here.
    return [str(name) for name in names] if all(isinstance(name, str) for name in names) else []


# Checks calls of a tool.

# A call cut after so many tokens is not whole.
_FEW_TOKENS = 6


async def first_call(setting: CheckSetting) -> tuple[Exchange, bool] | Seen:
    """Return an answer that calls the tool, and whether it had to; else why there is none."""
    if "call" not in setting.shared:
        setting.shared["call"] = await _first_call(setting)
    called: tuple[Exchange, bool] | Seen = setting.shared["call"]
    return called


async def _first_call(setting: CheckSetting) -> tuple[Exchange, bool] | Seen:
    for is_forced in (False, True):
        body = tool_body(setting, tool_ask(setting), is_forced=is_forced)
        if body is None:
            return skipped("The probe knows no tools of this dialect.")
        plain = await setting.client.send(body)
        if plain.is_answer and plain.capture.tool_calls:
            return plain, is_forced
    return skipped("The model calls no tool.")


async def _call(setting: CheckSetting) -> Seen:
    """A call is the same whole and streamed, and the reason says that it is one."""
    called = await first_call(setting)
    if isinstance(called, Seen):
        return called
    plain, is_forced = called
    findings = Findings(setting)
    driver = setting.client.driver
    for is_streamed in (False, True):
        judged = partial(judged_call, driver, plain, is_forced)
        ask = tool_ask(setting, is_streamed=is_streamed)
        asked = tool_body(setting, ask, is_forced=is_forced)
        await findings.ask(asked, judged)
    return findings.seen(f"a call of {plain.capture.tool_calls[0].name}")


def judged_call(driver: Driver, plain: Exchange, is_forced: bool, run: Exchange) -> list[Judgement]:
    """Judge an answer that has to call the tool as another one does."""
    broken = no_answer(run)
    if broken is not None:
        return [broken]
    capture, words = run.capture, driver.words[CapturedEnding.TOOL]
    wanted = plain.capture.tool_calls[0]
    if not capture.tool_calls:
        said = "The call that another answer to the same request has is missing."
        return [Judgement("call_missing", said, f"a call of {wanted.name}", repr(capture.text))]
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
    elif call.name not in ("", TOOL_NAME) and not any(
        finding.code == "call_name_repeated" for finding in capture.findings
    ):
        said = f"The call is one of {call.name!r}, a tool that was not offered."
        judgements.append(Judgement("call_name", said, TOOL_NAME, call.name))
    elif run.is_streamed and _is_whole(wanted.arguments):
        judgements += _other_call(plain, run)
    judgements += _call_in_text(run)
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


# Marks that models write around calls and turns.
_MARK = re.compile(r"</?tool_calls?>|\[/?TOOL_CALLS\]|<\|[a-z_]+\|>|</?s>|<(?:start|end)_of_turn>")


def _call_in_text(run: Exchange) -> list[Judgement]:
    """Judge the text beside a call: it is neither the call again nor a mark of the model."""
    text, arguments = run.capture.text, run.capture.tool_calls[0].arguments
    if (mark := _MARK.search(text)) is not None:
        said = f"The text beside a call has {mark[0]}, a mark of the model."
        return [Judgement("marker_leaked", said, "text without marks", text)]
    if len(arguments) > 2 and arguments in text:
        said = "The arguments of the call are in the text, too."
        return [Judgement("call_as_text", said, "the call alone", text)]
    return []


def _other_call(plain: Exchange, run: Exchange) -> list[Judgement]:
    """Compare the calls and the text of a stream with those of the whole answer."""
    wholes, streamed = plain.capture.tool_calls, run.capture.tool_calls
    wanted, got = ([read_call(call) for call in calls] for calls in (wholes, streamed))
    if wanted != got and all(_is_whole(call.arguments) for call in (*wholes, *streamed)):
        said = "The call of the stream is not the one of the whole answer."
        return [Judgement("call_differs", said, repr(wanted), repr(got))]
    text, other = plain.capture.text.strip(), run.capture.text.strip()
    if text != other:
        said = "The text beside the call is not the one of the whole answer."
        return [Judgement("text_differs", said, text, other)]
    return []


def read_call(call: CapturedCall) -> tuple[str, Any]:
    """Return the name of a call and its arguments, read if they are an object."""
    arguments = call.arguments or "{}"
    return call.name, parse_json(arguments) if _is_whole(arguments) else arguments


# The dialects whose reason says that a tool is called.
_NAMING_CALLS = (WireDialect.CHAT, WireDialect.MESSAGES)


def _after_call(called: Exchange | None, setting: CheckSetting, ask: Ask) -> Body | None:
    """Return a request with the result of the server's own call, or of one that is made up."""
    after = partial(after_call, setting.client.driver.dialect, setting.body(ask), ask.prompt)
    try:
        return after(None if called is None else mapping(parse_json(called.text)))
    except (LookupError, TypeError, ValueError):
        return after()  # other checks say that a call has another form


async def _result(setting: CheckSetting) -> Seen:
    """Who calls a tool takes the result of its own call, and a stop ends the answer to it."""
    if (broken := without_premise(setting)) is not None:
        return broken
    first = await first_call(setting)
    called = None if isinstance(first, Seen) else first[0]
    words, body = "After the result of a tool", partial(_after_call, called)
    return await judged_in(Situation(words, body, may_be_refused=called is None), setting)


async def _cut_by_limit(setting: CheckSetting) -> Seen:
    """A call that the limit cuts ends with the limit as its reason."""
    called = await first_call(setting)
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
        ask = tool_ask(setting, is_streamed=is_streamed, limit=limit)
        body = tool_body(setting, ask, is_forced=is_forced)
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
    called = await first_call(setting)
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
        ask = tool_ask(setting, (stop,), is_streamed=is_streamed)
        body = tool_body(setting, ask, is_forced=is_forced)
        judged = partial(_half_call, stop, arguments, whole)
        run = await findings.ask(body, judged, may_refuse=True)
        if run.is_refusal:
            return skipped("Stops beside tools are refused.")
        whole = run.capture.text
    return findings.seen(f"{stop!r} in {arguments}")


def tool_ask(
    setting: CheckSetting,
    stops: tuple[str, ...] = (),
    *,
    is_streamed: bool = False,
    limit: int | None = None,
) -> Ask:
    """Return the request for which a model calls the tool."""
    tokens = limit or max(MANY_TOKENS, setting.main.ask.max_tokens)
    is_thinking = setting.main.ask.is_thinking
    return Ask(TOOL_PROMPT, stops, tokens, is_streamed=is_streamed, is_thinking=is_thinking)


def tool_body(setting: CheckSetting, ask: Ask, *, is_forced: bool) -> Body | None:
    """Return a request with the tool; None if the dialect has no tools."""
    choice = Choice.NAMED if is_forced else Choice.AUTO
    dialect = setting.client.driver.dialect
    # Not every dialect can force a call.
    return with_tool(dialect, setting.body(ask), choice) or with_tool(dialect, setting.body(ask))


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
    told = ("arguments_form", "call_name_repeated")
    if any(finding.code in told for finding in capture.findings):
        return []  # the check of a call says so
    if calls and calls[0].name not in ("", TOOL_NAME):
        said = f"The call is one of {calls[0].name!r}, a tool that was not offered."
        return [Judgement("call_name", said, TOOL_NAME, calls[0].name)]
    got = calls[0].arguments if calls else ""
    if _is_whole(got) and stop in got:
        return []
    if not _is_whole(got) and calls and not (got and arguments.startswith(got)):
        return []  # no stop does that; the check of a call says what it is
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
        return isinstance(parse_json(arguments), dict)
    except ValueError:
        return False


# Checks structured output.


async def _structure(setting: CheckSetting) -> Seen:
    """A stop ends an answer of a given structure like any other."""
    tokens = max(MANY_TOKENS, setting.main.ask.max_tokens)
    ask = Ask(STRUCTURE_PROMPT, max_tokens=tokens, is_thinking=setting.main.ask.is_thinking)
    body = _structured(setting, ask)
    if body is None:
        return skipped("The probe knows no structured output of this dialect.")
    plain = await setting.client.send(body)
    text = plain.capture.text.strip()
    is_ended = plain.capture.ending is not CapturedEnding.LIMIT
    is_broken = text.startswith("{") and is_ended and not _is_whole(text)
    if plain.is_refusal or (plain.is_answer and not _is_whole(text) and not is_broken):
        return skipped("The server gives no JSON.")
    if is_broken:
        findings = Findings(setting, "With JSON asked for")
        await findings.ask(body, judged_json, first=plain)
        return findings.seen("")
    situation = Situation("With JSON asked for", _structured, ignored="structured_stop_ignored")
    return await judged_in(situation, setting, ask)


def judged_json(run: Exchange) -> list[Judgement]:
    """Judge an answer that has to be a JSON object."""
    broken = no_answer(run)
    if broken is not None or _is_whole(run.capture.text):
        return [broken] if broken is not None else []
    said = "The answer is an object that is not valid JSON."
    return [Judgement("json_broken", said, "a JSON object", run.capture.text)]


def _structured(setting: CheckSetting, ask: Ask) -> Body | None:
    return with_structure(setting.client.driver.dialect, setting.body(ask))


# Checks whether a call is made where the request wants one.


async def _choice(setting: CheckSetting) -> Seen:
    """A tool is called where the request requires it, and not where it rules it out."""
    called = await first_call(setting)
    if isinstance(called, Seen):
        return called
    dialect, findings = setting.client.driver.dialect, Findings(setting)
    tokens = max(MANY_TOKENS, setting.main.ask.max_tokens)
    counting = replace(setting.main.ask, max_tokens=tokens)
    calling = replace(counting, prompt=TOOL_PROMPT)
    shown = []
    for choice, ask, is_streamed in (
        (Choice.NONE, calling, False),
        (Choice.NONE, calling, True),
        (Choice.REQUIRED, counting, False),
        (Choice.REQUIRED, counting, True),
        (Choice.NAMED, counting, False),
        (Choice.NAMED, counting, True),
    ):
        body = with_tool(dialect, setting.body(replace(ask, is_streamed=is_streamed)), choice)
        if body is None:
            return skipped("The dialect has no such choice.")
        if choice is Choice.REQUIRED:
            body = _one_at_a_time(dialect, body)
        run = await findings.ask(body, partial(_chosen, choice), may_refuse=True)
        if not run.is_refusal:
            shown.append(choice.value)
    if not shown:
        return skipped("The server refuses tool_choice.")
    return findings.seen(", ".join(dict.fromkeys(shown)))


def _one_at_a_time(dialect: WireDialect, body: Body) -> Body:
    if dialect is WireDialect.MESSAGES:
        return {**body, "tool_choice": {**body["tool_choice"], "disable_parallel_tool_use": True}}
    return {**body, "parallel_tool_calls": False}


def _chosen(choice: Choice, run: Exchange) -> list[Judgement]:
    broken, capture = no_answer(run), run.capture
    if broken is not None:
        return [broken]
    calls = [call.name for call in capture.tool_calls]
    if choice is Choice.NONE:
        said = "tool_choice rules calls out, but the answer has one."
        return [Judgement("choice_ignored", said, "no call", ", ".join(calls))] if calls else []
    if capture.ending is CapturedEnding.LIMIT:
        return []
    if not calls:
        said = f"tool_choice wants a call ({choice}), but the answer has none."
        return [Judgement("choice_ignored", said, "a call", capture.text)]
    if choice is Choice.REQUIRED and len(calls) > 1:
        said = "Parallel calls were ruled out, but there are several calls."
        return [Judgement("calls_parallel", said, "one call", ", ".join(calls))]
    return []


# Checks the limit of answers with thinking.


async def _limit_and_thinking(setting: CheckSetting) -> Seen:
    """The limit counts the tokens of thinking and answer together."""
    given: Baseline | Seen | None = setting.shared.get("thought")
    if not isinstance(given, Baseline):
        return given or skipped("No answer with thinking was asked for.")
    if not given.is_repeatable or given.tokens is None or len(given.text) < _FEW_TOKENS:
        return undecided("The answer with thinking is too short for a limit.")
    # The end of a turn may count as a token, too.
    limit, findings = given.tokens - 3, Findings(setting, "With thinking")
    # Half of the thinking, for its share of the characters is about that of its tokens.
    within = limit * len(given.thinking) // (2 * len(given.thinking + given.text))
    for is_streamed in modes(setting):
        for number, judged in (
            (limit, partial(limited, given, limit, setting.client.driver.words)),
            (max(within, 1), partial(_told_thoughts, given)),
        ):
            ask = replace(given.ask, max_tokens=number, is_streamed=is_streamed)
            body = setting.client.driver.with_limit(setting.body(ask), number)
            await findings.ask(body, judged, may_refuse=True)
    return findings.seen(f"{limit} tokens")


def _told_thoughts(given: Baseline, run: Exchange) -> list[Judgement]:
    """Judge an answer that the limit ended before its thinking was over."""
    text = run.capture.text.strip()
    if not text or text not in given.thinking or run.capture.ending is not CapturedEnding.LIMIT:
        return []
    said = "The text has thinking that the limit cut."
    return [Judgement("thinking_in_text", said, "no text", run.capture.text)]


FEATURE_CHECKS = (
    Check("choices.count", _count),
    Check("choices.stop", _choices),
    Check("logprobs.stop", _logprobs),
    Check("stops.result", _result),
    Check("tools.call", _call),
    Check("tools.limit", _cut_by_limit),
    Check("tools.stop", _tools),
    Check("tools.choice", _choice),
    Check("structured.stop", _structure),
    Check("limit.thinking", _limit_and_thinking),
)
