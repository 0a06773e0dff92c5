"""The tokens of an answer, put together, are its text, whatever was held back or cut."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.dialects.openai.write import answer_tokens, token_text
from engine.engine import Engine
from engine.output.answer import AnswerBuilder, AnswerSetup, RunSetting, traced
from engine.output.families import TagFamily
from engine.output.vocabulary import ByteDetokenizer, Vocabulary
from engine.stopping.rules import StopRules
from engine.values.events import Event, TextDelta
from engine.values.request import TraceLevel
from engine.values.tokens import TokenSpan
from tests.support.asking import events_of, run
from tests.support.models.formats import tool_template
from tests.support.random_cases import cases
from tests.support.scripted import Stage

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
        setting=RunSetting(family=tags, context_room=10_000),
        rules=rules,
        max_tokens=None,
        vocabulary=vocabulary,
        detokenizer=ByteDetokenizer(vocabulary),
        tells_spans=True,
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


@settings(max_examples=cases(40), deadline=None)
@given(runs())
def test_tokens_come_in_order_and_never_before_their_text(
    run: tuple[list[bytes], StopRules],
) -> None:
    text = told = ""
    indexes: list[int] = []
    for step in played(*run, TAGS):
        for event in step:
            if isinstance(event, TextDelta):
                text += event.text
        tokens = answer_tokens(step)
        told += "".join(token.text for token in tokens)
        indexes += [token.index for token in tokens]
        assert text.startswith(told)
    assert indexes == sorted(set(indexes))


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


def spoken(stage: Stage, rules: StopRules) -> tuple[str, list[TokenSpan]]:
    """Return the text of a scripted answer, and its tokens."""

    async def play() -> list[Event]:
        engine = Engine(loader=stage.load)
        try:
            await engine.load(stage.folder)
            return await events_of(engine, "go", rules=rules, trace=TraceLevel.FULL)
        finally:
            await engine.aclose()

    events = run(play())
    return text_of([events]), answer_tokens(events)


@pytest.mark.parametrize("by_id", [True, False])
def test_a_special_stop_that_is_kept_has_its_entry(tmp_path: Path, by_id: bool) -> None:
    stage = Stage(tmp_path, {"go": ["one", " E", "<|odd|>", "x"]}, special=["<|odd|>"])
    ids = (stage.id("<|odd|>"),) if by_id else ()
    strings = ("END",) if by_id else ("END", "<|odd|>")
    text, tokens = spoken(stage, StopRules.of(*strings, token_ids=ids, include_stop=True))

    assert text == "one E<|odd|>"
    assert [(token.text, token.raw) for token in tokens] == [
        ("one", b"one"),
        (" E", b" E"),
        ("<|odd|>", b"<|odd|>"),
    ]


def test_a_call_that_became_text_has_an_entry_for_each_token(tmp_path: Path) -> None:
    tags = ["<tool_call>", "</tool_call>"]
    script = ["so ", "<tool_call>", "{bro", "ken", "</tool_call>", " END"]
    template = tool_template("<tool_call> tool_call.name")
    stage = Stage(tmp_path, {"go": script}, special=tags, template=template)
    text, tokens = spoken(stage, StopRules.of("END"))

    assert text == "so {broken "
    assert [token.text for token in tokens] == ["so ", "{bro", "ken", " "]


def test_no_entry_keeps_bytes_of_a_stop_that_was_dropped(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["a", "b"]}, pieces=["a", "b"])
    rocket = stage.ids("🚀")
    stage.scripts["go"] = [stage.id("a"), *rocket, stage.id("b")]
    for rules, wanted in (
        (StopRules.of("🚀"), [b"a"]),
        (StopRules(token_ids=(rocket[2],)), [b"a", "🚀".encode()[:1], "🚀".encode()[1:2]]),
        (StopRules.of("🚀", include_stop=True), [b"a", *(bytes([n]) for n in "🚀".encode())]),
    ):
        text, tokens = spoken(stage, rules)
        assert [token.raw for token in tokens] == wanted
        assert "".join(token.text for token in tokens) == text
