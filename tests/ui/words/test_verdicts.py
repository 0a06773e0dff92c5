import pytest

from engine import AnswerContext, figures
from engine.stopping.record import Channel, StopInfo, StopKind
from engine.values.events import Finished, Timing, Usage
from engine.values.verdict import position, verdict_words
from ui.kit import icons
from ui.words import Tone, verdict

USAGE = Usage(prompt_tokens=30, cached_tokens=12, output_tokens=143)
TIMING = Timing(first_token_s=0.38, decode_s=142 / 41, total_s=4)

OWN = AnswerContext(is_own=True)


def finished(stop: StopInfo, error: str | None = None) -> Finished:
    return Finished(stop, USAGE, TIMING, error)


STOPS = {
    StopKind.EOS: StopInfo(StopKind.EOS, token_id=2, token_text="<|im_end|>", token_index=142),
    StopKind.STOP_STRING: StopInfo(
        StopKind.STOP_STRING, value="\n\nUser:", text_offset=611, token_index=142
    ),
    StopKind.STOP_TOKEN: StopInfo(StopKind.STOP_TOKEN, value=21, token_text=" x", token_index=142),
    StopKind.MAX_TOKENS: StopInfo(StopKind.MAX_TOKENS),
    StopKind.CONTEXT_FULL: StopInfo(StopKind.CONTEXT_FULL),
    StopKind.MEMORY_FULL: StopInfo(StopKind.MEMORY_FULL),
    StopKind.TOOL_CALL: StopInfo(StopKind.TOOL_CALL, channel=Channel.TOOL),
    StopKind.CANCELLED: StopInfo(StopKind.CANCELLED),
    StopKind.ERROR: StopInfo(StopKind.ERROR),
}
SENTENCES = {
    StopKind.EOS: "The model finished its answer by itself.",
    StopKind.STOP_STRING: "Your stop sequence “⏎⏎User:” ended this answer.",
    StopKind.STOP_TOKEN: "The stop token 21 (“·x”) ended this answer.",
    StopKind.MAX_TOKENS: "The answer reached its limit of 143 tokens.",
    StopKind.CONTEXT_FULL: "The conversation fills the model’s context.",
    StopKind.MEMORY_FULL: "There is no memory for more of this answer.",
    StopKind.TOOL_CALL: "The model called a tool and waits for its result.",
    StopKind.CANCELLED: "You stopped this answer.",
    StopKind.ERROR: "This answer failed.",
}


@pytest.mark.parametrize("kind", StopKind)
def test_every_kind_has_one_plain_sentence(kind: StopKind) -> None:
    assert verdict(finished(STOPS[kind]), OWN).words.sentence == SENTENCES[kind]


@pytest.mark.parametrize("kind", StopKind)
def test_every_kind_has_an_icon_that_exists(kind: StopKind) -> None:
    assert verdict(finished(STOPS[kind]), OWN).icon in icons.names()


def test_kinds_differ_in_words_and_not_only_in_color() -> None:
    words = [verdict(finished(stop), OWN).words.label for stop in STOPS.values()]
    assert len(set(words)) == len(words)


def test_the_line_under_an_answer_reads_as_designed() -> None:
    end = finished(STOPS[StopKind.STOP_STRING])
    line = " · ".join((*figures(end), verdict_words(end).label))
    assert line == "41 tok/s · 0.38 s to first token · 143 tokens · Stopped by “⏎⏎User:”"


def test_the_detail_of_a_match_says_where_and_on_which_token() -> None:
    detail = verdict(finished(STOPS[StopKind.STOP_STRING]), AnswerContext(512)).words.detail
    expected = (
        "It began after 611 characters of the answer and was complete with token 143 of at most "
        "512."
    )
    assert detail == expected


def test_a_failure_names_its_cause() -> None:
    said = verdict(finished(STOPS[StopKind.ERROR], error="out of memory"), OWN)
    assert (said.words.detail, said.tone) == ("Out of memory.", Tone.FAULT)


def test_the_limit_of_the_request_is_named() -> None:
    assert (
        verdict(finished(STOPS[StopKind.MAX_TOKENS]), AnswerContext(5)).words.label
        == "Cut off at 5 tokens"
    )


def test_an_answer_without_a_token_says_so() -> None:
    end = Finished(StopInfo(StopKind.CANCELLED), Usage(), Timing())
    assert position(end, AnswerContext(12)) == "before the first token"
