"""The faults of one answer, compared with the answer without stops."""

import json
from dataclasses import replace
from typing import Any

import pytest

from api.conformance.captures.recognition import parse
from api.conformance.captures.values import CapturedEnding, WireDialect
from api.conformance.probe.dialects import DRIVERS, Ask
from api.conformance.probe.judgement import (
    judge,
    stream_differs,
)
from api.conformance.probe.plan import Baseline, StopCase
from api.conformance.probe.values import Exchange

FULL = "one two three four five six seven"
STOP = "two"


def case(stop: str | None = STOP, **more: Any) -> StopCase:
    values = {"ending": CapturedEnding.NATURAL, "tokens": 20} | more
    full = Baseline(Ask("?"), FULL, FULL, **values)
    if stop is None:
        return StopCase("never", full, ("never",), FULL, None)
    return StopCase("stop", full, (stop,), FULL[: FULL.index(stop)], stop)


def answer(text: str, reason: str = "stop_sequence", matched: str | None = STOP) -> dict[str, Any]:
    return {
        "type": "message",
        "content": [{"type": "text", "text": text}],
        "stop_reason": reason,
        "stop_sequence": matched,
        "usage": {"input_tokens": 3, "output_tokens": 3},
    }


def exchange(body: Any, dialect: WireDialect = WireDialect.MESSAGES, **more: Any) -> Exchange:
    text = json.dumps(body)
    values = {"status": 200, "total_s": 0.3} | more
    return Exchange(body={}, text=text, capture=parse(text, dialect), **values)


def codes(one: StopCase, run: Exchange, *, names_stop: bool = True) -> list[str]:
    driver = replace(DRIVERS[WireDialect.MESSAGES], names_stop=names_stop)
    return [verdict.code for verdict in judge(one, run, driver)]


@pytest.mark.parametrize(
    ("named", "code", "said"),
    [
        ("two th", "prefix_leaked", "ends with 'two ', the beginning of a stop"),
        ("three", "another_stop_won", "'three' fired instead of 'two th'"),
        (None, "another_stop_won", "or the beginning of 'two th' was shown"),
    ],
)
def test_named_stop_distinguishes_a_leaked_beginning(
    named: str | None, code: str, said: str
) -> None:
    first = case("two th")
    both = replace(first, stops=("three", "two th"), why="the first")
    run = exchange(answer("one two ", matched=named))
    verdict = judge(both, run, replace(DRIVERS[WireDialect.MESSAGES], names_stop=False))[0]
    assert verdict.code == code
    assert said in verdict.sentence


@pytest.mark.parametrize(
    ("streamed", "said"),
    [
        ("two three", "'one ' is missing at its beginning."),
        ("one two", "' three' is missing after 'one two'."),
        ("one two, three", "',' is added after 'one two'."),
        ("one t\ufffdo three", "U+FFFD stands in it for the character 'w'."),
        ("", "The streamed answer is empty: it has no text, which the whole one has, each time."),
    ],
)
def test_a_stream_with_another_text_is_said_to_differ_where_it_does(
    streamed: str, said: str
) -> None:
    assert stream_differs("one two three", streamed).sentence.endswith(said)


def test_a_chat_answer_without_a_field_for_the_stop_need_not_name_it() -> None:
    choice = {"index": 0, "message": {"content": "one "}, "finish_reason": "stop"}
    body = {"choices": [choice], "usage": {"completion_tokens": 3}}
    run = exchange(body, WireDialect.CHAT)
    assert codes(case(), run, names_stop=False) == []
    choice["matched_stop"] = None
    run = exchange(body, WireDialect.CHAT)
    assert codes(case(), run, names_stop=False) == ["sequence_null"]


@pytest.mark.parametrize(("tokens", "code"), [(19, "stop_included"), (20, "stop_ignored")])
def test_the_tokens_tell_whether_a_stop_at_the_very_end_is_shown_or_ignored(
    tokens: int, code: str
) -> None:
    body = answer(FULL, "end_turn", None)
    body["usage"]["output_tokens"] = tokens
    [verdict, *_] = judge(case("seven"), exchange(body), DRIVERS[WireDialect.MESSAGES])
    assert verdict.code == code
    assert verdict.sentence.startswith("The answer ends with the stop 'seven'")


def test_as_many_tokens_as_without_the_stop_show_that_the_text_was_only_hidden() -> None:
    body = answer("one ")
    body["usage"]["output_tokens"] = 20
    assert codes(case(), exchange(body)) == ["stop_only_hidden"]
