"""The automaton of a list of stops: made once, grown by the texts that it sees."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.errors import InvalidRequest
from engine.stopping.matcher import ROOT, Automaton, StopMatcher, automaton, prepared
from engine.stopping.rules import (
    MAX_ALL_STOPS_CHARS,
    MAX_STOP_TOKEN_IDS,
    Stop,
    StopRules,
    StopScope,
    checked_strings,
    checked_token_ids,
)
from tests.support.asking import ask, loaded_engine
from tests.support.scripted import Stage

LONGEST = tuple(f"{n:02}" + "x" * 1022 for n in range(64))


def test_making_one_touches_no_more_than_the_first_character_of_each() -> None:
    made = Automaton(LONGEST)
    assert len(made.rows) == 1 + len({string[0] for string in LONGEST})


def test_a_text_makes_only_the_prefixes_that_it_reaches() -> None:
    matcher = StopMatcher(tuple(f"!{string}" for string in LONGEST))
    made = matcher._automaton
    assert matcher.feed("nothing of it ! !0") == "nothing of it ! "
    assert len(made.rows) == 3
    matcher.feed("7xxxx")
    assert matcher.held == "!07xxxx"
    assert len(made.rows) == 8


def test_matchers_of_one_list_share_what_they_made_in_any_number_of_threads() -> None:
    letters = random.Random(7)
    stops = tuple("".join(letters.choices("ab", k=300)) for _ in range(40))
    texts = [stops[n][:150] + stops[-n][:200] + stops[n] for n in range(1, 20)] * 4

    def outcome(text: str) -> tuple[str, str | None]:
        matcher = StopMatcher(stops)
        shown = "".join(matcher.feed(text[at : at + 7]) for at in range(0, len(text), 7)
                        if matcher.match is None)  # fmt: skip
        return shown, matcher.match.value if matcher.match else None

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(outcome, texts))
    alone = Automaton(stops)
    for text, (shown, value) in zip(texts, found, strict=True):
        node, end = ROOT, 0
        while alone.output[node] < 0:
            known = alone.rows[node].get(text[end])
            node = alone.step(node, text[end]) if known is None and node != ROOT else known or ROOT
            end += 1
        stop = stops[alone.output[node]]
        assert (shown, value) == (text[: end - len(stop)], stop)


def test_progress_of_periodic_stops_is_exact_and_looks_at_each_list_once() -> None:
    stops = ("ab" * 500, "ba" * 500, "c" + "ab" * 400)
    matcher = StopMatcher(stops)
    matcher.feed("c" + "ab" * 300)
    assert matcher.progress == (600, 599, 601)


def test_channels_with_the_same_stops_have_one_automaton_and_others_their_own() -> None:
    everywhere = StopRules.of("A", "B", scope=StopScope.ALL)
    [only] = prepared(everywhere)
    assert only is automaton(("A", "B"))
    mixed = StopRules((Stop("A"), Stop("B", StopScope.ALL)))
    assert {made.strings for made in prepared(mixed)} == {("A", "B"), ("B",)}
    assert prepared(StopRules()) == ()


def test_an_automaton_in_use_is_found_however_many_were_made_since() -> None:
    rules = StopRules.of(*(f"{n}?" for n in range(60)))
    [held] = prepared(rules)
    for number in range(600):
        automaton((f"{number}!",))
    assert StopMatcher(rules.strings)._automaton is held


async def test_no_list_is_made_on_the_engine_thread_nor_twice_for_one_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(
        tmp_path,
        {"go": ["<think>", "hm", "</think>", "yes ", "07xx", "no", " 12", "3"]},
        plain=["<think>", "</think>"],
    )
    lists = [tuple(f"{n:02}{choice}" + "x" * 1000 for n in range(64)) for choice in "abcd"]
    made: list[tuple[tuple[str, ...], str]] = []
    real = Automaton.__init__

    def noted(self: Automaton, strings: tuple[str, ...]) -> None:
        made.append((strings, threading.current_thread().name))
        real(self, strings)

    monkeypatch.setattr(Automaton, "__init__", noted)

    async with loaded_engine(Path("scripted"), loader=stage.load) as engine:
        for stops in lists:
            for _ in range(3):  # as many choices, each with channels that begin and end
                rules = StopRules.of(*stops, scope=StopScope.ALL)
                answer = await ask(engine, "go", rules=rules)
                assert answer.text == "yes 07xxno 123"
    long = [(strings, thread) for strings, thread in made if len(strings) == 64]
    assert [strings for strings, _ in long] == lists
    assert {thread for _, thread in long} == {threading.current_thread().name}


# -- what a list may be -------------------------------------------------------------------------


def test_the_limit_of_all_characters_does_not_count_duplicates() -> None:
    assert sum(map(len, LONGEST)) == MAX_ALL_STOPS_CHARS
    assert checked_strings([*LONGEST, *LONGEST], "stop") == LONGEST
    with pytest.raises(InvalidRequest, match=r"stop: .* 65536 characters, these have 65540"):
        checked_strings([*LONGEST[:-1], LONGEST[-1] + "tail"], "stop")


def test_the_limit_of_stop_ids_is_exact() -> None:
    assert checked_token_ids([3, 1, 3]) == (3, 1)
    assert len(checked_token_ids(range(MAX_STOP_TOKEN_IDS))) == MAX_STOP_TOKEN_IDS
    with pytest.raises(InvalidRequest, match=r"token_ids: at most 16384"):
        checked_token_ids(range(MAX_STOP_TOKEN_IDS + 1))
