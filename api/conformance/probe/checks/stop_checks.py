"""Checks of stop sequences: where they fire, how they are spelled, lists of them, and long ones."""

import re
import unicodedata
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from api.conformance.probe.checks.check import (
    NO_ANSWER,
    Check,
    CheckSetting,
    Seen,
    confirmed,
    fault,
    make_sure_it_lives,
    skipped,
    undecided,
    without_premise,
    working_case,
)
from api.conformance.probe.client import Client
from api.conformance.probe.judgement import Judgement, invariants, judge, no_answer
from api.conformance.probe.plan import NEVER, Baseline, StopCase, missing, simplest_case
from api.conformance.probe.values import Exchange, Fault

# Checks that the chosen stops work, whole and streamed.

_REPEATS = 2


def stop_checks(cases: Sequence[StopCase]) -> list[Check]:
    """Return a check for each case, and for each kind without a case one that says why."""
    checks = [Check(f"stop.{case.code}", _runner(case)) for case in cases]
    checks += [Check(f"stop.{code}", _nothing_to_choose) for code in missing(cases)]
    return checks


async def _nothing_to_choose(setting: CheckSetting) -> Seen:
    return skipped("The answers contain no text for such a stop.")


def _runner(case: StopCase) -> Callable[[CheckSetting], Awaitable[Seen]]:
    async def run(setting: CheckSetting) -> Seen:
        faults: list[Fault] = []
        doubts: list[str] = []
        for is_streamed in (False, True):
            found, doubt = await judged(setting, case, is_streamed=is_streamed)
            faults.extend(found)
            doubts.extend([doubt] if doubt else [])
        shown = ", ".join(map(repr, case.stops))
        if not faults and doubts:
            return undecided(f"{shown}: {doubts[0]}")
        return Seen(shown, tuple(faults))

    return run


async def judged(
    setting: CheckSetting, case: StopCase, *, is_streamed: bool
) -> tuple[list[Fault], str]:
    """Send a request, and again if the result is doubtful; return faults, and a doubt if any."""
    client = setting.client
    in_mode = case.in_mode(is_streamed=is_streamed)
    if in_mode is None:
        return [], "streams have another text, in which this stop says nothing."
    case = in_mode
    ask = replace(case.baseline.ask, stops=case.stops, is_streamed=is_streamed)
    run = await client.ask(ask)
    verdicts = _verdicts(setting, case, run)
    if not verdicts or run.problem:
        return _faults(setting, run, verdicts), ""
    if case.baseline.is_repeatable:
        again = await client.ask(ask)
        verdicts = _verdicts(setting, case, again)
        if not verdicts:
            return [], "it failed once and passed the second time."
        return _faults(setting, again, verdicts), ""
    for _ in range(_REPEATS):
        certain = invariants(case, run)
        if certain:
            return _faults(setting, run, certain), ""
        run = await client.ask(ask)
        if not _verdicts(setting, case, run):
            return [], ""
    return [], "the server answers differently each time, so the text cannot be compared."


def _verdicts(setting: CheckSetting, case: StopCase, run: Exchange) -> list[Judgement]:
    return judge(case, run, setting.client.driver)


def _faults(setting: CheckSetting, run: Exchange, verdicts: Sequence[Judgement]) -> list[Fault]:
    return [fault(setting.client, run, verdict) for verdict in verdicts]


# Checks that stops are matched literally: as text, with their case, character by character.
#
# None of these stops occurs in the answer, so none may change it.


@dataclass(frozen=True, slots=True)
class _Lookalike:
    """A stop that is not in the answer but resembles a part of it."""

    code: str
    sentence: str
    stop: str


_Choose = Callable[[Baseline], Iterator[_Lookalike]]


def _other_case(given: Baseline) -> Iterator[_Lookalike]:
    for found in re.finditer(r"\w+", given.text):
        yield _Lookalike(
            "case_ignored", "The stop {} matched text of another case.", found[0].swapcase()
        )


def _pattern(given: Baseline) -> Iterator[_Lookalike]:
    sentence = "The stop {} was taken for a regular expression."
    for found in re.finditer(r"(?=(\w)([\w ])(\w))", given.text):
        yield _Lookalike("stop_is_pattern", sentence, f"{found[1]}.{found[3]}")


def _broken_pattern(given: Baseline) -> Iterator[_Lookalike]:
    sentence = "The stop {} was taken for a regular expression."
    yield _Lookalike("stop_is_pattern", sentence, f"([{NEVER}")


