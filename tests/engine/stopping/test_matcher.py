import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.stopping.matcher import StopMatcher

ALL_CASES = json.loads((Path(__file__).parents[1] / "stop_cases.json").read_text(encoding="utf-8"))
# Whether a stop is kept is decided behind the matcher: see ``tests.engine.contract``.
CASES = [case for case in ALL_CASES if not case["include_stop"]]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_the_contracts_cases_hold(case: dict[str, Any]) -> None:
    matcher = StopMatcher(tuple(dict.fromkeys(case["stops"])))
    emitted = []
    for piece in case["pieces"]:
        emitted.append(matcher.feed(piece))
        if matcher.match:
            break
    if case["last_is_flush"]:
        emitted.append(matcher.flush())
    assert emitted == case["emits"]
    value = matcher.match.value if matcher.match else None
    assert value == case["value"]
    assert (case["reason"] == "stop_string") == (matcher.match is not None)


def reference(text: str, stops: tuple[str, ...]) -> tuple[str, str | None, int | None]:
    """The rules, spelled out the slow way: earliest end, then longest, then list order."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            stop = max(ending, key=len)
            return text[: end - len(stop)], stop, end - len(stop)
    return text, None, None


SHORT = st.text("abAB\n é🚀", max_size=40)
STOPS = st.lists(st.text("abAB\n é🚀", min_size=1, max_size=5), max_size=6, unique=True).map(tuple)


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[a:b] for a, b in itertools.pairwise(edges)]


@given(SHORT, STOPS, st.lists(st.integers(0, 40), max_size=12))
def test_the_result_does_not_depend_on_how_the_text_is_cut(
    text: str, stops: tuple[str, ...], cuts: list[int]
) -> None:
    matcher = StopMatcher(stops)
    out = ""
    for piece in pieces_of(text, cuts):
        out += matcher.feed(piece)
        assert len(matcher.held) < max(map(len, stops), default=1)
        if matcher.match:
            break
    else:
        out += matcher.flush()
    kept, value, offset = reference(text, stops)
    assert out == kept
    assert (matcher.match.value if matcher.match else None) == value
    assert (matcher.match.offset if matcher.match else None) == offset


@given(SHORT, STOPS, st.integers(0, 30), st.lists(st.integers(0, 40), max_size=12))
def test_a_disarmed_stop_neither_matches_nor_holds_text_back_forever(
    text: str, stops: tuple[str, ...], armed_from: int, cuts: list[int]
) -> None:
    matcher = StopMatcher(stops)
    out, seen = "", ""
    for piece in pieces_of(text, cuts):
        is_armed = len(seen) >= armed_from
        out += matcher.feed(piece, is_armed=is_armed)
        seen += piece
        if matcher.match:
            assert is_armed
            break
        sizes = [n for stop in stops for n in range(1, len(stop)) if seen.endswith(stop[:n])]
        assert len(matcher.held) == max(sizes, default=0)
    else:
        assert out + matcher.flush() == text


@given(SHORT, STOPS)
def test_progress_tells_how_far_each_stop_has_matched(text: str, stops: tuple[str, ...]) -> None:
    matcher = StopMatcher(stops)
    matcher.feed(text)
    if matcher.match is None:
        for stop, reached in zip(stops, matcher.progress, strict=True):
            sizes = [n for n in range(1, len(stop)) if text.endswith(stop[:n])]
            assert reached == max(sizes, default=0)
