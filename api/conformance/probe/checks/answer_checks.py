"""Checks of whole answers, streams, thinking and errors."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from api.conformance.captures.values import CapturedEnding, WireDialect
from api.conformance.probe.checks.check import (
    VARIES,
    Check,
    CheckSetting,
    Findings,
    Seen,
    fault,
    skipped,
    undecided,
    without_premise,
)
from api.conformance.probe.checks.request_checks import Situation, judged_in, sent_before
from api.conformance.probe.client import Client
from api.conformance.probe.dialects import Ask, Body
from api.conformance.probe.judgement import Judgement, no_answer, thinking_in_text
from api.conformance.probe.plan import Baseline, StopCase, is_first, simple_case
from api.conformance.probe.values import Exchange, Fault

# Checks the reason of a natural end, and thinking.

_THINKING_TOKENS = 512
_TAGS = ("<think>", "</think>", "<thinking>", "<|channel|>")


async def _thinking_off(setting: CheckSetting) -> Seen:
    """With thinking switched off, the answer has no thinking and no thinking tag in its text."""
    driver, given = setting.client.driver, setting.main
    if not driver.can_think:
        return skipped("The dialect cannot switch thinking off.")
    findings = Findings(setting)
    for is_streamed in (False, True):
        body = setting.body(replace(given.ask, is_thinking=False, is_streamed=is_streamed))
        run = await findings.ask(body, _thinks, may_refuse=True)
        if run.is_refusal:
            return skipped(f"Switching thinking off is refused with status {run.status}.")
        has_tag = any(tag in run.capture.text for tag in _TAGS)
        if not has_tag and run.capture.thinking.strip() and given.thinking.strip():
            return skipped("The model thinks all the same; not every model can do otherwise.")
    if findings.faults or setting.broken_by or given.ask.is_thinking is False:
        return findings.seen("no thinking")
    return await judged_in(_SWITCHED_OFF, setting)


_SWITCHED_OFF = Situation(
    "With thinking switched off",
    lambda setting, ask: setting.body(replace(ask, is_thinking=False)),
)


def _thinks(run: Exchange) -> list[Judgement]:
    broken, capture = no_answer(run), run.capture
    if broken is None and (capture.thinking.strip() or any(tag in capture.text for tag in _TAGS)):
        said = "The answer has thinking, though thinking is switched off."
        broken = Judgement("thinking_shown", said, "none", capture.thinking or capture.text)
    return [broken] if broken is not None else []


async def _thought(setting: CheckSetting) -> Baseline | Seen:
    """Return an answer with thinking before it; else why nothing can be decided."""
    if "thought" not in setting.shared:
        setting.shared["thought"] = await _first_thought(setting)
    thought: Baseline | Seen = setting.shared["thought"]
    return thought


async def _first_thought(setting: CheckSetting) -> Baseline | Seen:
    if not setting.client.driver.can_think:
        return skipped("The dialect does not separate thinking from the answer.")
    ask = replace(setting.main.ask, is_thinking=True)
    ask = replace(ask, max_tokens=max(_THINKING_TOKENS, ask.max_tokens))
    plain, again = await setting.client.ask(ask), await setting.client.ask(ask)
    capture, other = plain.capture, again.capture
    if not plain.is_answer:
        return skipped("Thinking cannot be switched on.")
    if not capture.thinking.strip():
        streamed = await setting.client.ask(replace(ask, is_streamed=True))
        if streamed.capture.thinking.strip():
            setting.shared["thought_streamed"] = streamed
        return skipped("The model does not think.")
    if (capture.text, capture.thinking) != (other.text, other.thinking):
        return undecided(VARIES)
    if not capture.text.strip():
        if capture.ending is not CapturedEnding.LIMIT:
            return undecided("The answer has thinking and no text.")
        return undecided("The model thinks longer than the limit allows.")
    text, usage = capture.text, capture.usage
    tokens = usage.output_tokens if usage is not None else None
    return Baseline(ask, text, text, capture.thinking, (), tokens, capture.ending)


async def _same_thinking(setting: CheckSetting) -> Seen:
    """A stream has the thinking that the whole answer has."""
    given = await _thought(setting)
    streamed: Exchange | None = setting.shared.get("thought_streamed")
    if streamed is not None:
        findings = Findings(setting)
        said = "The thinking that the stream has is missing from the whole answer."
        thinking = streamed.capture.thinking
        findings.note(streamed, [Judgement("thinking_missing", said, thinking, "none")])
        return findings.seen("")
    if isinstance(given, Seen):
        return given
    if True not in _modes(setting):
        return undecided("Streams have another text anyway.")
    findings = Findings(setting)
    body = setting.body(replace(given.ask, is_streamed=True))
    run = await findings.ask(body, partial(_thought_too, given))
    setting.shared["is_thought_whole_only"] = not run.capture.thinking.strip()
    return findings.seen(f"{len(given.thinking)} characters of thinking")


def _thought_too(given: Baseline, run: Exchange) -> list[Judgement]:
    broken = no_answer(run)
    if broken is not None:
        return [broken]
    thought, whole = run.capture.thinking.strip(), given.thinking.strip()
    if not thought:
        said = "The thinking that the whole answer has is missing from the stream."
        return [Judgement("thinking_missing", said, whole, "none")]
    if thought != whole:
        said = "The thinking of the stream is not the one of the whole answer."
        return [Judgement("thinking_differs", said, whole, thought)]
    return []


async def _stop_in_answer(setting: CheckSetting) -> Seen:
    """A stop that occurs in the answer alone ends it, also after thinking."""
    if (broken := without_premise(setting)) is not None:
        return broken
    given = await _thought(setting)
    if isinstance(given, Seen):
        return given
    case = simple_case(given)
    if case is None:
        return undecided("Every part of the answer occurs in the thinking too.")
    findings = Findings(setting)
    for is_streamed in _modes(setting):
        await findings.judge(case, is_streamed=is_streamed)
    return findings.seen(repr(case.stops[0]))


def _modes(setting: CheckSetting) -> tuple[bool, ...]:
    """Return in which modes answers are compared: not in streams that have another text anyway."""
    is_other = setting.main.streamed_text is not None
    return (False,) if is_other or setting.shared.get("is_thought_whole_only") else (False, True)


async def _stop_in_thinking(setting: CheckSetting) -> Seen:
    """A stop that occurs only in the thinking must not end the answer."""
    given = await _thought(setting)
    if isinstance(given, Seen):
        return given
    stops = _only_thought(given.thinking, given.text)
    if not stops:
        return undecided("Every word of the thinking is in the answer too.")
    findings = Findings(setting)
    for stop in stops:
        for is_streamed in _modes(setting):
            ask = replace(given.ask, stops=(stop,), is_streamed=is_streamed)
            plain = await _as_without(setting, given, ask)
            where = "occurs in the thinking only"
            await findings.ask(setting.body(ask), partial(_kept, plain, given.text, stop, where))
    return findings.seen(", ".join(map(repr, stops)))


async def _stop_in_both(setting: CheckSetting) -> Seen:
    """A stop that occurs in thinking and answer leaves the thinking whole and ends the answer."""
    if (broken := without_premise(setting)) is not None:
        return broken
    given = await _thought(setting)
    if isinstance(given, Seen):
        return given
    case = _in_both(given)
    if case is None:
        return undecided("Thinking and answer have no text in common.")
    findings = Findings(setting)
    stop, where = case.stops[0], "occurs in the thinking, too"
    for is_streamed in _modes(setting):
        ask = replace(given.ask, stops=case.stops, is_streamed=is_streamed)
        plain = await _as_without(setting, given, ask)
        await findings.ask(setting.body(ask), partial(_kept, plain, case.text, stop, where))
    return findings.seen(repr(stop))


async def _as_without(setting: CheckSetting, given: Baseline, ask: Ask) -> Baseline:
    """Return the answer without stops, with the thinking that it has in the mode of a request."""
    body = setting.body(replace(ask, stops=()))
    run = sent_before(setting.client, body) or await setting.client.send(body)
    return replace(given, thinking=run.capture.thinking) if run.is_answer else given


def _in_both(given: Baseline) -> StopCase | None:
    for length in (3, 2, 1):
        for at in range(1, len(given.text) - length + 1):
            stop = given.text[at : at + length]
            is_plain = stop[0].isalnum() and stop[-1].isalnum()
            if is_plain and stop in given.thinking and is_first(given, at, at + length):
                return StopCase("both", given, (stop,), given.text[:at], stop)
    return None


def _only_thought(thinking: str, answer: str) -> list[str]:
    """Return a word and a character that occur in the thinking and not in the answer."""
    words = (word for word in re.findall(r"\w{3,}", thinking) if word not in answer)
    characters = (char for char in thinking if char.isalnum() and char not in answer)
    chosen = (next(words, None), next(characters, None))
    return [stop for stop in chosen if stop is not None]


def _kept(given: Baseline, expected: str, stop: str, where: str, run: Exchange) -> list[Judgement]:
    broken, got = no_answer(run), run.capture.text
    if broken is not None:
        return [broken]
    if (spilled := thinking_in_text(given.thinking, expected, run)) is not None:
        return [spilled]
    if got != expected and not got.strip() and expected.strip():
        said = f"The stop {stop!r} {where}, but there is no answer."
        return [Judgement("thinking_empties_answer", said, expected, got)]
    if got != expected:
        said = f"The stop {stop!r} {where}, but the answer is not what it should be."
        code = "stop_ignored" if stop in got and stop not in expected else "text_differs"
        return [Judgement(code, said, expected, got)]
    thought, whole = run.capture.thinking.strip(), given.thinking.strip()
    if thought != whole and whole.startswith(thought):
        before, there, _ = whole.partition(stop)
        is_at_it = there and thought in (before.strip(), (before + stop).strip())
        said = f"The stop {stop!r} {where}, and the thinking is cut{' at it' if is_at_it else ''}."
        return [Judgement("thinking_cut", said, whole, thought)]
    return []


# So many tokens are no token of the end, nor one that is not counted.
_CLEARLY_FEWER = 8


async def _natural_end(setting: CheckSetting) -> Seen:
    """An answer without stops is not ended by one."""
    client = setting.client
    faults: dict[str, Fault] = {}
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
            faults.setdefault(run.mode, fault(client, run, verdict))
        elif capture.ending is CapturedEnding.OTHER:
            verdict = Judgement(
                "natural_end_misnamed",
                f"The reason of a plain answer is {capture.reason}.",
                natural,
                str(capture.reason),
            )
            faults.setdefault(run.mode, fault(client, run, verdict))
        elif _is_no_limit(client, run):
            verdict = Judgement(
                "limit_misnamed",
                "The reason says that the limit ended the answer, which has fewer tokens.",
                natural,
                f"{capture.reason}, after {_tokens(run)} tokens",
            )
            faults.setdefault(run.mode, fault(client, run, verdict))
    return Seen(f"{len(runs)} answers were read", tuple(faults.values()))


def _is_no_limit(client: Client, run: Exchange) -> bool:
    """Return whether an answer that a limit is said to have ended had room for many more tokens.

    A longer answer to another request shows that the context had room for them.
    """
    limit, made = client.driver.limit_of(run.body), _tokens(run)
    if run.capture.ending is not CapturedEnding.LIMIT or not limit or not made:
        return False
    # Thinking may be counted apart.
    answers = [other for other in client.exchanges if other.is_answer]
    if any(other.capture.thinking for other in answers) or not run.capture.text:
        return False
    longest = max(_tokens(other) for other in answers)
    return made + _CLEARLY_FEWER <= min(limit, longest)


def _tokens(run: Exchange) -> int:
    usage = run.capture.usage
    return (usage.output_tokens if usage is not None else None) or 0


REASON_CHECKS = (Check("reason.natural", _natural_end),)
ANSWER_CHECKS = (
    Check("thinking.off", _thinking_off),
    Check("thinking.streamed", _same_thinking),
    Check("thinking.answer", _stop_in_answer),
    Check("thinking.stop", _stop_in_thinking),
    Check("thinking.both", _stop_in_both),
)


# Checks streams as such: their headers, form, pace and end.

_SSE = "text/event-stream"
# The dialects with another media type for streams.
_STREAMS = {
    WireDialect.OLLAMA: "application/x-ndjson",
}
_JSON = "application/json"
_LONG = "Count from 1 to 1000, one number per line"
_MAX_TOKENS = 400
# A faster answer may arrive in one piece anyway.
_LEAST_S = 0.6
_LATE = 0.9


async def _framing(setting: CheckSetting) -> Seen:
    """A requested stream is sent, with the right media type, and its connection is closed."""
    faults: dict[str, Fault] = {}
    answers = [run for run in setting.client.exchanges if run.is_answer]
    for run in answers:
        for verdict in _misframed(setting.client.driver.dialect, run):
            faults.setdefault(verdict.code, fault(setting.client, run, verdict))
    return Seen(f"{len(answers)} answers were read", tuple(faults.values()))


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
    charset = re.search(r"charset=[\"']?([\w-]+)", run.headers.get("content-type", ""))
    if charset is not None and charset[1].lower() not in ("utf-8", "utf8"):
        heard = "The content type names another character set than UTF-8, which JSON is sent in."
        yield Judgement("content_type", heard, "utf-8", charset[1])
    if run.capture.is_streamed and run.is_streamed:
        yield from _misspelled_lines(run) if dialect is WireDialect.OLLAMA else _misspelled(run)
    if run.is_left_open:
        yield Judgement(
            "connection_left_open",
            "The connection stays open after the last event of the stream.",
            "the end of the answer",
            "nothing more, and no end",
        )


_LINE_END = re.compile(r"\r\n|\r|\n")
_FIELD = re.compile(r"(?:data|event|id|retry)(?::|\Z)|:|\Z")


def _misspelled(run: Exchange) -> Iterator[Judgement]:
    """Yield where a stream is no series of server-sent events, read as clients read it."""
    data: list[str] = []
    is_named = False
    # WHATWG: clients drop one byte order mark at the beginning of a stream.
    *lines, rest = _LINE_END.split(run.text.removeprefix("\ufeff"))
    for line in (*lines, *([rest] if rest else [])):
        if _FIELD.match(line) is None:
            said = "A line of the stream is no field of a server-sent event; clients ignore it."
            yield Judgement("event_spelled", said, "data: and the JSON", line[:200])
            return
        if not line:
            got = "\n".join(data)
            if is_named and not data:
                said = "An event has a name and no data, so that clients lose what it says."
                yield Judgement("event_spelled", said, "event: and data: without a blank line")
                return
            if data and got.strip() != "[DONE]" and _json(got) is None:
                said = (
                    "An event of the stream is not JSON: clients join all its data, up to the "
                    "next blank line."
                )
                yield Judgement("event_spelled", said, "a blank line behind each event", got[:200])
                return
            data, is_named = [], False
        data += [line.removeprefix("data:").removeprefix(" ")] if line.startswith("data:") else []
        is_named |= line.startswith("event:")
    if data and "".join(data).strip() != "[DONE]" and not run.is_left_open:
        said = "No blank line ends the last event of the stream, so that clients drop it."
        if len(data) > 1:
            said = "No blank line is between the events of the stream, so that clients drop them."
        yield Judgement("event_spelled", said, "a blank line", "\n".join(data)[:200])


def _misspelled_lines(run: Exchange) -> Iterator[Judgement]:
    """Yield where a stream is not one object a line."""
    for line in filter(str.strip, _LINE_END.split(run.text)):
        if not isinstance(_json(line), dict):
            said = "A line of the stream is not one JSON object, as clients read it."
            yield Judgement("event_spelled", said, "one object a line", line[:200])
            return


async def _pace(setting: CheckSetting) -> Seen:
    """The first piece of a stream comes long before the last."""
    ask = replace(setting.main.ask, prompt=_LONG, max_tokens=_MAX_TOKENS, is_streamed=True)
    for _ in range(2):
        run = await setting.client.ask(ask)
        if no_answer(run) is not None or run.first_s is None or not run.capture.is_streamed:
            return skipped("There was no long stream.")
        # A queue before the first token is no fault: only what is generated can be held back.
        short = await setting.client.ask_shortly()
        wait_s = max(setting.short_s, short.total_s)
        if run.total_s - wait_s < _LEAST_S:
            return skipped("The server is too quick for a stream that is held back to show.")
        if run.first_s - wait_s < _LATE * (run.total_s - wait_s):
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


async def _refused(spoil: _Spoil, setting: CheckSetting, *, is_streamed: bool = False) -> Seen:
    client = setting.client
    run = await client.send(spoil(client, setting.body(replace(_ASK, is_streamed=is_streamed))))
    findings = Findings(setting)
    findings.note(run, _judge(client, run))
    return findings.seen(f"refused with status {run.status}")


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
        broken = no_answer(run) if run.capture.ending is CapturedEnding.ERROR else None
        if broken is not None:
            return [broken]
        return [
            Judgement(
                "wrong_type_accepted",
                "An invalid request is accepted.",
                "400",
                f"{run.status} {run.text[:200]}",
            )
        ]
    judgements = []
    if run.status not in _PROPER:
        judgements.append(
            Judgement("wrong_status", f"The error has status {run.status}.", "400", str(run.status))
        )
    kind = run.headers.get("content-type", "")
    if "json" not in kind.lower() and _json(run.text) is not None:
        said = "The error has the wrong content type."
        judgements.append(Judgement("content_type", said, _JSON, kind or "none"))
    if (wrong := _wrong_type(client, run)) is not None:
        judgements.append(wrong)
    if not client.driver.is_envelope(_json(run.text)):
        judgements.append(
            Judgement(
                "error_envelope",
                "The error does not have this dialect's form.",
                "the dialect's error object",
                run.text[:200],
            )
        )
    return judgements


# The types of errors that the vendor names for these statuses.
_ERROR_TYPES = {400: "invalid_request_error", 413: "request_too_large"}


def _wrong_type(client: Client, run: Exchange) -> Judgement | None:
    """Return that an error's type is not the one of its status."""
    driver, body = client.driver, _json(run.text)
    wanted = _ERROR_TYPES.get(run.status)
    if driver.dialect is not WireDialect.MESSAGES or wanted is None or not driver.is_envelope(body):
        return None
    got = body["error"]["type"]
    if got == wanted:
        return None
    said = f"The type of an error with status {run.status} is {got}."
    return Judgement("error_type", said, wanted, got)


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

# A request for a stream is refused before there is one.
_STREAMED = ("limit", "stop_item")
ERROR_CHECKS = tuple(
    Check(f"errors.{code}", partial(_refused, spoil, is_streamed=code in _STREAMED))
    for code, spoil in _SPOILED
)
