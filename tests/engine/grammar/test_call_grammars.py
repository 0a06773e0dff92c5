"""Each format's grammar writes calls that its reader reads, with arguments that are valid."""

import json
import random
from typing import Any

import jsonschema
import pytest

from engine.grammar.compilation import new_matcher, new_tokenizer
from engine.grammar.grammars import answer_grammar
from engine.grammar.lark_text import speller
from engine.output.families import Family
from engine.output.tool_calls.call_text import CallEnd
from engine.output.tool_calls.calls import OpenCalls, readers
from engine.output.tool_calls.formats import (
    CALL_FORMATS,
    COMMAND,
    DEEPSEEK,
    DEEPSEEK_FENCED,
    GEMMA,
    JSON_CALLS,
    KIMI,
    LLAMA,
)
from engine.values.events import ToolCallCompleted
from engine.values.request import GenerationRequest, Tool, ToolCall, ToolChoice
from tests.engine.grammar.forms import closed

VALIDATOR = jsonschema.Draft202012Validator
EOS = 256
# By a name: the style, the tags of a call, and the format's other special tokens.
FORMATS: dict[str, tuple[str, str, str | None, list[str]]] = {
    "command": (COMMAND, "<|START_ACTION|>", "<|END_ACTION|>", []),
    "deepseek": (DEEPSEEK, "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>",
                 ["<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"]),
    "deepseek_v3": (DEEPSEEK_FENCED, "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>",
                    ["<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"]),
    "dsml": ("dsml", "<｜DSML｜function_calls>", "</｜DSML｜function_calls>", []),
    "function_gemma": ("function_gemma", "<start_function_call>", "<end_function_call>",
                       ["<escape>"]),
    "gemma 3": (GEMMA, "```tool_code", "\n```", []),
    "gemma4": ("gemma4", "<|tool_call>", "<tool_call|>", ['<|"|>']),
    "glm": ("glm47", "<tool_call>", "</tool_call>",
            ["<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"]),
    "granite": (JSON_CALLS, "<|tool_call|>", None, []),
    "json": (JSON_CALLS, "<tool_call>", "</tool_call>", []),
    "kimi_k2": (KIMI, "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>",
                ["<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"]),
    "kimi_k3": ("kimi_k3", "<|open|>tools<|sep|>", "<|close|>tools<|sep|>",
                ["<|open|>", "<|sep|>", "<|close|>"]),
    "laguna": ("laguna", "<tool_call>", "</tool_call>", []),
    "lfm": ("pythonic", "<|tool_call_start|>", "<|tool_call_end|>", []),
    "llama": (LLAMA, "<|python_tag|>", None, []),
    "longcat": ("longcat", "<longcat_tool_call>", "</longcat_tool_call>", []),
    "minicpm5": ("minicpm5", "<function name=", "</function>", []),
    "minimax": ("minimax_m2", "<minimax:tool_call>", "</minimax:tool_call>", []),
    "mistral": ("mistral", "[TOOL_CALLS]", None, ["[ARGS]"]),
    "mistral nemo": ("mistral", "[TOOL_CALLS]", None, []),
    "muse_spark": ("muse_spark", "<atem:function_calls>", "</atem:function_calls>", []),
    "phi": (JSON_CALLS, "<|tool_call|>", "<|/tool_call|>", []),
    "qwen3_coder": ("qwen3_coder", "<tool_call>", "</tool_call>", []),
}  # fmt: skip
NODE = closed(v={"type": "boolean"}, k={"items": {"$ref": "#/$defs/N"}, "maxItems": 1})
SCHEMAS: dict[str, dict[str, Any]] = {
    "text": closed(a={"type": "string", "maxLength": 9}, b={"type": "string", "maxLength": 4}),
    "values": closed(
        n={"type": "integer", "minimum": 0, "maximum": 99}, is_on={"type": "boolean"},
        e={"enum": ["x", "y z"]}, c={"enum": [1, "k", True, None]}, o=closed(q={"maxLength": 3}),
        l={"type": "array", "items": {"type": "integer"}, "maxItems": 2},
    ),
    "held text": closed(
        p={"type": "string", "pattern": "^[a-c]{2}$|^z{2,3}$"},
        d={"type": "string", "format": "date"}, u={"type": "string", "format": "uuid"},
        m={"anyOf": [{"type": "string", "pattern": "^ab?$"}, {"type": "integer"}]},
    ),
    "optional": {"properties": {
        "a": {"type": "integer"}, "b": {"type": ["string", "null"], "maxLength": 3},
        "c": {"anyOf": [{"enum": ["m"]}, {"type": "integer"}, {"type": "null"}]},
    }},
    "references": {
        **closed(c={"$ref": "#/$defs/C"}, n={"$ref": "#/$defs/N"},
                 s={"allOf": [{"$ref": "#/$defs/N"}]}),
        "$defs": {"C": {"enum": ["r", "g"]}, "N": {**NODE, "type": "object"}},
    },
    "alternatives": {"type": "object", "oneOf": [
        closed(t={"const": "a"}, x={"type": "integer"}),
        closed(t={"const": "b"}, y={"type": "boolean"}),
    ]},
    "a map": {"type": "object", "additionalProperties": {"type": "integer"}},
    "nothing": {"type": "object", "properties": {}},
}  # fmt: skip


