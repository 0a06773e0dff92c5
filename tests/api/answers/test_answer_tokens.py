"""The tokens of an answer, put together, are its text, whatever was held back or cut."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from api.dialects.openai.write import answer_tokens, token_text
from engine.output.answer import AnswerBuilder, AnswerSetup, DecodingContext, traced
from engine.output.detokenizer import ByteDetokenizer
from engine.output.families import TagFamily
from engine.output.vocabulary import Vocabulary
from engine.stopping.rules import StopRules
from engine.values.events import Event, TextDelta
from engine.values.tokens import TokenSpan
from tests.support.random_cases import cases

EOS = "<eos>"


TAGS = TagFamily(think_start="<think>", think_end="</think>")


def played(pieces: list[bytes], rules: StopRules, tags: TagFamily) -> list[list[Event]]:
    """Return, token by token, what the engine's own pipeline makes of pieces that end in EOS."""
    vocabulary = Vocabulary(
        raw=[*pieces, EOS.encode()],
        text=[_whole(piece) for piece in pieces] + [EOS],
        special={len(pieces): EOS},
        eos=frozenset({len(pieces)}),
        strips_first_space=False,
        size=len(pieces) + 1,
    )
    setup = AnswerSetup(
        setting=DecodingContext(family=tags, context_budget=10_000),
        rules=rules,
        max_tokens=None,
        vocabulary=vocabulary,
        detokenizer=ByteDetokenizer(vocabulary),
        reports_spans=True,
    )
    builder = AnswerBuilder(setup)
    steps: list[list[Event]] = []
    for token_id in range(len(pieces) + 1):
        stop = traced(builder, token_id, 0.0, None)
        steps.append(list(builder.events))
        builder.events.clear()
        if stop is not None:
            break
    return steps


def _whole(piece: bytes) -> str | None:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return None


def text_of(steps: list[list[Event]]) -> str:
    return "".join(event.text for step in steps for event in step if isinstance(event, TextDelta))


def cut(draw: st.DrawFn, raw: bytes) -> list[bytes]:
    places = sorted(draw(st.sets(st.integers(1, max(len(raw) - 1, 1)), max_size=12)))
    ends = [0, *(place for place in places if place < len(raw)), len(raw)]
    return [raw[start:end] for start, end in itertools.pairwise(ends) if start < end]


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[bytes], StopRules]:
    """Text with thinking, half characters and pieces of stops, cut into tokens at random."""
    parts = st.sampled_from(["a", "b ", "EN", "END", "D", "é", "👋", " ", "\n", "<"])
    thinking = draw(st.sampled_from([(), ("<think>", "a END b", "</think>", "\n\n")]))
    raw = "".join(draw(st.lists(parts, max_size=8))).encode()
    raw = raw[: max(len(raw) - draw(st.integers(0, 2)), 0)]
    stops = draw(st.sampled_from([(), ("END",), ("END", "b é"), ("👋",), ("a", "NDa")]))
    parts_of_all = [*(one.encode() for one in thinking), raw]
    pieces = [piece for part in parts_of_all for piece in cut(draw, part)]
    return pieces, StopRules.of(*stops, include_stop=draw(st.booleans()))


@settings(max_examples=cases(60), deadline=None)
@given(runs())
def test_the_tokens_of_an_answer_are_its_text(run: tuple[list[bytes], StopRules]) -> None:
    steps = played(*run, TAGS)
    tokens = answer_tokens(event for step in steps for event in step)

    assert "".join(token.text for token in tokens) == text_of(steps)
    spelled = b"".join(token.raw for token in tokens)
    assert spelled.decode("utf-8", "replace") == text_of(steps)


def entries(*pieces: bytes, stops: tuple[str, ...] = ()) -> list[TokenSpan]:
    steps = played(list(pieces), StopRules.of(*stops), TAGS)
    return answer_tokens(event for step in steps for event in step)


def test_a_token_that_a_stop_cuts_in_two_is_reported_up_to_the_stop() -> None:
    assert [token.text for token in entries(b"one", b" twoEN", b"D three", stops=("END",))] == [
        "one",
        " two",
    ]


def test_half_characters_are_reported_as_bytes() -> None:
    tokens = entries("👋".encode()[:2], "👋".encode()[2:], b"!")

    assert [token_text(token.raw) for token in tokens] == [
        "bytes:\\xf0\\x9f",
        "bytes:\\x91\\x8b",
        "!",
    ]
    assert [token.text for token in tokens] == ["", "👋", "!"]


def test_tags_and_thinking_are_not_reported() -> None:
    pieces = (b"<th", b"ink>", b"hm", b"</thi", b"nk>", b"\n\n", b"yes")

    assert [token.text for token in entries(*pieces)] == ["yes"]
