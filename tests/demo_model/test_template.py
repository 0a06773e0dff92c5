"""What the chat template renders, above all that a chat grows without changing what was there."""

from __future__ import annotations

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