def drawn(matcher: Any, draws: random.Random, size: int) -> list[int] | None:
    """Return random tokens of a grammar, which ends where it can; None if they became too many."""
    out: list[int] = []
    while len(out) < 900 and not matcher.is_stopped():
        bits = matcher.compute_bitmask()
        able = [token for token in range(size) if bits[token >> 3] >> (token & 7) & 1]
        ends = [token for token in able if token >= EOS or token in b'"]}\n<)']
        plain = [token for token in able if 32 <= token < 127]
        token = draws.choice(ends if ends and draws.random() < 0.4 else plain or able)
        if token == EOS:
            break
        assert matcher.consume_token(token)
        out.append(token)
    return out if matcher.is_accepting() else None


def calls_in(text: str, family: Family, tool: Tool) -> list[ToolCall]:
    """Read what a model wrote, from the tag that opens a call on."""
    start, end = family.call_tags
    calls = OpenCalls(readers(family.call_style, (tool,), family.call_tags))
    body = text.removesuffix(end or "")
    calls.open(None)
    calls.add(body if family.call_style == LLAMA else body.removeprefix(start or ""))
    events = calls.close(CallEnd.TAG if end else CallEnd.EOS).events
    return [event.call for event in events if isinstance(event, ToolCallCompleted)]


def test_every_format_has_a_grammar() -> None:
    assert {style for style, *_ in FORMATS.values()} == CALL_FORMATS.keys()


@pytest.mark.parametrize("name", FORMATS)
def test_a_forced_call_is_read_with_arguments_that_are_valid(name: str) -> None:
    style, start, end, tokens = FORMATS[name]
    special = list(dict.fromkeys([start, *([end] if end else []), *tokens]))
    raw = [*(bytes([i]) for i in range(EOS)), b"<eos>", *(text.encode() for text in special)]
    places = {text: EOS + 1 + place for place, text in enumerate(special)}
    tokenizer = new_tokenizer(raw, [EOS, *places.values()], [EOS])
    family = Family(tool_start=start, tool_end=end, call_style=style)
    for schema in SCHEMAS.values():
        tool = Tool("do_it", "", schema)
        request = GenerationRequest(tools=(tool,), tool_choice=ToolChoice("required"))
        grammar, left_out = answer_grammar(request, family, speller(places))
        assert left_out == ()
        matcher = new_matcher(tokenizer, grammar)
        checks = VALIDATOR(schema, format_checker=VALIDATOR.FORMAT_CHECKER)
        for seed in range(2):
            ids = drawn(matcher.deep_copy(), random.Random(seed), len(raw))
            assert ids is not None
            text = b"".join(raw[token] for token in ids).decode()
            [call] = calls_in(text, family, tool)
            assert call.name == "do_it", text
            checks.validate(json.loads(call.arguments))
