"""What the chat template renders, above all that a chat grows without changing what was there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

EMPTY_THOUGHT = "<think>\n\n</think>\n\n"
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather\nin a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "unit": {"enum": ["c", "f"]},
                "days": {"type": ["integer", "null"]},
                "any": True,
            },
            "required": ["city"],
        },
    },
}
CALL = {"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Köln"}}}
USER = {"role": "user", "content": "Hi"}


def rendered(tokenizer: Any, messages: Sequence[Any], **options: Any) -> str:
    options = {"add_generation_prompt": True, "enable_thinking": False, **options}
    return str(tokenizer.apply_chat_template(messages, tokenize=False, **options))


def test_with_thinking_on_the_model_writes_the_block_itself(tokenizer: Any) -> None:
    assert rendered(tokenizer, [USER], enable_thinking=True).endswith("<|im_start|>assistant\n")


def test_with_thinking_off_the_block_is_empty(tokenizer: Any) -> None:
    assert rendered(tokenizer, [USER]).endswith("<|im_start|>assistant\n" + EMPTY_THOUGHT)


def test_thinking_is_off_where_nothing_is_said(tokenizer: Any) -> None:
    raw = tokenizer._tokenizer.apply_chat_template(
        [USER], tokenize=False, add_generation_prompt=True
    )
    assert raw.endswith(EMPTY_THOUGHT)


def test_without_a_generation_prompt_the_last_turn_is_closed(tokenizer: Any) -> None:
    assert rendered(tokenizer, [USER], add_generation_prompt=False).endswith("Hi<|im_end|>\n")


@pytest.mark.parametrize("answer", ["1\n2\n3", "Hello!", "A B C", "Köln 🎉", "```python\nx\n```"])
def test_a_later_turn_begins_with_the_exact_tokens_of_the_earlier_one(
    tokenizer: Any, answer: str
) -> None:
    first = rendered(tokenizer, [USER])
    later = rendered(tokenizer, [USER, {"role": "assistant", "content": answer}, USER])
    generated = tokenizer.encode(first, add_special_tokens=False) + tokenizer.encode(
        answer + "<|im_end|>", add_special_tokens=False
    )
    assert tokenizer.encode(later, add_special_tokens=False)[: len(generated)] == generated


def test_a_tool_call_is_rendered_as_it_was_generated(tokenizer: Any) -> None:
    first = rendered(tokenizer, [USER], tools=[WEATHER])
    body = '{"name": "get_weather", "arguments": {"city": "Köln"}}'
    generated = f"<tool_call>\n{body}\n</tool_call><|im_end|>"
    history = [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "18"},
    ]
    assert rendered(tokenizer, history, tools=[WEATHER]).startswith(first + generated)


def test_arguments_may_be_json_text(tokenizer: Any) -> None:
    call = {
        "function": {
            "name": "get_weather",
            "arguments": json.dumps({"city": "Köln"}, ensure_ascii=False),
        }
    }
    as_text = [USER, {"role": "assistant", "content": "", "tool_calls": [call]}]
    as_dict = [USER, {"role": "assistant", "content": "", "tool_calls": [CALL]}]
    assert rendered(tokenizer, as_text) == rendered(tokenizer, as_dict)


def test_tool_results_in_a_row_share_a_turn(tokenizer: Any) -> None:
    results = [{"role": "tool", "content": "18"}, {"role": "tool", "content": "19"}]
    text = rendered(
        tokenizer,
        [USER, {"role": "assistant", "content": "", "tool_calls": [CALL, CALL]}, *results],
    )
    results_in_text = "<tool_response>\n18\n</tool_response>\n<tool_response>\n19\n</tool_response>"
    assert f"<|im_start|>user\n{results_in_text}<|im_end|>\n" in text


def test_a_tool_is_one_line_of_the_system_turn(tokenizer: Any) -> None:
    signature = "get_weather(city: string, unit?: c|f, days?: integer|null, any?: any)"
    line = f"\n{signature}: Get the weather in a city.\n"
    assert line in rendered(tokenizer, [USER], tools=[WEATHER])


@pytest.mark.parametrize(
    "parameters", [None, {}, {"type": "object"}, {"type": "object", "properties": {}}]
)
def test_a_tool_without_parameters_is_rendered(tokenizer: Any, parameters: Any) -> None:
    assert "\nping()\n" in rendered(
        tokenizer,
        [USER],
        tools=[{"type": "function", "function": {"name": "ping", "parameters": parameters}}],
    )


def test_leading_system_messages_are_one_turn_and_later_ones_stay_in_place(tokenizer: Any) -> None:
    system = [{"role": "system", "content": "A"}, {"role": "developer", "content": "B"}]
    text = rendered(tokenizer, [*system, USER, {"role": "system", "content": "late"}, USER])
    assert text.startswith("<|im_start|>system\nA\n\nB<|im_end|>\n<|im_start|>user\n")
    assert text.index("late") > text.index("Hi")


def test_thoughts_of_earlier_turns_are_left_out(tokenizer: Any) -> None:
    spoken = {"role": "assistant", "content": "Yes", "reasoning_content": "secret"}
    quoted = {"role": "assistant", "content": "<think>\nsecret\n</think>\n\nYes"}
    plain = {"role": "assistant", "content": "Yes"}
    for message in (spoken, quoted):
        assert rendered(tokenizer, [USER, message, USER]) == rendered(
            tokenizer, [USER, plain, USER]
        )


@pytest.mark.parametrize("thinks", [False, True])
@pytest.mark.parametrize("begun", ["1\n2", "1\n2\n", "A B ", "```"])
def test_an_answer_that_was_begun_is_continued(tokenizer: Any, begun: str, thinks: bool) -> None:
    messages = [USER, {"role": "assistant", "content": begun}]
    text = rendered(
        tokenizer,
        messages,
        add_generation_prompt=False,
        continue_final_message=True,
        enable_thinking=thinks,
    )
    assert text.endswith("<|im_start|>assistant\n" + EMPTY_THOUGHT + begun)