def _escape(given: Baseline) -> Iterator[_Lookalike]:
    if "\n" in given.text:
        sentence = "The stop {}, a backslash and a letter, was taken for a line break."
        yield _Lookalike("stop_unescaped", sentence, "\\n")


def _other_form(given: Baseline) -> Iterator[_Lookalike]:
    sentence = "The stop {} matched text that is written with other code points."
    for char in given.text:
        for form in ("NFD", "NFC"):
            yield _Lookalike("stop_normalised", sentence, unicodedata.normalize(form, char))


def _other_line_end(given: Baseline) -> Iterator[_Lookalike]:
    for found in re.finditer(r"(\S)\n(\S)", given.text):
        sentence = "The stop {} matched a line break of another form."
        yield _Lookalike("line_ends_changed", sentence, f"{found[1]}\r\n{found[2]}")


def _check(choosers: Sequence[_Choose]) -> Callable[[CheckSetting], Awaitable[Seen]]:
    async def run(setting: CheckSetting) -> Seen:
        chosen = list(_chosen(setting.baselines, choosers))
        if not any(one.is_repeatable for one in setting.baselines):
            return undecided("The server answers differently each time.")
        if not chosen:
            return skipped("The answers contain no text for such a stop.")
        faults: list[Fault] = []
        for given in setting.baselines:
            mine = [one for at, one in chosen if at is given]
            # All are sent in one request; if something fires, each is sent separately.
            if mine and await _fired(setting, given, mine) is not None:
                for one in mine:
                    found = await _fired(setting, given, [one])
                    faults.extend([found] if found is not None else [])
        return Seen(", ".join(repr(one.stop) for _, one in chosen), _causes(faults))

    return run


def _causes(faults: Sequence[Fault]) -> tuple[Fault, ...]:
    """Return the faults without those that follow from others: patterns contain escapes, too."""
    is_pattern = any(fault.code == "stop_is_pattern" for fault in faults)
    kept = (fault for fault in faults if not (is_pattern and fault.code == "stop_unescaped"))
    return tuple({fault.code: fault for fault in kept}.values())


def _chosen(
    baselines: Sequence[Baseline], choosers: Sequence[_Choose]
) -> Iterator[tuple[Baseline, _Lookalike]]:
    for choose in choosers:
        for given in baselines:
            thinking = given.thinking + given.inline_thinking
            all_text = given.text + thinking
            is_new = (one for one in choose(given) if one.stop not in all_text)
            found = next(is_new, None) if given.is_repeatable else None
            if found is not None:
                yield given, found
                break


async def _fired(
    setting: CheckSetting, given: Baseline, chosen: Sequence[_Lookalike]
) -> Fault | None:
    """Return the fault if one of the stops changes the answer."""
    client = setting.client
    ask = replace(given.ask, stops=tuple(one.stop for one in chosen))
    body = client.driver.body(ask, client.model)
    _, faults = await confirmed(client, body, partial(_changed, given, chosen[0]))
    return next(iter(faults), None)


def _changed(given: Baseline, chosen: _Lookalike, run: Exchange) -> list[Judgement]:
    broken = no_answer(run)
    if broken is not None:
        return [broken]
    got = run.capture.text
    if got == given.text:
        return []
    sentence = chosen.sentence.format(repr(chosen.stop))
    if given.text.startswith(got):
        return [Judgement(chosen.code, sentence, given.text, got, given.text)]
    sentence = "No stop could fire, but the text differs."
    return [Judgement("text_differs", sentence, given.text, got, given.text)]


LITERAL_CHECKS = (
    Check("stops.literal", _check((_other_case, _pattern, _broken_pattern, _escape))),
    Check("stops.code_points", _check((_other_form, _other_line_end))),
)


# Checks the list of stops itself: absent, empty, blank, a bare string, token ids.

# The lowest ids of every common vocabulary are bytes, digits and line ends, which an answer that
# counts needs.
_LOW_IDS = tuple(range(256))


async def _no_stops(setting: CheckSetting) -> Seen:
    """An empty list and null mean no stops."""
    given = setting.main
    if not given.is_repeatable:
        return undecided("The server answers differently each time.")
    faults: list[Fault] = []
    values: tuple[list[str] | None, ...] = ([], None)
    for value in values:
        run = await setting.client.send(_with_stop(setting, given, value))
        if run.is_refusal and value is None:
            continue
        broken = no_answer(run)
        if broken is None and run.capture.text != given.text:
            broken = Judgement(
                "text_differs",
                f"{value!r} as stops changes the text.",
                given.text,
                run.capture.text,
            )
        if broken is not None:
            faults.append(fault(setting.client, run, broken))
    return Seen("[] and null mean no stops", tuple(faults))


