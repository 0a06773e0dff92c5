"""Checks of whole answers, streams, errors and single features."""

import json
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from api.conformance.captures.draft import items, mapping
from api.conformance.captures.frames import parsed
from api.conformance.captures.values import CapturedEnding, WireDialect
from api.conformance.probe.checks.check import (
    Check,
    CheckSetting,
    Seen,
    ServerGone,
    confirmed,
    fault,
    make_sure_it_lives,
    skipped,
    undecided,
    without_premise,
    working_case,
)
from api.conformance.probe.client import Client
from api.conformance.probe.dialects import (
    STRUCTURE_PROMPT,
    TOOL_PROMPT,
    Ask,
    Body,
    with_choices,
    with_logprobs,
    with_structure,
    with_tool,
)
from api.conformance.probe.judgement import Judgement, judge, no_answer
from api.conformance.probe.plan import Baseline, StopCase, simple_case
from api.conformance.probe.values import Exchange, Fault

# Checks the reason of a natural end, and thinking.

_THINKING_TOKENS = 512
_TAGS = ("<think>", "</think>", "<thinking>", "<|channel|>")


async def _thinking_off(setting: CheckSetting) -> Seen:
    """With thinking switched off, the answer has no thinking and no thinking tag in its text."""
    driver, given = setting.client.driver, setting.main
    if not driver.can_think:
        return skipped("The dialect cannot switch thinking off.")
    run = await setting.client.ask(replace(given.ask, is_thinking=False))
    if run.is_refusal:
        return skipped(f"Switching thinking off is refused with status {run.status}.")
    broken = no_answer(run)
    tag = next((tag for tag in _TAGS if tag in run.capture.text), None)
    if broken is None and not tag and run.capture.thinking.strip() and given.thinking.strip():
        return skipped("The model always thinks.")
    if broken is None and (run.capture.thinking.strip() or tag):
        broken = Judgement(
            "thinking_shown",
            "Thinking is switched off, but the model thinks.",
            "none",
            run.capture.thinking or run.capture.text,
        )
    return Seen("no thinking", (fault(setting.client, run, broken),) if broken is not None else ())


async def _stop_in_thinking(setting: CheckSetting) -> Seen:
    """A stop that occurs only in the thinking must not end the answer."""
    driver = setting.client.driver
    if not driver.can_think:
        return skipped("The dialect does not separate thinking from the answer.")
    ask = replace(setting.main.ask, is_thinking=True, max_tokens=_THINKING_TOKENS)
    plain = await setting.client.ask(ask)
    if not plain.is_answer:
        return skipped("Thinking cannot be switched on.")
    answer, thinking = plain.capture.text, plain.capture.thinking
    if not thinking.strip():
        return skipped("The model does not think.")
    stops = _only_thought(thinking, answer) if answer.strip() else []
    if not stops:
        return skipped("Every word of the thinking is in the answer too.")
    faults: list[Fault] = []
    for stop in stops:
        run = await setting.client.ask(replace(ask, stops=(stop,)))
        broken = _changed(stop, answer, run)
        if broken is not None and broken.code == "text_differs" and not setting.main.is_repeatable:
            return undecided("The server answers differently each time.")
        faults.extend([fault(setting.client, run, broken)] if broken is not None else [])
    return Seen(", ".join(map(repr, stops)), tuple(faults))


def _only_thought(thinking: str, answer: str) -> list[str]:
    """Return a word and a character that occur in the thinking and not in the answer."""
    words = (word for word in re.findall(r"\w{3,}", thinking) if word not in answer)
    characters = (char for char in thinking if char.isalnum() and char not in answer)
    chosen = (next(words, None), next(characters, None))
    return [stop for stop in chosen if stop is not None]


def _changed(stop: str, answer: str, run: Exchange) -> Judgement | None:
    broken = no_answer(run)
    if broken is not None or run.capture.text == answer:
        return broken
    if not run.capture.text.strip():
        return Judgement(
            "thinking_empties_answer",
            f"The stop {stop!r} occurs in the thinking only, but there is no answer.",
            answer,
            run.capture.text,
        )
    return Judgement(
        "text_differs",
        f"The stop {stop!r} occurs in the thinking only, but the answer changes.",
        answer,
        run.capture.text,
    )


async def _natural_end(setting: CheckSetting) -> Seen:
    """An answer without stops is not ended by one."""
    client = setting.client
    found: dict[str, Fault] = {}
    runs = [
        run
        for run in client.exchanges
        if run.is_answer and isinstance(run.body, dict) and not client.driver.has_stops(run.body)
    ]
    natural = client.driver.words[CapturedEnding.NATURAL]
    for run in runs:
        capture = run.capture
        # Some servers report a template's end token as the stop that matched, so only the reason
        # counts.
        if capture.ending is CapturedEnding.STOP and f'"{capture.reason}"' not in natural:
            verdict = Judgement(
                "natural_end_misnamed",
                "The request has no stops, but the answer says that one ended it.",
                natural,
                f"{capture.reason}, {capture.matched!r}",
            )
            found.setdefault(run.mode, fault(client, run, verdict))
    return Seen(f"{len(runs)} answers were read", tuple(found.values()))


REASON_CHECKS = (Check("reason.natural", _natural_end),)
ANSWER_CHECKS = (
    Check("thinking.off", _thinking_off),
    Check("thinking.stop", _stop_in_thinking),
)


# Checks streams as such: their headers, form, pace and end.

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


# Checks that invalid requests are refused in the dialect's error format, without harm.

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


# Checks stops together with other features: several choices, tools, structure, logprobs.

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
