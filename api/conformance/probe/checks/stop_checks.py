"""Checks of stop sequences: where they fire, how they are spelled, lists of them, and long ones."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from api.conformance.probe.checks.check import (
    NO_ANSWER,
    NO_TEXT,
    VARIES,
    Check,
    CheckSetting,
    Findings,
    Seen,
    skipped,
    undecided,
    without_premise,
    working_case,
)
from api.conformance.probe.dialects import Driver
from api.conformance.probe.judgement import (
    STOP_ONLY_HIDDEN,
    Judgement,
    judge,
    no_answer,
    stream_differs,
)
from api.conformance.probe.plan import (
    NEVER,
    Baseline,
    StopCase,
    is_first,
    missing,
    places,
)
from api.conformance.probe.references import Topic, reference
from api.conformance.probe.values import Exchange, Fault

# Checks that the chosen stops work, whole and streamed.


def stop_checks(cases: Sequence[StopCase]) -> list[Check]:
    """Return a check for each case, and for each kind without a case one that says why."""
    checks = [Check(f"stop.{case.code}", partial(_stop, case)) for case in cases]
    checks += [Check(f"stop.{code}", _nothing_to_choose) for code in missing(cases)]
    return checks


async def _nothing_to_choose(setting: CheckSetting) -> Seen:
    return undecided(NO_TEXT)


async def _stop(case: StopCase, setting: CheckSetting) -> Seen:
    findings = Findings(setting)
    for is_streamed in (False, True):
        await findings.judge(case, is_streamed=is_streamed)
    return findings.seen(", ".join(map(repr, case.stops)))


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
    for match in re.finditer(r"\w+", given.text):
        yield _Lookalike(
            "case_ignored", "The stop {} matched text of another case.", match[0].swapcase()
        )


def _pattern(given: Baseline) -> Iterator[_Lookalike]:
    sentence = "The stop {} was taken for a regular expression."
    for match in re.finditer(r"(?=(\w)([\w ])(\w))", given.text):
        yield _Lookalike("stop_is_pattern", sentence, f"{match[1]}.{match[3]}")


def _broken_pattern(given: Baseline) -> Iterator[_Lookalike]:
    sentence = "The stop {} was taken for a regular expression."
    yield _Lookalike("stop_is_pattern", sentence, f"([{NEVER}")


def _list(given: Baseline) -> Iterator[_Lookalike]:
    sentence = "The stop {} was taken for several, separated by a comma."
    for match in re.finditer(r"(\w)\W(\w)", given.text):
        yield _Lookalike("stop_split", sentence, f"{match[1]},{match[2]}")


def _escape(given: Baseline) -> Iterator[_Lookalike]:
    if "\n" in given.text:
        sentence = "The stop {}, a backslash and a letter, was taken for a line break."
        yield _Lookalike("stop_unescaped", sentence, "\\n")


def _in_the_prompt(given: Baseline) -> Iterator[_Lookalike]:
    sentence = "The stop {} occurs in the prompt only, but it ended the answer."
    # More tokens than characters: thinking that nobody sees may speak of the prompt.
    is_hiding = (given.tokens or 0) > len(given.text)
    for match in () if is_hiding else re.finditer(r"\w{4,}", given.ask.prompt):
        yield _Lookalike("prompt_stopped", sentence, match[0])


def _other_form(given: Baseline) -> Iterator[_Lookalike]:
    sentence = "The stop {} matched text that is written with other code points."
    for char in given.text:
        for form in ("NFD", "NFC"):
            yield _Lookalike("stop_normalised", sentence, unicodedata.normalize(form, char))


def _other_line_end(given: Baseline) -> Iterator[_Lookalike]:
    for match in re.finditer(r"(\S)\n(\S)", given.text):
        sentence = "The stop {} matched a line break of another form."
        yield _Lookalike("line_ends_changed", sentence, f"{match[1]}\r\n{match[2]}")


async def _literal(choosers: Sequence[_Choose], setting: CheckSetting) -> Seen:
    chosen = list(_chosen(setting.baselines, choosers))
    if not any(baseline.is_repeatable for baseline in setting.baselines):
        return undecided(VARIES)
    if not chosen:
        return undecided(NO_TEXT)
    findings = Findings(setting)
    for given in setting.baselines:
        mine = [lookalike for at, lookalike in chosen if at is given]
        # All are sent in one request; if something fires, each is sent separately.
        together = Findings(setting)
        if mine:
            await _look(together, setting, given, mine)
        for lookalike in mine if together.faults else ():
            await _look(findings, setting, given, [lookalike])
    findings.faults = _causes(findings.faults)
    return findings.seen(", ".join(repr(lookalike.stop) for _, lookalike in chosen))


async def _look(
    found: Findings, setting: CheckSetting, given: Baseline, chosen: Sequence[_Lookalike]
) -> None:
    for is_streamed in (False, True) if given.streamed_text is None else (False,):
        stops = tuple(lookalike.stop for lookalike in chosen)
        body = setting.body(replace(given.ask, stops=stops, is_streamed=is_streamed))
        await found.ask(body, partial(_changed, given, chosen[0]))


def _causes(faults: Sequence[Fault]) -> list[Fault]:
    """Return the faults without those that follow from others: patterns contain escapes, too."""
    is_pattern = any(fault.code == "stop_is_pattern" for fault in faults)
    kept = (fault for fault in faults if not (is_pattern and fault.code == "stop_unescaped"))
    return list({fault.code: fault for fault in kept}.values())


def _chosen(
    baselines: Sequence[Baseline], choosers: Sequence[_Choose]
) -> Iterator[tuple[Baseline, _Lookalike]]:
    for choose in choosers:
        for given in baselines:
            thinking = given.thinking + given.inline_thinking
            all_text = given.text + thinking
            is_new = (lookalike for lookalike in choose(given) if lookalike.stop not in all_text)
            found = next(is_new, None) if given.is_repeatable else None
            if found is not None:
                yield given, found
                break


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
    Check(
        "stops.literal",
        partial(
            _literal,
            (_other_case, _pattern, _broken_pattern, _list, _escape, _in_the_prompt),
        ),
    ),
    Check("stops.code_points", partial(_literal, (_other_form, _other_line_end))),
)


# Checks the list of stops itself: absent, empty, blank, a bare string, token ids.

# The lowest ids of every common vocabulary are bytes, digits and line ends, which an answer that
# counts needs.
_LOW_IDS = tuple(range(256))


async def _no_stops(setting: CheckSetting) -> Seen:
    """An empty list and null mean no stops."""
    given, driver = setting.main, setting.client.driver
    if not given.is_repeatable:
        return undecided(VARIES)
    findings = Findings(setting)
    values: tuple[list[str] | None, ...] = ([], None)
    modes = (False, True) if given.streamed_text is None else (False,)
    for value, is_streamed in product(values, modes):
        body = driver.with_stop(setting.body(replace(given.ask, is_streamed=is_streamed)), value)
        said = f"{value!r} as stops changes the text."
        await findings.ask(
            body, partial(_same, given, "text_differs", said), may_refuse=value is None
        )
    return findings.seen("[] and null mean no stops")


def _same(given: Baseline, code: str, sentence: str, run: Exchange) -> list[Judgement]:
    broken = no_answer(run)
    if broken is None and run.capture.text != given.text:
        broken = Judgement(code, sentence, given.text, run.capture.text, given.text)
    return [broken] if broken is not None else []


async def _bare_string(setting: CheckSetting) -> Seen:
    """A single stop may be given without a list, if the dialect allows it."""
    driver = setting.client.driver
    if not driver.takes_string:
        return skipped("The dialect takes a list only.")
    case = next(filter(None, map(_several_characters, setting.baselines)), None)
    case = case or setting.simple(*setting.baselines)
    if case is None:
        return undecided(NO_ANSWER)
    findings = Findings(setting)
    stop = case.stops[0]
    for is_streamed in (False, True):
        in_mode = case.in_mode(is_streamed=is_streamed)
        if in_mode is not None:
            ask = replace(case.baseline.ask, is_streamed=is_streamed)
            body = driver.with_stop(setting.body(ask), stop)
            await findings.ask(body, partial(_as_characters, in_mode, driver))
    return findings.seen(repr(stop))


async def _twice(setting: CheckSetting) -> Seen:
    """A stop that is listed twice is one stop."""
    case = working_case(setting)
    if isinstance(case, Seen):
        return case
    findings = Findings(setting, "With a stop that is listed twice")
    for is_streamed in (False, True):
        in_mode = case.in_mode(is_streamed=is_streamed)
        if in_mode is not None:
            ask = replace(case.baseline.ask, stops=2 * case.stops, is_streamed=is_streamed)
            judged = partial(judge, in_mode, driver=setting.client.driver)
            run = await findings.ask(setting.body(ask), judged, may_refuse=True)
            if run.is_refusal:
                return skipped(f"A list with duplicates is refused with status {run.status}.")
    return findings.seen(repr(2 * case.stops))


def _several_characters(given: Baseline) -> StopCase | None:
    """Return a stop of several characters, each of which occurs before it."""
    if not given.is_repeatable:
        return None
    for length in (3, 2):
        for at in (*places(given), *range(1, len(given.stable) - length)):
            stop, before = given.stable[at : at + length], given.stable[:at]
            is_plain = stop.isprintable() and stop == stop.strip() and stop not in given.thinking
            if not (is_plain and len(stop) == length and is_first(given, at, at + length)):
                continue
            if any(char in before for char in stop):
                return StopCase("string", given, (stop,), given.text[:at], stop)
    return None


def _as_characters(case: StopCase, driver: Driver, run: Exchange) -> list[Judgement]:
    # What a stop costs is no question of its form.
    verdicts = [one for one in judge(case, run, driver) if one.code != STOP_ONLY_HIDDEN]
    stop, got = case.stops[0], run.capture.text
    cuts = [case.baseline.text.find(char) for char in stop]
    is_other = run.is_answer and len(stop) > 1 and got != case.text
    if is_other and got == case.baseline.text[: min(cuts)]:
        sentence = f"The string {stop!r} was taken for a list of its characters."
        return [Judgement("string_as_characters", sentence, case.text, got, case.baseline.text)]
    return verdicts


async def _empty_stop(setting: CheckSetting) -> Seen:
    """An empty stop is refused or ignored; it must not end the answer or crash the server."""
    findings, driver = Findings(setting), setting.client.driver
    seen = "ignored"
    for is_streamed in (False, True):
        given = setting.main
        body = driver.with_stop(setting.body(replace(given.ask, is_streamed=is_streamed)), [""])
        run = await findings.ask(body, partial(_not_fired, given), may_refuse=True)
        if run.is_refusal:
            seen = f"refused with status {run.status}"
    return findings.seen(seen)


def _not_fired(given: Baseline, run: Exchange) -> list[Judgement]:
    broken = no_answer(run)
    full, got = given.text_in(is_streamed=run.is_streamed), run.capture.text
    min_chars = len(given.stable) if full == given.text else len(full)
    if broken is None and len(got) < min_chars and full.startswith(got):
        sentence = "An empty stop counts as a match."
        broken = Judgement("empty_stop_fires", sentence, full, got, full)
    return [broken] if broken is not None else []


async def _blank_stop(setting: CheckSetting) -> Seen:
    """A stop of white space is refused, or works like any other stop."""
    findings, shown = Findings(setting), []
    for blank in ("\n", " "):
        given = next((one for one in setting.baselines if one.stable.find(blank) > 0), None)
        if given is None:
            continue
        text, is_thought = given.text[: given.stable.find(blank)], blank in given.thinking
        case = StopCase("blank", given, (blank,), text, blank, is_thought=is_thought)
        if not given.is_repeatable:
            await findings.judge(case, is_streamed=False)
            await findings.judge(case, is_streamed=True)
            shown.append(repr(blank))
            continue
        # The white space of a stream with another text may not be the answer's own.
        for is_streamed in (False, True) if given.streamed_text is None else (False,):
            body = setting.body(replace(given.ask, stops=case.stops, is_streamed=is_streamed))
            judged = partial(findings.verdicts, case)
            run = await findings.ask(body, judged, may_refuse=not is_streamed)
            if run.is_refusal:
                return findings.seen(f"refused with status {run.status}")
        shown.append(repr(blank))
    if not shown:
        return undecided("The answers contain no white space.")
    return findings.seen(", ".join(shown))


async def _token_ids(setting: CheckSetting) -> Seen:
    """Stop token ids end the answer; if ids are not known, many of the most common are given."""
    driver, given = setting.client.driver, setting.main
    if driver.ids_path is None:
        return skipped("The dialect has no token ids.")
    if not given.is_repeatable:
        return undecided(VARIES)
    middle = len(given.output_ids) // 3
    ids = (given.output_ids[middle],) if middle else _LOW_IDS
    findings, ended = Findings(setting), None
    for is_streamed in (False, True) if given.streamed_text is None else (False,):
        body = setting.body(replace(given.ask, token_ids=ids, is_streamed=is_streamed))
        beside = None if setting.is_varying else ended
        run = await findings.ask(body, partial(_by_ids, given, beside), may_refuse=True)
        if run.is_refusal:
            return skipped(f"Token ids are refused with status {run.status}.")
        if findings.faults:
            break
        ended = run.capture.text
    is_stated = reference(driver.dialect, Topic.TOKEN_IDS) is not None
    if not is_stated and {fault.code for fault in findings.faults} == {"ids_ignored"}:
        return skipped("The server knows no token ids here, nor does the API's vendor.")
    said = str(ids[0]) if len(ids) == 1 else f"{ids[0]} to {ids[-1]}"
    return findings.seen(f"ids {said} ended the answer")


def _by_ids(given: Baseline, ended: str | None, run: Exchange) -> list[Judgement]:
    broken, got = no_answer(run), run.capture.text
    if broken is not None:
        return [broken]
    if ended is not None and got != ended and given.text.startswith(got):
        said = (
            "With stop token ids, stop_token_ids, the stream ends elsewhere than the whole answer."
        )
        return [Judgement("ids_differ", said, ended, got)]
    if got == given.text:
        said = "stop_token_ids are ignored: the answer is the same."
        return [Judgement("ids_ignored", said, "less", got)]
    if not given.text.startswith(got):
        said = "With stop token ids, the text differs."
        return [Judgement("text_differs", said, given.text, got)]
    return []


LIST_CHECKS = (
    Check("stops.none", _no_stops),
    Check("stops.string", _bare_string),
    Check("stops.twice", _twice),
    Check("stops.blank", _blank_stop),
    Check("stops.token_ids", _token_ids),
)
EMPTY_CHECKS = (Check("stops.empty", _empty_stop),)


# Checks long lists of stops, and long stops.

_COUNTS = (5, 8, 16)
_LONG_CHAT = "Count from 1 to 100, one number per line"
_LONG_PLAIN = f"{_LONG_CHAT}\n1\n2\n3\n"
_MOST_CHARS = 200
_FEWEST_CHARS = 24


async def _many(setting: CheckSetting) -> Seen:
    """Every stop of a long list counts, or the list is refused."""
    case = working_case(setting)
    if isinstance(case, Seen):
        return case
    findings = Findings(setting)
    for count in _COUNTS:
        # Each in one of the modes, unless streams have another text anyway.
        is_streamed = count == _COUNTS[1] and case.baseline.streamed_text is None
        others = tuple(f"{NEVER}{number}" for number in range(1, count))
        ask = replace(case.baseline.ask, stops=(*others, *case.stops), is_streamed=is_streamed)
        judged = partial(_judge_many, case, setting.client.driver, count)
        run = await findings.ask(setting.body(ask), judged, may_refuse=True)
        if run.is_refusal:
            return Seen(f"{count} stops are refused with status {run.status}")
        if findings.faults:
            break
    return findings.seen(f"the last of {', '.join(map(str, _COUNTS))} stops")


def _judge_many(case: StopCase, driver: Driver, count: int, run: Exchange) -> list[Judgement]:
    sentence = f"The last of {count} stops was dropped without a word."
    return [
        replace(judgement, code="stops_dropped", sentence=sentence)
        if judgement.code == "stop_ignored"
        else judgement
        for judgement in judge(case, run, driver)
    ]


async def _long(setting: CheckSetting) -> Seen:
    """A long stop is compared to its end: it is neither shortened nor forgotten."""
    if (broken := without_premise(setting)) is not None:
        return broken
    findings = Findings(setting)
    given = await long_answer(setting, findings, 4 * setting.main.ask.max_tokens, 100)
    if findings.faults:
        return findings.seen("")
    if given is None:
        return undecided("There is no long answer that could be compared.")
    start = len(given.text) // 8
    length = min(_MOST_CHARS, len(given.text) // 2)
    if length < _FEWEST_CHARS:
        return undecided("The answers are too short for a long stop.")
    stop = given.text[start : start + length]
    start = given.text.find(stop)
    fires = StopCase("long", given, (stop,), given.text[:start], stop)
    never = StopCase("long", given, (stop + NEVER,), given.text, None)
    for case in (fires, never):
        for is_streamed in (False, True):
            if is_streamed and setting.main.streamed_text is not None:
                continue
            ask = replace(given.ask, stops=case.stops, is_streamed=is_streamed)
            await findings.ask(setting.body(ask), partial(_judge_long, case, setting.client.driver))
    return findings.seen(f"a stop of {length} characters")


def _judge_long(case: StopCase, driver: Driver, run: Exchange) -> list[Judgement]:
    verdicts = judge(case, run, driver)
    if any(verdict.code == "text_retracted" for verdict in verdicts):
        return verdicts
    length = len(case.stops[0])
    got = run.capture.text
    if case.matched is None and verdicts and case.text.startswith(got) and got != case.text:
        sentence = f"A stop of {length} characters matched although only its beginning occurs."
        return [Judgement("stop_cut_short", sentence, case.text, got, case.text)]
    # If the server's window of text is too short, a long part of the stop leaks.
    has_leaked = len(got) - len(case.text) >= length // 4
    codes = {verdict.code for verdict in verdicts}
    if "stop_ignored" in codes or ("prefix_leaked" in codes and has_leaked):
        sentence = f"A stop of {length} characters was forgotten before it was complete."
        return [Judgement("long_stop_ignored", sentence, case.text, got, case.baseline.text)]
    return verdicts


async def long_answer(
    setting: CheckSetting, findings: Findings, max_tokens: int, count: int
) -> Baseline | None:
    """Return a longer answer that repeats itself, if the server gives one; else the longest.

    A stream that always has another text than the whole answer is a finding.
    """
    client = setting.client
    repeatable = [baseline for baseline in setting.baselines if baseline.is_repeatable]
    if not repeatable:
        return None
    usual = max(repeatable, key=lambda baseline: len(baseline.text))
    prompt = (_LONG_CHAT if client.driver.has_chat_template else _LONG_PLAIN).replace(
        "100", str(count)
    )
    ask = replace(usual.ask, prompt=prompt, max_tokens=max_tokens)
    is_comparable = setting.main.streamed_text is None
    streaming = replace(ask, is_streamed=is_comparable)
    first, again = await client.ask(ask), await client.ask(streaming)
    text = first.capture.text
    if first.is_answer and again.is_answer and text != again.capture.text and is_comparable:
        both = [text, again.capture.text]
        others = [await client.ask(each) for each in (ask, streaming)]
        if setting.is_varying:
            others += [await client.ask(each) for each in (ask, streaming)]
        if [run.capture.text for run in others] == both * (len(others) // 2):
            verdict = stream_differs(text, again.capture.text, "The stream of a long answer")
            findings.note(again, [verdict])
    is_usable = first.is_answer and text == again.capture.text and "\ufffd" not in text
    if not is_usable or len(text) <= len(usual.text):
        return usual
    usage, streamed = first.capture.usage, again.capture.usage
    return Baseline(
        ask=ask,
        text=text,
        stable=text,
        thinking=first.capture.thinking,
        tokens=usage.output_tokens if usage is not None else None,
        ending=first.capture.ending,
        total_s=first.total_s,
        wait_s=setting.short_s,
        streamed_tokens=streamed.output_tokens if streamed is not None else None,
    )


LONG_CHECKS = (
    Check("stops.many", _many),
    Check("stops.long", _long),
)