async def _bare_string(setting: CheckSetting) -> Seen:
    """A single stop may be given without a list, if the dialect allows it."""
    if not setting.client.driver.takes_string:
        return skipped("The dialect takes a list only.")
    case = simplest_case(setting.baselines)
    if case is None:
        return undecided(NO_ANSWER)
    run = await setting.client.send(_with_stop(setting, case.baseline, case.stops[0]))
    verdicts = judge(case, run, setting.client.driver)
    faults = [fault(setting.client, run, verdict) for verdict in verdicts]
    return Seen(repr(case.stops[0]), tuple(faults))


async def _empty_stop(setting: CheckSetting) -> Seen:
    """An empty stop is refused or ignored; it must not end the answer or crash the server."""
    faults: list[Fault] = []
    seen = "ignored"
    for is_streamed in (False, True):
        found, refused = await _empty_in_mode(setting, is_streamed=is_streamed)
        faults.extend(found)
        seen = refused or seen
    return Seen(seen, tuple(faults))


async def _empty_in_mode(setting: CheckSetting, *, is_streamed: bool) -> tuple[list[Fault], str]:
    given, client = setting.main, setting.client
    body = client.driver.body(replace(given.ask, is_streamed=is_streamed), client.model)
    run = await client.send(client.driver.with_stop(body, [""]))
    if run.is_refusal:
        died = await make_sure_it_lives(setting, run)
        return [died] if died else [], f"refused with status {run.status}"
    broken = no_answer(run)
    full = given.text_in(is_streamed=is_streamed)
    least = len(given.stable) if full == given.text else len(full)
    if broken is None and len(run.capture.text) < least:
        broken = Judgement(
            "empty_stop_fires",
            "An empty stop counts as a match.",
            full,
            run.capture.text,
            full,
        )
    faults = [fault(client, run, broken)] if broken is not None else []
    if broken is not None:
        died = await make_sure_it_lives(setting, run)
        faults.extend([died] if died else [])
    return faults, ""


async def _blank_stop(setting: CheckSetting) -> Seen:
    """A stop of white space is refused, or works like any other stop."""
    for given in setting.baselines:
        for blank in ("\n", " "):
            at = given.stable.find(blank)
            if at > 0:
                case = StopCase("blank", given, (blank,), given.text[:at], blank)
                return await _blank(setting, case)
    return skipped("The answers contain no white space.")


async def _blank(setting: CheckSetting, case: StopCase) -> Seen:
    run = await setting.client.ask(replace(case.baseline.ask, stops=case.stops))
    if run.is_refusal:
        return Seen(f"refused with status {run.status}")
    faults, doubt = await judged(setting, case, is_streamed=False)
    if doubt:
        return undecided(doubt)
    return Seen(repr(case.stops[0]), tuple(faults))


async def _token_ids(setting: CheckSetting) -> Seen:
    """Stop token ids end the answer; if ids are not known, many of the most common are given."""
    driver, given = setting.client.driver, setting.main
    if driver.ids_path is None:
        return skipped("The dialect has no token ids.")
    if not given.is_repeatable:
        return undecided("The server answers differently each time.")
    middle = len(given.output_ids) // 3
    ids = (given.output_ids[middle],) if middle else _LOW_IDS
    run = await setting.client.ask(replace(given.ask, token_ids=ids))
    if run.is_refusal:
        return skipped(f"Token ids are refused with status {run.status}.")
    broken = no_answer(run) or _by_ids(given, run)
    faults = (fault(setting.client, run, broken),) if broken is not None else ()
    shown = str(ids[0]) if len(ids) == 1 else f"{ids[0]} to {ids[-1]}"
    return Seen(f"ids {shown} ended the answer", faults)


def _by_ids(given: Baseline, run: Exchange) -> Judgement | None:
    got = run.capture.text
    if got == given.text:
        return Judgement(
            "ids_ignored", "stop_token_ids are ignored: the answer is the same.", "less", got
        )
    if not given.text.startswith(got):
        return Judgement("text_differs", "With stop token ids, the text differs.", given.text, got)
    return None


def _with_stop(setting: CheckSetting, given: Baseline, value: Any) -> Any:
    client = setting.client
    return client.driver.with_stop(client.driver.body(given.ask, client.model), value)


LIST_CHECKS = (
    Check("stops.none", _no_stops),
    Check("stops.string", _bare_string),
    Check("stops.empty", _empty_stop),
    Check("stops.blank", _blank_stop),
    Check("stops.token_ids", _token_ids),
)


