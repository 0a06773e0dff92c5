"""Reads Ollama's requests: what they mean, and what is refused by name."""

from typing import Any

import pytest

from api.dialects.ollama.read import chat_from_wire, prompt_from_wire
from api.dialects.ollama.wire import (
    ChatParams,
    PromptParams,
)
from api.transport.errors import ApiError
from engine.values.chat import Message
from engine.values.request import GenerationRequest

ASK = {"model": "demo-model", "messages": [{"role": "user", "content": "Hi"}]}


def read(**fields: Any) -> GenerationRequest:
    return chat_from_wire(ChatParams.model_validate({**ASK, **fields}))[0]


def read_prompt(**fields: Any) -> GenerationRequest:
    asked = {"model": "m", "prompt": "Hi", **fields}
    return prompt_from_wire(PromptParams.model_validate(asked))[0]


def test_options_are_read() -> None:
    wanted = read(
        options={
            "stop": ["a", "b"],
            "num_predict": 7,
            "temperature": 0.5,
            "seed": 3,
            "top_k": 4,
            "top_p": 0.9,
            "min_p": 0.1,
            "repeat_penalty": 1.1,
            "num_ctx": 8192,
            "num_gpu": 1,
        }
    )

    assert wanted.stops.strings == ("a", "b")
    assert wanted.max_tokens == 7
    sampling = wanted.sampling
    assert (sampling.temperature, sampling.seed, sampling.top_k) == (0.5, 3, 4)
    assert (sampling.top_p, sampling.min_p, sampling.repetition_penalty) == (0.9, 0.1, 1.1)


@pytest.mark.parametrize("count", [None, 0, -1, -2])
def test_an_answer_without_a_limit_ends_by_itself(count: int | None) -> None:
    assert read(options={"num_predict": count}).max_tokens is None


def test_the_default_seed_of_the_reference_means_no_seed() -> None:
    assert read(options={"seed": -1}).sampling.seed is None
    assert read(options={"seed": -2}).sampling.seed == 2**64 - 2


@pytest.mark.parametrize(
    ("think", "thinking"), [(None, None), (True, True), (False, False), ("high", True)]
)
def test_thinking_is_a_switch_or_a_level(think: Any, thinking: bool | None) -> None:
    assert read(think=think).thinking is thinking


@pytest.mark.parametrize("form", [None, ""])
def test_an_answer_without_a_format_is_not_constrained(form: str | None) -> None:
    assert read(format=form).constraint is None


def test_formats_constrain_the_answer() -> None:
    free, shaped = read(format="json").constraint, read(format={"type": "array"}).constraint

    assert free is not None
    assert free.json_schema is None
    assert shaped is not None
    assert shaped.json_schema == {"type": "array"}


def test_results_are_assigned_to_the_calls_before_them() -> None:
    calls = [
        {"function": {"name": "one", "arguments": {"a": 1}}},
        {"id": "x", "function": {"name": "two", "arguments": {}}},
    ]
    wanted = read(
        messages=[
            {"role": "user", "content": "Go"},
            {"role": "assistant", "tool_calls": calls},
            {"role": "tool", "tool_name": "two", "content": "2"},
            {"role": "tool", "content": "1"},
            {"role": "tool", "content": "?"},
        ]
    )
    first, second = wanted.messages[1].tool_calls

    assert (first.name, first.arguments, second.id) == ("one", '{"a": 1}', "x")
    assert wanted.messages[2:] == (
        Message("tool", "2", tool_call_id="x", name="two"),
        Message("tool", "1", tool_call_id=first.id, name="one"),
        Message("tool", "?"),
    )


def test_a_prompt_is_a_turn_unless_it_is_raw() -> None:
    turns = read_prompt(system="Be brief.").messages

    assert turns == (Message("system", "Be brief."), Message("user", "Hi"))
    assert read_prompt(raw=True).prompt == "Hi"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"format": "xml"}, ("format",)),
        ({"format": 5}, ("format",)),
        ({"top_logprobs": 2}, ("top_logprobs",)),
        ({"options": {"stop": 5}}, ("options", "stop")),
        ({"options": {"stop": ""}}, ("options", "stop")),
        ({"options": {"mirostat": 1}}, ("options", "mirostat")),
        ({"options": {"typical_p": 0.5}}, ("options", "typical_p")),
        (
            {"messages": [{"role": "user", "content": "", "images": ["aGk="]}]},
            ("messages", 0, "images", 0),
        ),
    ],
)
def test_a_parameter_that_cannot_be_honoured_is_refused_by_name(
    fields: dict[str, Any], field: tuple[str | int, ...]
) -> None:
    with pytest.raises(ApiError) as refusal:
        read(**fields)

    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"suffix": "}"}, "suffix"),
        ({"template": "{{ .Prompt }}"}, "template"),
        ({"context": [1, 2]}, "context"),
        ({"raw": True, "system": "Be brief."}, "system"),
    ],
)
def test_the_unsupported_parameters_of_a_prompt_are_refused_by_name(
    fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(ApiError) as refusal:
        read_prompt(**fields)

    assert refusal.value.field == (field,)


@pytest.mark.parametrize(
    ("sent", "taken"),
    [
        ({"temperature": 2.5}, {"temperature": 2.5}),
        ({"temperature": -1}, {"temperature": 0.0}),
        ({"temperature": 1e300}, {"temperature": 1000.0}),
        ({"top_p": 1.5}, {"top_p": 1.0}),
        ({"top_p": -0.5}, {"top_p": None, "top_k": 1}),
        ({"min_p": 7}, {"min_p": 1.0}),
    ],
)
def test_a_number_out_of_range_becomes_the_nearest_one_in_range(
    sent: dict[str, float], taken: dict[str, float]
) -> None:
    sampling = read(options=sent).sampling

    assert {name: getattr(sampling, name) for name in taken} == taken


@pytest.mark.parametrize(
    ("think", "thinks"),
    [(True, True), (False, False), (None, None), ("low", True), ("max", True), ("none", False)],
)
def test_an_unknown_effort_of_thinking_becomes_the_nearest_known_one(
    think: object, thinks: bool | None
) -> None:
    assert read(think=think).thinking is thinks
