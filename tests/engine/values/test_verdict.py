import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.stopping.record import Channel, StopInfo, StopKind
from engine.values.events import Finished, Timing, Usage
from engine.values.verdict import counted, figures, headline, quoted, sentence


def finished(stop: StopInfo, *, error: str | None = None, call: str = "") -> Finished:
    usage = Usage(prompt_tokens=20, output_tokens=5)
    timing = Timing(first_token_s=0.125, decode_s=0.2)
    return Finished(stop, usage, timing, error=error, unfinished_tool_call=call)


@pytest.mark.parametrize(
    ("stop", "said"),
    [
        (
            StopInfo(StopKind.STOP_STRING, value="6", text_offset=10),
            'Stopped by "6" after 10 characters',
        ),
        (
            StopInfo(StopKind.STOP_STRING, value="\n\nUser:", text_offset=1),
            r'Stopped by "\n\nUser:" after 1 character',
        ),
        (
            StopInfo(StopKind.STOP_STRING, value="A"),
            'Stopped by "A" before the first character',
        ),
        (
            StopInfo(StopKind.STOP_STRING, value="x", text_offset=3, channel=Channel.THINKING),
            'Stopped by "x" after 3 characters of its thinking',
        ),
        (
            StopInfo(StopKind.STOP_TOKEN, value=21, token_text="\n", text_offset=2),
            r'Stopped by token 21 ("\n") after 2 characters',
        ),
        (StopInfo(StopKind.EOS, token_text="<|im_end|>"), "Ended by itself (EOS token <|im_end|>)"),
        (StopInfo(StopKind.EOS), "Ended by itself (EOS)"),
        (StopInfo(StopKind.MAX_TOKENS), "Reached the limit of 5 tokens"),
        (StopInfo(StopKind.CONTEXT_FULL), "The context is full at 25 tokens"),
        (StopInfo(StopKind.TOOL_CALL), "Called a tool"),
        (StopInfo(StopKind.CANCELLED), "Cancelled after 5 tokens"),
    ],
)
def test_each_kind_is_said_in_one_sentence(stop: StopInfo, said: str) -> None:
    assert sentence(finished(stop)) == said


def test_a_failure_names_its_cause() -> None:
    assert sentence(finished(StopInfo(StopKind.ERROR), error="out of memory")) == (
        "Failed: out of memory"
    )


def test_a_limit_inside_a_tool_call_says_so() -> None:
    cut = finished(StopInfo(StopKind.MAX_TOKENS), call='{"name": "wea')
    assert sentence(cut) == "Reached the limit of 5 tokens in the middle of a tool call"


@pytest.mark.parametrize("kind", list(StopKind))
def test_every_kind_has_a_headline_of_its_own(kind: StopKind) -> None:
    others = {headline(StopInfo(other, value=1)) for other in StopKind if other is not kind}
    assert headline(StopInfo(kind, value=1)) not in others


def test_the_figures_are_speed_first_token_and_length() -> None:
    assert figures(finished(StopInfo(StopKind.EOS))) == (
        "20 tok/s",
        "0.12 s to first token",
        "5 tokens",
    )


def test_figures_that_do_not_exist_are_left_out() -> None:
    empty = Finished(StopInfo(StopKind.CANCELLED), Usage(), Timing())
    assert figures(empty) == ("0 tokens",)


def test_counts_have_their_nouns_form_and_separators() -> None:
    assert [counted(n, "token") for n in (0, 1, 2048)] == ["0 tokens", "1 token", "2,048 tokens"]


@given(st.text(max_size=12), st.text(max_size=12))
def test_two_different_texts_are_never_quoted_alike(one: str, other: str) -> None:
    assert (quoted(one) == quoted(other)) == (one == other)


@given(st.text())
def test_quoted_text_is_one_line_without_unseen_characters(text: str) -> None:
    assert quoted(text).isprintable()


def test_a_long_text_is_cut_where_asked() -> None:
    assert quoted("abcdef", max_chars=3) == '"abc…"'
