"""Frames that repeat the whole answer are encoded incrementally, with exactly the same bytes."""

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from api.dialects.sglang.dialect import GenerateEncoder
from api.dialects.sglang.wire import GenerateParams
from api.dialects.shared.dialect import Head
from api.transport.answer_text import (
    GrowingJsonText,
    GrowingList,
    json_text,
    json_with,
    long_json_text,
)
from engine.stopping.record import Channel, StopInfo, StopKind
from engine.values.events import Event, Finished, TextDelta, Timing, TokenTrace, Usage
from engine.values.tokens import TokenStats
from tests.support.random_cases import cases

few = settings(max_examples=cases(20), deadline=None)
numbers = st.floats(allow_nan=False, allow_infinity=False)
likelihoods = st.builds(
    TokenStats,
    logprob=numbers,
    rank=st.just(0),
    top=st.lists(st.tuples(st.integers(0, 999), numbers), max_size=3).map(tuple),
    eos_probability=st.just(0.0),
)
texts = st.builds(TextDelta, st.text(max_size=6))
batches = st.lists(st.lists(st.one_of(texts, likelihoods), max_size=5), max_size=8)


def token(index: int, stats: TokenStats) -> TokenTrace:
    return TokenTrace(index, 7 * index, "", b"", Channel.TEXT, 0.0, 0, "", (), stats=stats)


@dataclass
class Said:
    """The answer so far, encoded anew for every frame."""

    text: str
    tokens: list[TokenTrace]

    def json(self, meta: dict[str, Any], *, has_logprobs: bool, is_batch: bool) -> str:
        described = [(one.token_id, one.stats) for one in self.tokens if one.stats is not None]
        if has_logprobs:
            meta["input_token_logprobs"] = []
            meta["output_token_logprobs"] = [[s.logprob, number, None] for number, s in described]
            meta["output_top_logprobs"] = [
                [[value, number, None] for number, value in stats.top] for _, stats in described
            ]
        ids = [one.token_id for one in self.tokens]
        answer = {"text": self.text, "output_ids": ids, "meta_info": meta}
        return json.dumps(answer | ({"index": 0} if is_batch else {}), separators=(",", ":"))


@settings(max_examples=cases(40), deadline=None)
@given(batches, st.booleans(), st.booleans())
def test_every_frame_has_the_bytes_of_the_whole_answer_encoded_at_once(
    drawn: list[list[Any]], has_logprobs: bool, is_batch: bool
) -> None:
    asked = {"text": ["Hi"] if is_batch else "Hi", "rid": "a", "return_logprob": has_logprobs}
    encoder = GenerateEncoder(GenerateParams.model_validate(asked), Head("1", 0, "m"))
    said = Said("", [])
    for batch in drawn:
        events: list[Event] = []
        for one in batch:
            events.append(token(len(said.tokens), one) if isinstance(one, TokenStats) else one)
            if isinstance(events[-1], TokenTrace):
                said.tokens.append(events[-1])
            else:
                said.text += one.text
        meta: dict[str, Any] = {
            "id": "a",
            "finish_reason": None,
            "matched_stop": None,
            "prompt_tokens": 0,
            "completion_tokens": len(said.tokens),
            "cached_tokens": 0,
        }
        expected = said.json(meta, has_logprobs=has_logprobs, is_batch=is_batch)
        frames = encoder.encode(events)
        grew = any(not isinstance(one, TextDelta) or one.text for one in events)
        assert [frame.data for frame in frames] == ([expected] if grew else [])

    count = len(said.tokens)
    end = Finished(StopInfo(StopKind.MAX_TOKENS), Usage(9, 3, count, 0), Timing(total_s=0.5))
    meta = {
        "id": "a",
        "finish_reason": {"type": "length", "length": count},
        "matched_stop": None,
        "prompt_tokens": 9,
        "completion_tokens": count,
        "cached_tokens": 3,
        "e2e_latency": 0.5,
    }
    expected = said.json(meta, has_logprobs=has_logprobs, is_batch=is_batch)
    assert [frame.data for frame in encoder.encode([end])] == [expected, "[DONE]"]


@few
@given(st.lists(st.text(alphabet=st.characters(), max_size=4), max_size=6))
def test_a_growing_text_has_the_json_of_the_whole_text(pieces: list[str]) -> None:
    growing, whole = GrowingJsonText(), ""
    for piece in pieces:
        growing.add(piece)
        whole += piece
        assert growing.json() == json_text(whole)


@few
@given(st.lists(st.lists(st.integers() | st.text(max_size=3), max_size=3), max_size=6))
def test_a_growing_list_has_the_json_of_the_whole_list(additions: list[list[Any]]) -> None:
    growing, whole = GrowingList(), list[Any]()
    for items in additions:
        growing.add(items)
        whole += items
        assert growing.json() == json_text(whole)


plain = st.none() | st.booleans() | st.integers() | numbers | st.text(max_size=5)
values = st.recursive(
    plain, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner)
)


@few
@given(values, st.integers(0, 500))
def test_a_long_answer_has_the_same_json_in_small_steps(value: Any, more: int) -> None:
    for one in (value, [value] * more, {"a": [{"b": [1.5] * more}], "c": value}):
        assert long_json_text(one) == json_text(one)


@few
@given(st.dictionaries(st.text(max_size=3), plain), st.dictionaries(st.text(max_size=3), values))
def test_encoded_values_are_put_into_their_places_in_an_object(
    rest: dict[str, Any], known: dict[str, Any]
) -> None:
    whole = rest | known
    encoded = {key: json_text(value) for key, value in known.items()}
    assert json_with(dict.fromkeys(whole) | rest, encoded) == json_text(whole)


def test_no_frame_encodes_the_content_of_earlier_frames_again(monkeypatch: Any) -> None:
    sizes: list[int] = []

    def noted(value: Any) -> str:
        encoded = json.dumps(value, separators=(",", ":"))
        sizes.append(len(encoded))
        return encoded

    monkeypatch.setattr("api.transport.answer_text.json_text", noted)
    monkeypatch.setattr("api.dialects.sglang.dialect.json_text", noted)
    asked = {"text": "Hi", "return_logprob": True, "top_logprobs_num": 20}
    encoder = GenerateEncoder(GenerateParams.model_validate(asked), Head("1", 0, "m"))
    stats = TokenStats(-0.5, 0, tuple((number, -0.5) for number in range(20)), 0.0)
    for index in range(500):
        encoder.encode([TextDelta("word "), token(index, stats)])
    assert max(sizes) < 1_000
