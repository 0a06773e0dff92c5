"""Each token's entry says which part of which channel's text the token stands for."""

import itertools
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.stopping.record import Channel, StopKind
from engine.stopping.rules import StopRules
from engine.values.events import Event, Finished, TextDelta, ThinkingDelta, TokenTrace
from engine.values.request import TraceLevel
from engine.values.tokens import TokenSpan
from tests.api.answers.test_answer_tokens import TAGS, played
from tests.support.asking import loaded_engine, request
from tests.support.random_cases import cases
from tests.support.scripted import Stage


def spans_of(events: list[Event]) -> list[TokenSpan]:
    return [
        span
        for event in events
        if isinstance(event, (TokenTrace, Finished))
        for span in event.settled
    ]


def text_of(events: list[Event], kind: type[TextDelta] | type[ThinkingDelta]) -> str:
    return "".join(event.text for event in events if isinstance(event, kind))


def assert_spans_cover(events: list[Event]) -> None:
    """Every character of each channel's text is in exactly one span, in its place."""
    texts = {Channel.TEXT: TextDelta, Channel.THINKING: ThinkingDelta}
    for channel, kind in texts.items():
        text = text_of(events, kind)
        spans = [span for span in spans_of(events) if span.channel is channel]
        assert "".join(span.text for span in spans) == text
        assert all(text[span.start : span.end] == span.text for span in spans)
        assert [span.start for span in spans] == sorted(span.start for span in spans)


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[bytes], StopRules]:
    """Text with thinking, half characters and pieces of stops, cut into tokens at random."""
    parts = st.sampled_from(["a", "b ", "EN", "END", "D", "é", "👋", " ", "\n", "<"])
    thinking = draw(st.sampled_from([(), ("<think>", "a END b", "</think>", "\n\n")]))
    raw = "".join(draw(st.lists(parts, max_size=8))).encode()
    raw = raw[: max(len(raw) - draw(st.integers(0, 2)), 0)]
    stops = draw(st.sampled_from([(), ("END",), ("END", "b é"), ("👋",), ("a", "NDa")]))
    pieces: list[bytes] = []
    for part in (*(one.encode() for one in thinking), raw):
        offsets = draw(st.sets(st.integers(1, max(len(part) - 1, 1)), max_size=12))
        ends = [0, *sorted(offset for offset in offsets if offset < len(part)), len(part)]
        pieces += [part[start:end] for start, end in itertools.pairwise(ends) if start < end]
    return pieces, StopRules.of(*stops, include_stop=draw(st.booleans()))


@settings(max_examples=cases(100), deadline=None)
@given(runs())
def test_every_span_is_the_part_of_its_channel_that_it_names(
    one: tuple[list[bytes], StopRules],
) -> None:
    assert_spans_cover([event for step in played(*one, TAGS) for event in step])


async def test_text_that_a_cancel_releases_has_its_spans(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["one ", "EN", *["x"] * 2000]}, pieces=["one ", "EN"])
    events: list[Event] = []
    async with loaded_engine(tmp_path, loader=stage.load) as engine:
        # "ENx…" is a stop that never completes, so that all of it is held until the cancel.
        asked = request("go", "EN" + "x" * 3000, trace=TraceLevel.FULL)
        generation = await engine.generate(asked)
        async for event in generation.events():
            events.append(event)
            if isinstance(event, TokenTrace) and event.index == 1:
                generation.cancel()
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.stop.kind is StopKind.CANCELLED
    assert finished.settled, "the held text went out without a trace"
    assert_spans_cover(events)
