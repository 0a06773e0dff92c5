"""The formats of tool calls, one object each: reading and the grammars of forced calls share them.

Their names are those of mlx-lm's parsers, or ours where it has none. Pure; any thread.
"""

import re
from dataclasses import dataclass, replace
from typing import Any

from engine.output.bare_calls import BARE_NAME, JSON_OBJECT, PYTHON_LIST, BareCalls

NAME_MARK = "NAME"
"""Stands for the tool's name, as a JSON string, in ``CallFormat.object_head``."""

COMMAND = "command"
DEEPSEEK = "deepseek"
DEEPSEEK_FENCED = "deepseek_v3"
GEMMA = "tool_code"
JSON_CALLS = "json_tools"
KIMI = "kimi_k2"
LLAMA = "llama"

TAG_NAME = re.compile(r"[^\s<>\"'={}]+")
"""Matches a name that stands in a tag."""

CallTags = tuple[str, str | None, tuple[str, ...]]
"""The tags around calls, and texts of the templates of models that write the calls between them.

Without such texts, a model writes them if its vocabulary or its template has the tags.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFormat:
    """Calls that are a JSON object with the name and the arguments, or a list of such objects.

    Attributes:
        names: What the name of a tool must match; None for any name.
        parameter_names: What the name of a parameter must match, where it stands without quotes.
        value_end: The text behind the value of a parameter.
        between: The text between two parameters.
        quote: The mark on both sides of texts, without which keys and texts are as in JSON.
        tags: The tags of models for which mlx-lm infers no parser.
        bare: How calls begin that need no tag; None if each has one.
        example: The form of a call, for models whose templates have no place for tools.
        object_tag: The tag behind which a forced call is one object; behind others it is in a list.
        object_head: What a call begins with, up to its arguments.
        list_space: White space in a list of calls, in Lark.
    """

    names: re.Pattern[str] | None = None
    parameter_names: re.Pattern[str] = TAG_NAME
    value_end: str = ""
    between: str = ""
    quote: str = ""
    tags: tuple[CallTags, ...] = ()
    bare: BareCalls | None = None
    example: str = ""
    object_tag: str = ""
    object_head: str = f'{{"name": {NAME_MARK}, "arguments": '
    list_space: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonCalls(CallFormat):
    """Calls that are Python, with the texts before and behind a list of them: ``[f(a=1), g()]``."""

    names: re.Pattern[str] | None = BARE_NAME
    parameter_names: re.Pattern[str] = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
    between: str = ", "
    edges: tuple[str, str] = ("[", "]")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadedCalls(CallFormat):
    """Calls that are a head with the name, and arguments in one object.

    A call is ``call[0] prefix name suffix call[1] {…} call_end``.

    Attributes:
        call: The texts before the name and behind it.
        call_end: The text behind a call.
        prefix: A text before the name that may be left out.
        suffix: What stands behind the name: the number or the id of the call.
        number: The suffix of a forced call, in Lark.
        fence: The beginning of a fence in which the arguments may be, with the name before it.
        is_fenced: Whether a forced call has that fence.
        is_section: Whether ``call`` is required, and other text may follow the last call.
        has_json: Whether calls may be JSON objects instead.
    """

    names: re.Pattern[str] | None = BARE_NAME
    call: tuple[str, str] = ("", "")
    call_end: str = ""
    prefix: str = ""
    suffix: re.Pattern[str] = re.compile(r"(?!)")
    number: str = ""
    fence: str = ""
    is_fenced: bool = False
    is_section: bool = False
    has_json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedCalls(CallFormat):
    """Calls whose parameters stand between tags.

    Where the texts of a format are written one behind another, a call is ``call[0] name call[1]``,
    then for each parameter ``parameter[0] name parameter[1] value_start value value_end``, and
    ``call_end``.

    Attributes:
        call: The texts before and behind the name of the tool; empty where none stands there.
        parameter: The texts before and behind the name of a parameter.
        call_end: The end of a call; empty where a call ends with its text.
        value_start: The text before a value; empty where the name's closing text is that.
        call_name: The attribute that names the tool; empty where the name stands alone.
        parameter_name: The attribute that names a parameter; empty where the name stands alone.
        value_marks: The attributes of parameters whose value is text, and of others, whose value is
            JSON. Empty where the tool's schema decides.
        json: The texts that begin and end arguments in one JSON object, instead of parameters;
            empty where the format has no such.
        has_line_ends: Whether a value stands on lines of its own, between line ends that are no
            part of it.
        has_cdata: Whether a value may stand in ``<![CDATA[…]]>``.
    """

    names: re.Pattern[str] | None = TAG_NAME
    call: tuple[str, str] = ("", "")
    parameter: tuple[str, str]
    call_end: str = ""
    value_start: str = ""
    call_name: str = ""
    parameter_name: str = ""
    value_marks: tuple[str, str] = ("", "")
    json: tuple[str, str] = ("", "")
    has_line_ends: bool = False
    has_cdata: bool = False

    def opening(self, name: str) -> str:
        before, behind = self.call
        if self.call_name:
            return f'{before} {self.call_name}="{name}"{behind}'
        return before + name + behind


_GLM = TaggedCalls(
    parameter=("<arg_key>", "</arg_key>"),
    value_start="<arg_value>",
    value_end="</arg_value>",
)
_GEMMA_CALLS = HeadedCalls(call=("call:", ""), between=",", parameter_names=re.compile(r"\w+"))
_DEEPSEEK_TAGS = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
_DEEPSEEK = HeadedCalls(
    tags=((*_DEEPSEEK_TAGS, ()),),
    call=("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"),
    call_end="<｜tool▁call▁end｜>",
    fence="```json",
    is_section=True,
)

# The first one whose tags a model has is its format. A template counts before a vocabulary: models
# that derive from Llama 3.1 and Qwen have the tokens only.
CALL_FORMATS: dict[str, CallFormat] = {
    # Llama 3.1 to 3.3, whose templates ask for the format in these words.
    LLAMA: CallFormat(
        names=BARE_NAME,
        tags=(("<|python_tag|>", None, ('{"name": function name, "parameters": ',)),),
        bare=JSON_OBJECT,
        object_head=f'{{"name": {NAME_MARK}, "parameters": ',
    ),
    JSON_CALLS: CallFormat(
        tags=(
            ("<tool_call>", "</tool_call>", ("</tool_call>",)),  # SmolLM3
            ("<|tool_call|>", "<|/tool_call|>", ()),  # Phi-4-mini
            ("<|tool_call|>", None, ()),  # Granite 3
            ("<TOOLCALL>", "</TOOLCALL>", ()),  # Nemotron Nano
        ),
        object_tag="<tool_call>",
        example="""