# Checks long lists of stops, and long stops.

_COUNTS = (5, 8, 16)
_LONG_CHAT = "Count from 1 to 100, one number per line"
_LONG_PLAIN = f"{_LONG_CHAT}\n1\n2\n3\n"
_MOST_CHARS = 200
_FEWEST_CHARS = 24


async def _many(setting: CheckSetting) -> Seen:
    """Every stop of a long list counts, or the list is refused."""
    client, case = setting.client, working_case(setting)
    if isinstance(case, Seen):
        return case
    for count in _COUNTS:
        others = tuple(f"{NEVER}{number}" for number in range(1, count))
        ask = replace(case.baseline.ask, stops=(*others, *case.stops))
        body = client.driver.body(ask, client.model)
        run, faults = await confirmed(client, body, partial(_judge_many, case, client, count))
        if run.is_refusal:
            return Seen(f"{count} stops are refused with status {run.status}")
        if faults:
            return Seen(faults=tuple(faults))
    return Seen(f"the last of {', '.join(map(str, _COUNTS))} stops")


def _judge_many(case: StopCase, client: Client, count: int, run: Exchange) -> list[Judgement]:
    sentence = f"The last of {count} stops was dropped without a word."
    return [
        replace(one, code="stops_dropped", sentence=sentence) if one.code == "stop_ignored" else one
        for one in judge(case, run, client.driver)
    ]


async def _long(setting: CheckSetting) -> Seen:
    """A long stop is compared to its end: it is neither shortened nor forgotten."""
    if (broken := without_premise(setting)) is not None:
        return broken
    client = setting.client
    given = await _long_answer(setting)
    if given is None:
        return undecided("There is no long answer that could be compared.")
    start = len(given.text) // 8
    length = min(_MOST_CHARS, len(given.text) // 2)
    if length < _FEWEST_CHARS:
        return skipped("The answers are too short for a long stop.")
    stop = given.text[start : start + length]
    fires = StopCase("long", given, (stop,), given.text[:start], stop)
    never = StopCase("long", given, (stop + NEVER,), given.text, None)
    faults: list[Fault] = []
    for case in (fires, never):
        for is_streamed in (False, True):
            if is_streamed and setting.main.streamed_text is not None:
                continue
            ask = replace(given.ask, stops=case.stops, is_streamed=is_streamed)
            body = client.driver.body(ask, client.model)
            _, found = await confirmed(client, body, partial(_judge_long, case, client))
            faults.extend(found)
    return Seen(f"a stop of {length} characters", tuple(faults))


def _judge_long(case: StopCase, client: Client, run: Exchange) -> list[Judgement]:
    verdicts = judge(case, run, client.driver)
    length = len(case.stops[0])
    got = run.capture.text
    if case.matched is None and verdicts and case.text.startswith(got) and got != case.text:
        sentence = f"A stop of {length} characters matched although only its beginning occurs."
        return [Judgement("stop_cut_short", sentence, case.text, got, case.text)]
    # If the server's window of text is too short, a long part of the stop leaks.
    has_leaked = len(got) - len(case.text) >= length // 4
    codes = {one.code for one in verdicts}
    if "stop_ignored" in codes or ("prefix_leaked" in codes and has_leaked):
        sentence = f"A stop of {length} characters was forgotten before it was complete."
        return [Judgement("long_stop_ignored", sentence, case.text, got, case.baseline.text)]
    return verdicts


async def _long_answer(setting: CheckSetting) -> Baseline | None:
    """Return an answer longer than the others, if the server gives one; else the longest."""
    repeatable = [one for one in setting.baselines if one.is_repeatable]
    if not repeatable:
        return None
    usual = max(repeatable, key=lambda one: len(one.text))
    has_template = setting.client.driver.has_chat_template
    prompt = _LONG_CHAT if has_template else _LONG_PLAIN
    ask = replace(usual.ask, prompt=prompt, max_tokens=4 * usual.ask.max_tokens)
    first, again = await setting.client.ask(ask), await setting.client.ask(ask)
    text = first.capture.text
    is_usable = first.is_answer and text == again.capture.text and "\ufffd" not in text
    if not is_usable or len(text) <= len(usual.text):
        return usual
    return Baseline(
        ask=ask,
        text=text,
        stable=text,
        thinking=first.capture.thinking,
        ending=first.capture.ending,
    )


LONG_CHECKS = (
    Check("stops.many", _many),
    Check("stops.long", _long),
)
