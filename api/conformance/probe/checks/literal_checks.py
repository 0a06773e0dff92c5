"""Checks that stops are matched literally: as text, with their case, character by character.

None of these stops occurs in the answer, so none may change it. Runs on the loop of whoever probes.
"""

import re
import unicodedata
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from api.conformance.probe.asking.exchange import Exchange
from api.conformance.probe.baseline import Baseline
from api.conformance.probe.checks.checking import (
    Check,
    CheckSetting,
    Seen,
    confirmed,
    skipped,
    undecided,
)
from api.conformance.probe.judging import Judgement, no_answer
from api.conformance.probe.planning.plan import NEVER
from api.conformance.probe.values import Fault


@dataclass(frozen=True, slots=True)
class _Lookalike:
    """A stop that is not in the answer but resembles a part of it.

    Attributes:
        code: The code of the fault if it fires.
        sentence: The fault's sentence; ``{}`` is the stop.
        stop: The stop.
    """

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