<tool_call>
{"name": "function", "arguments": {"argument": "value"}}
</tool_call>""",
    ),
    # Gemma 3: Python in a fence, or a list of calls and nothing else. Its template has no place for
    # tools: a prompt that tells of them asks for one of these ways. A string in the code may
    # contain the fence, but not at the beginning of a line.
    GEMMA: PythonCalls(
        tags=(("```tool_code", "\n```", ("<start_of_turn>",)),),
        bare=PYTHON_LIST,
        example="\n```tool_code\nfunction(argument=value)\n```",
        edges=("\n", ""),
    ),
    # DeepSeek V3.2 and V4, whose vocabulary still has the tags of V3.1.
    "dsml": TaggedCalls(
        tags=(
            ("<｜DSML｜function_calls>", "</｜DSML｜function_calls>",
             ("dsml_token + 'function_calls>",)),
            ("<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>", ("dsml_token + 'tool_calls>",)),
        ),
        call=("<｜DSML｜invoke", ">"), parameter=("<｜DSML｜parameter", ">"),
        value_end="</｜DSML｜parameter>", call_end="</｜DSML｜invoke>", call_name="name",
        parameter_name="name", value_marks=('string="true"', 'string="false"'),
    ),
    # DeepSeek V3 and R1: ``function<｜tool▁sep｜>f`` and a fence. V3.1: ``f<｜tool▁sep｜>{…}``.
    DEEPSEEK_FENCED: replace(
        _DEEPSEEK, is_fenced=True, tags=((*_DEEPSEEK_TAGS, (*_DEEPSEEK_TAGS, "```json")),),
    ),
    DEEPSEEK: _DEEPSEEK,
    # ``functions.f:0``. Kimi K2's first template does not name the tags.
    KIMI: HeadedCalls(
        tags=(("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", ()),),
        call=("<|tool_call_begin|>", "<|tool_call_argument_begin|>"), call_end="<|tool_call_end|>",
        prefix="functions.", suffix=re.compile(r":\d+$"), number="/:[0-9]{1,4}/", is_section=True,
    ),
    # Command R7B and A.
    COMMAND: CallFormat(
        tags=(("<|START_ACTION|>", "<|END_ACTION|>", ()),),
        object_head=f'{{"tool_call_id": "0", "tool_name": {NAME_MARK}, "parameters": ',
        list_space="/[ \\n]{0,8}/",
    ),
    "qwen3_coder": TaggedCalls(
        tags=(("<seed:tool_call>", "</seed:tool_call>", ()),),  # Seed-OSS
        call=("<function=", ">"), parameter=("<parameter=", ">"), value_end="</parameter>",
        call_end="</function>", has_line_ends=True,
    ),
    "function_gemma": replace(_GEMMA_CALLS, quote="<escape>"),
    "gemma4": replace(_GEMMA_CALLS, quote='<|"|>'),
    # ``f[ARGS]{…}``, perhaps with an id, or a list of JSON objects.
    "mistral": HeadedCalls(
        call=("", "[ARGS]"), suffix=re.compile(r"\[CALL_ID\][^\[\]]*$"), has_json=True,
    ),
    "pythonic": PythonCalls(),  # LFM2
    "glm47": _GLM,
    "laguna": _GLM,
    "longcat": TaggedCalls(
        parameter=("<longcat_arg_key>", "</longcat_arg_key>"),
        value_start="<longcat_arg_value>", value_end="</longcat_arg_value>",
    ),
    "minimax_m2": TaggedCalls(
        call=("<invoke", ">"), parameter=("<parameter", ">"), value_end="</parameter>",
        call_end="</invoke>", call_name="name", parameter_name="name",
    ),
    # The tag that opens the call ends before the name.
    "minicpm5": TaggedCalls(
        call=("", ">"), parameter=("<param", ">"), value_end="</param>", parameter_name="name",
        has_cdata=True,
    ),
    "muse_spark": TaggedCalls(
        call=("<atem:invoke", ">"), parameter=("<atem:parameter", ">"),
        value_end="</atem:parameter>", call_end="</atem:invoke>", call_name="name",
        parameter_name="name",
    ),
    "kimi_k3": TaggedCalls(
        call=("<|open|>call", "<|sep|>"), parameter=("<|open|>argument", "<|sep|>"),
        value_end="<|close|>argument<|sep|>", call_end="<|close|>call<|sep|>", call_name="tool",
        parameter_name="key", value_marks=('type="string"', 'type="json"'),
        json=("<|open|>json", "<|close|>json<|sep|>"),
    ),
}  # fmt: skip
"""The formats by their names."""


def find_format(tokenizer: Any) -> tuple[str, str | None, str | None]:
    """Return the name of the format of a model's calls and its tags; nothing where it has none."""
    vocabulary, template = tokenizer.get_vocab(), str(tokenizer.chat_template)
    found = [(name, *tags) for name, form in CALL_FORMATS.items() for tags in form.tags]
    for name, start, end, texts in sorted(found, key=lambda one: not one[-1]):
        written = (text in template for text in texts)
        known = (not tag or tag in vocabulary or tag in template for tag in (start, end))
        if all(written if texts else known):
            return name, start, end
    return "", None, None
