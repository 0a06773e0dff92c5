"""The format of calls of models for which mlx-lm infers no parser, by their tags and templates."""

from types import SimpleNamespace

import pytest

from engine.output.tool_calls.formats import find_format

SECTION = ["<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"]


@pytest.mark.parametrize(
    ("vocabulary", "template", "name", "start"),
    [
        (
            ["<|python_tag|>"],
            '{"name": function name, "parameters": {}}',
            "llama",
            "<|python_tag|>",
        ),
        (["<|python_tag|>"], "", "", None),  # derived from Llama
        ([], "<tool_call></tool_call>", "json_tools", "<tool_call>"),
        (["<tool_call>", "</tool_call>"], "", "", None),  # derived from Qwen
        (["<|tool_call|>", "<|/tool_call|>"], "", "json_tools", "<|tool_call|>"),
        (["<|tool_call|>"], "", "json_tools", "<|tool_call|>"),
        (["<|tool_call|>"], "<start_of_turn>", "tool_code", "```tool_code"),
        (SECTION, "dsml_token + 'tool_calls>", "dsml", "<｜DSML｜tool_calls>"),
        (SECTION, f"{SECTION} ```json", "deepseek_v3", SECTION[0]),
        (SECTION, "", "deepseek", SECTION[0]),
        (["<seed:tool_call>", "</seed:tool_call>"], "", "qwen3_coder", "<seed:tool_call>"),
    ],
)
def test_format_of_calls_follows_template_before_vocabulary(
    vocabulary: list[str], template: str, name: str, start: str | None
) -> None:
    known = dict.fromkeys(vocabulary, 0)
    tokenizer = SimpleNamespace(get_vocab=lambda: known, chat_template=template)
    assert find_format(tokenizer)[:2] == (name, start)
