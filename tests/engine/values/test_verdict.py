from dataclasses import replace

import pytest

from engine.stopping.record import Channel, StopInfo, StopKind
from engine.values.events import EndDetails, Finished, Timing, Usage
from engine.values.request import LimitSource
from engine.values.verdict import AnswerContext, sentence, steps, verdict_text


def finished(stop: StopInfo, *, error: str | None = None, call: str = "") -> Finished:
    usage = Usage(prompt_tokens=20, output_tokens=5)
    timing = Timing(first_token_s=0.125, decode_s=0.2)
    return Finished(stop, usage, timing, error=error, unfinished_tool_call=call)


@pytest.mark.parametrize(
    ("stop", "said"),
    [
        (
            StopInfo(StopKind.STOP_STRING, value="6", text_offset=10),
            "Stopped by “6” after 10 characters",
        ),
        (
            StopInfo(StopKind.STOP_STRING, value="\n\nUser:", text_offset=1),
            "Stopped by “⏎⏎User:” after 1 character",
        ),
        (
            StopInfo(StopKind.STOP_STRING, value="A"),
            "Stopped by “A” before the first character",
        ),
        (
            StopInfo(StopKind.STOP_STRING, value="x", text_offset=3, channel=Channel.THINKING),
            "Stopped by “x” after 3 characters of its thinking",
        ),
        (
            StopInfo(StopKind.STOP_TOKEN, value=21, token_text="\n", text_offset=2),
            "Stopped by token 21 (“⏎”) after 2 characters",
        ),
        (StopInfo(StopKind.EOS, token_text="<|im_end|>"), "Ended by itself (EOS token <|im_end|>)"),
        (StopInfo(StopKind.EOS), "Ended by itself (EOS)"),
        (StopInfo(StopKind.MAX_TOKENS), "Reached the limit of 5 tokens"),
        (StopInfo(StopKind.CONTEXT_FULL), "The context is full at 25 tokens"),
        (StopInfo(StopKind.MEMORY_FULL), "Memory is full at 25 tokens"),
        (StopInfo(StopKind.TOOL_CALL), "Ended with a tool call"),
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


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (LimitSource.REQUEST, "the request"),
        (LimitSource.TOOL, "the client’s tool"),
        (LimitSource.SETTINGS, "the conversation settings"),
        (LimitSource.PRESET, "the preset “Short”"),
        (LimitSource.COMMAND, "an option of the command"),
        (LimitSource.SERVER, "the server’s default"),
        (LimitSource.API, "the API’s default"),
    ],
)
def test_verdict_of_a_limit_says_who_set_it(source: LimitSource, name: str) -> None:
    details = EndDetails(source, preset="Short")
    end = replace(finished(StopInfo(StopKind.MAX_TOKENS)), details=details)
    verdict = verdict_text(end, AnswerContext(is_own=True))
    assert verdict.line == f"Reached the limit of 5 tokens, set by {name}"
    assert verdict.detail.startswith(f"The limit was set by {name}.")
    can_be_raised = source is LimitSource.SETTINGS
    assert ("Raise it there" in verdict.detail) == can_be_raised
    in_settings = "Raise the limit in Settings"
    assert (in_settings in verdict.detail) == (source is LimitSource.PRESET)
    in_call = replace(end, unfinished_tool_call="{")
    assert sentence(in_call) == (
        f"Reached the limit of 5 tokens, set by {name}, in the middle of a tool call"
    )


def test_verdict_of_a_full_context_says_who_set_the_limit() -> None:
    full = replace(finished(StopInfo(StopKind.CONTEXT_FULL)), details=EndDetails(LimitSource.MODEL))
    assert "The limit was set by the model’s files." in verdict_text(full).detail


@pytest.mark.parametrize("kind", [StopKind.EOS, StopKind.STOP_STRING])
def test_verdict_names_a_call_that_stands_in_the_thinking_alone(kind: StopKind) -> None:
    value = "END" if kind is StopKind.STOP_STRING else None
    details = EndDetails(planned_call="look")
    end = replace(finished(StopInfo(kind, value=value)), details=details)
    verdict = verdict_text(end)
    missed = "t wrote a call of look in its thinking and did not make it"
    assert verdict.line.endswith(f"; i{missed}")
    assert verdict.detail.endswith(f"I{missed}.")
    assert f"I{missed}." in steps(end)


def test_full_memory_is_told_beside_the_models_own_context() -> None:
    full = replace(finished(StopInfo(StopKind.MEMORY_FULL)), context_length=32_768)
    said = verdict_text(full)
    assert said.detail.startswith(
        "Prompt and answer came to 25 tokens; the model’s context holds 32,768. Unload other models"
    )
    assert "context is full" not in f"{said.line} {said.sentence}"
