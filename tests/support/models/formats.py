"""How real families of models write reasoning, messages and calls of tools."""

from typing import Any

from engine.values.request import Tool
from tests.support.scripted import TEMPLATE

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
ADD = Tool("add", "Adds.", SCHEMA)

HARMONY: dict[str, Any] = {
    "special": [
        "<|channel|>", "<|message|>", "<|return|>", "<|call|>", "<|constrain|>",
    ],
    "eos": "<|return|>",
    "template": (
        "{% for m in messages %}<|start|>{{ m.role }}:<|message|>user:{{ m.content }}<|end|>"
        "{% endfor %}{% if add_generation_prompt %}<|start|>assistant<|go|>{% endif %}"
    ),
}  # fmt: skip
ANALYSIS = ["<|channel|>", "analysis", "<|message|>", "think END", "<|end|>"]
FINAL = ["<|start|>", "assistant", "<|channel|>", "final", "<|message|>"]
CALL = [
    "<|start|>", "assistant", "<|channel|>", "commentary", " to=functions.get_weather ",
    "<|constrain|>", "json", "<|message|>", '{"city":', '"Paris"}', "<|call|>",
]  # fmt: skip


def tool_template(marker: str) -> str:
    # mlx-lm tells the format of calls from words in the template.
    return TEMPLATE + "{# " + marker + " #}"


DEEPSEEK_TAGS = [
    "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
]  # fmt: skip
FORMATS = {
    "json": (
        ["<tool_call>", "</tool_call>"],
        "<tool_call> tool_call.name",
        ["<tool_call>", '{"name": "add", "arguments": {"a": 1, "b": "x"}}', "</tool_call>"],
    ),
    "pythonic": (
        ["<|tool_call_start|>", "<|tool_call_end|>"],
        "<|tool_call_start|>",
        ["<|tool_call_start|>", '[add(a=1, b="x")]', "<|tool_call_end|>"],
    ),
    "xml": (
        ["<tool_call>", "</tool_call>"],
        "<tool_call>\\n<function=",
        [
            "<tool_call>",
            "\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\nx\n</parameter>\n",
            "</function>\n",
            "</tool_call>",
        ],
    ),
    "open-ended": (
        ["[TOOL_CALLS]", "[ARGS]"],
        "[TOOL_CALLS]",
        ["[TOOL_CALLS]", "add", "[ARGS]", '{"a": 1, "b": "x"}'],
    ),
    "deepseek": (
        DEEPSEEK_TAGS,
        "",
        [
            "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "function", "<｜tool▁sep｜>", "add",
            "\n```json\n", '{"a": 1, "b": "x"}', "\n```", "<｜tool▁call▁end｜>",
            "<｜tool▁calls▁end｜>",
        ],
    ),
    "deepseek-short": (
        DEEPSEEK_TAGS,
        "",
        [
            "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "add", "<｜tool▁sep｜>",
            '{"a": 1, "b": "x"}', "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>",
        ],
    ),
    "phi": (
        ["<|tool_call|>", "<|/tool_call|>"],
        "",
        ["<|tool_call|>", '[{"name": "add", "arguments": {"a": 1, "b": "x"}}]', "<|/tool_call|>"],
    ),
    "granite": (
        ["<|tool_call|>"],
        "",
        ["<|tool_call|>", '[{"name": "add", "arguments": {"a": 1, "b": "x"}}]'],
    ),
    "nemotron": (
        ["<TOOLCALL>", "</TOOLCALL>"],
        "",
        ["<TOOLCALL>", '[{"name": "add", "arguments": {"a": 1, "b": "x"}}]', "</TOOLCALL>"],
    ),
    "smollm": (
        ["<tool_call>", "</tool_call>"],
        "<tool_call></tool_call>",
        ["<tool_call>", '\n{"name": "add", "arguments": {"a": 1, "b": "x"}}\n', "</tool_call>"],
    ),
    "seed": (
        ["<seed:tool_call>", "</seed:tool_call>"],
        "",
        [
            "<seed:tool_call>",
            "\n<function=add>\n<parameter=a>1</parameter>\n<parameter=b>x</parameter>\n</function>\n",
            "</seed:tool_call>",
        ],
    ),
    "dsml": (
        ["｜DSML｜"],
        "dsml_token + 'function_calls>",
        [
            "<", "｜DSML｜", "function_calls>", "\n<", "｜DSML｜", 'invoke name="add">\n', "<",
            "｜DSML｜", 'parameter name="a" string="false">1</', "｜DSML｜", "parameter>\n<",
            "｜DSML｜", 'parameter name="b" string="true">x</', "｜DSML｜", "parameter>\n", "</",
            "｜DSML｜", "invoke>\n", "</", "｜DSML｜", "function_calls>",
        ],
    ),
    "minimax": (
        ["<minimax:tool_call>", "</minimax:tool_call>"],
        "<minimax:tool_call>",
        [
            "<minimax:tool_call>",
            '\n<invoke name="add">\n<parameter name="a">1</parameter>\n<parameter name="b">x',
            "</parameter>\n</invoke>\n",
            "</minimax:tool_call>",
        ],
    ),
    "command": (
        ["<|START_ACTION|>", "<|END_ACTION|>"],
        "",
        [
            "<|START_ACTION|>",
            '[{"tool_call_id": "0", "tool_name": "add", "parameters": {"a": 1, "b": "x"}}]',
            "<|END_ACTION|>",
        ],
    ),
}  # fmt: skip
