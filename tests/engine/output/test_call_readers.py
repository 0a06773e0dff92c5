"""Calls of every format, as models write them and miswrite them, streamed and whole."""

import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.output.tool_calls.call_text import CallEnd
from engine.output.tool_calls.calls import OpenCalls, readers
from engine.output.tool_calls.formats import CALL_FORMATS
from engine.values.events import (
    Event,
    ToolCallAbandoned,
    ToolCallArguments,
    ToolCallCompleted,
    ToolCallStarted,
)
from engine.values.request import Tool
from tests.support.random_cases import cases

TYPES = {"city": "string", "days": "integer", "near": "array", "more": "object", "on": "boolean"}
TOOLS = (
    Tool("weather", "", {"properties": {key: {"type": kind} for key, kind in TYPES.items()}}),
    Tool("get_time", "", {"properties": {}}),
)
PLAIN = st.text("ab \n,:=\"'é🚀(){}[]\\<>&/null", max_size=12)
DSML = "｜DSML｜"
OPEN, CLOSE = "<tool_call>", "</tool_call>"

Calls = list[tuple[str, str]]


def read(
    style: str,
    pieces: Sequence[str],
    *,
    tools: Sequence[Tool] = TOOLS,
    ending: CallEnd = CallEnd.TAG,
    name: str | None = None,
) -> tuple[list[Event], str]:
    """Return the events of a call that comes in these pieces, and the text that is none."""
    calls = OpenCalls(readers(style, tools, (OPEN, CLOSE)))
    events = list(calls.open(name))
    for piece in pieces:
        events += calls.add(piece)
    closed = calls.close(ending)
    return [*events, *closed.events], closed.stray


def check(events: Sequence[Event]) -> Calls:
    """Check that the events add up; return the calls."""
    increments: dict[str, str] = {}
    done: Calls = []
    for event in events:
        match event:
            case ToolCallStarted():
                assert event.call_id not in increments
                increments[event.call_id] = ""
            case ToolCallArguments():
                assert event.text
                increments[event.call_id] += event.text
            case ToolCallAbandoned():
                del increments[event.call_id]
            case ToolCallCompleted():
                call = event.call
                assert increments.pop(call.id, call.arguments) == call.arguments
                assert event.index == len(done)
                done.append((call.name, call.arguments))
    assert not increments
    return done


def pieces_of(text: str) -> list[list[str]]:
    """Return a text whole, by characters, and in pieces of a few."""
    return [[text], list(text), [text[at : at + 7] for at in range(0, len(text), 7)]]


def result(style: str, text: str, **options: Any) -> Calls | str:
    """Return the calls of a text, the same however it is cut, or the text if it has none."""
    found: list[Calls | str] = []
    for pieces in pieces_of(text):
        events, stray = read(style, pieces, **options)
        found.append(check(events) or stray)
    assert found[0] == found[1] == found[2]
    return found[0]


# -- calls as each format has them ------------------------------------------------------------


def _json(calls: Any) -> str:
    texts = [json.dumps({"name": name, "arguments": given}) for name, given in calls]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _each(write: Callable[[str, Any], str], between: str) -> Callable[[Any], str]:
    """Return a writer of several calls from that of one."""
    return lambda calls: between.join(write(name, given) for name, given in calls)


def _qwen(name: str, given: Any) -> str:
    inner = "".join(f"<parameter={k}>\n{_plain(v)}\n</parameter>\n" for k, v in given.items())
    return f"\n<function={name}>\n{inner}</function>\n"


def _pairs(prefix: str) -> Callable[[Any], str]:
    def write(name: str, given: Any) -> str:
        return f"{name}\n" + "\n".join(
            f"<{prefix}_key>{k}</{prefix}_key>\n<{prefix}_value>{_plain(v)}</{prefix}_value>"
            for k, v in given.items()
        )

    return _each(write, f"\n{CLOSE}\n{OPEN}")


def _invokes(prefix: str, *, marks_text: bool = False, line: str = "\n") -> Callable[[Any], str]:
    def parameter(key: str, value: object) -> str:
        is_text = "true" if isinstance(value, str) else "false"
        mark = f' string="{is_text}"' if marks_text else ""
        return f'<{prefix}parameter name="{key}"{mark}>{_plain(value)}</{prefix}parameter>{line}'

    def write(name: str, given: Any) -> str:
        inner = "".join(parameter(k, v) for k, v in given.items())
        return f'<{prefix}invoke name="{name}">{line}{inner}</{prefix}invoke>'

    return _each(write, line)


def _minicpm(name: str, given: Any) -> str:
    def value(v: object) -> str:
        is_marked = isinstance(v, str) and any(char in v for char in "<&\n")
        return f"<![CDATA[{v}]]>" if is_marked else _plain(v)

    inner = "".join(f'<param name="{k}">{value(v)}</param>' for k, v in given.items())
    return f'"{name}">{inner}'


def _kimi3(calls: Any) -> str:
    texts = []
    for name, arguments in calls:
        inner = "".join(
            f'<|open|>argument key="{k}" type="{"string" if isinstance(v, str) else "object"}"'
            f"<|sep|>{_plain(v)}<|close|>argument<|sep|>"
            for k, v in arguments.items()
        )
        if len(arguments) == 2:
            inner = f'<|open|>json type="object"<|sep|>{json.dumps(arguments)}<|close|>json<|sep|>'
        texts.append(f'<|open|>call tool="{name}" index="1"<|sep|>{inner}<|close|>call<|sep|>')
    return "".join(texts)


def _kimi2(calls: Any) -> str:
    return "".join(
        f"<|tool_call_begin|>functions.{name}:{number}<|tool_call_argument_begin|>"
        f"{json.dumps(given)}<|tool_call_end|>"
        for number, (name, given) in enumerate(calls)
    )


def _deepseek(calls: Any) -> str:
    def write(name: str, given: Any) -> str:
        if len(given) == 2:  # V3.1
            return f"{name}<｜tool▁sep｜>{json.dumps(given)}"
        return f"function<｜tool▁sep｜>{name}\n```json\n{json.dumps(given)}\n```"

    return "\n".join(
        f"<｜tool▁call▁begin｜>{write(name, given)}<｜tool▁call▁end｜>" for name, given in calls
    )


def _command(calls: Any) -> str:
    return json.dumps(
        [
            {"tool_call_id": str(number), "tool_name": name, "parameters": given}
            for number, (name, given) in enumerate(calls)
        ]
    )


def _llama(name: str, given: Any) -> str:
    return json.dumps({"name": name, "parameters": given})


def _mistral(calls: Any) -> str:
    if len(calls) == 2:
        return _json([*calls])
    return "".join(f"{name}[ARGS]{json.dumps(given)}" for name, given in calls)


def _python(calls: Any) -> str:
    texts = [
        f"{name}({', '.join(f'{k}={v!r}' for k, v in given.items())})" for name, given in calls
    ]
    return f"[{', '.join(texts)}]"


def _tool_code(calls: Any) -> str:
    listed = _python(calls)
    return f"\n{listed}" if len(calls) > 1 else f"\n{listed[1:-1]}"


def _gemma(name: str, given: Any) -> str:
    texts = (
        f"{k}:<escape>{v}<escape>" if isinstance(v, str) else f"{k}:{json.dumps(v)}"
        for k, v in given.items()
    )
    return f"call:{name}{{{','.join(texts)}}}"


def _gemma4(calls: Any) -> str:
    def value(v: object) -> str:
        if isinstance(v, str):
            return f'<|"|>{v}<|"|>'
        if isinstance(v, dict):
            return "{" + ",".join(f"{k}:{value(inner)}" for k, inner in v.items()) + "}"
        if isinstance(v, list):
            return f"[{','.join(map(value, v))}]"
        return json.dumps(v)

    return "".join(f"call:{name}{value(given)}" for name, given in calls)


WRITERS: dict[str, Callable[[Any], str]] = {
    "command": _command,
    "deepseek": _deepseek,
    "deepseek_v3": _deepseek,
    "dsml": _invokes(DSML, marks_text=True),
    "function_gemma": _each(_gemma, f"{CLOSE}{OPEN}"),
    "gemma4": _gemma4,
    "glm47": _pairs("arg"),
    "json_tools": _json,
    "kimi_k2": _kimi2,
    "kimi_k3": _kimi3,
    "laguna": _pairs("arg"),
    "llama": _each(_llama, "; "),
    "longcat": _pairs("longcat_arg"),
    "minicpm5": _each(_minicpm, f"{CLOSE}\n{OPEN}"),
    "minimax_m2": _invokes(""),
    "mistral": _mistral,
    "muse_spark": _invokes("atem:", line=""),
    "pythonic": _python,
    "qwen3_coder": _each(_qwen, "\n"),
    "tool_code": _tool_code,
}
VALUES = {
    "city": PLAIN,
    "days": st.integers(-5, 10**20),
    "near": st.lists(st.one_of(st.integers(), PLAIN, st.floats(-2, 2), st.none()), max_size=3),
    "more": st.dictionaries(st.sampled_from("abc"), st.one_of(st.booleans(), PLAIN), max_size=3),
    "on": st.booleans(),
}
CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("weather"), st.fixed_dictionaries({}, optional=VALUES)),
        st.just(("get_time", {})),
    ),
    min_size=1,
    max_size=3,
)


def cut(draw: st.DrawFn, text: str) -> list[str]:
    places = draw(st.lists(st.integers(0, len(text)), max_size=20))
    edges = [0, *sorted(places), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(edges) if a < b]


@pytest.mark.parametrize("style", sorted(CALL_FORMATS))
@settings(max_examples=cases(25), deadline=None)
@given(CALLS, st.data())
def test_well_formed_calls_are_read_exactly_and_never_abandoned(
    style: str, calls: Any, data: st.DataObject
) -> None:
    raw = WRITERS[style](calls)
    events, stray = read(style, data.draw(st.composite(cut)(raw)))
    assert not [event for event in events if isinstance(event, ToolCallAbandoned)]
    assert [(name, json.loads(given)) for name, given in check(events)] == calls
    assert stray == ""


@settings(max_examples=cases(150), deadline=None)
@given(st.sampled_from(sorted(CALL_FORMATS)), CALLS, st.sampled_from(CallEnd), st.data())
def test_damaged_calls_are_the_same_however_they_are_cut_and_no_text_is_lost(
    style: str, calls: Any, ending: CallEnd, data: st.DataObject
) -> None:
    raw = WRITERS[style](calls)
    place, gone = data.draw(st.tuples(st.integers(0, len(raw)), st.integers(0, 3)))
    raw = raw[:place] + data.draw(st.sampled_from(["", "}", '"', "x", "\n"])) + raw[place + gone :]
    events, stray = read(style, data.draw(st.composite(cut)(raw)), ending=ending)
    found = check(events)
    whole, stray_whole = read(style, [raw], ending=ending)
    assert (check(whole), stray_whole) == (found, stray)
    assert raw.endswith(stray)
    if not found:
        assert stray == raw
    assert all(isinstance(json.loads(given), dict) for _, given in found)


GROWING = {
    "qwen3_coder": "<function=weather>\n<parameter=city>\n@",
    "glm47": "weather\n<arg_key>city</arg_key>\n<arg_value>@",
    "json_tools": '{"name": "weather", "arguments": {"city": "@',
    "gemma4": 'call:weather{city:<|"|>@',
}


@pytest.mark.parametrize("style", GROWING)
def test_strings_are_sent_while_they_are_written(style: str) -> None:
    begun = GROWING[style].replace("@", "a long text")
    calls = OpenCalls(readers(style, TOOLS))
    calls.open(None)
    events = [event for char in begun for event in calls.add(char)]
    sent = "".join(event.text for event in events if isinstance(event, ToolCallArguments))
    assert sent == '{"city": "a long text'


# -- calls between tags, as models miswrite them ----------------------------------------------

F = Tool(
    "f",
    "",
    {
        "properties": {
            "a": {"type": "string"},
            "n": {"type": "integer"},
            "x": {"type": "number"},
            "b": {"type": "boolean"},
            "o": {"type": "object"},
            "l": {"type": "array"},
            "text": {"oneOf": [{"type": "null"}, {"type": "string"}]},
            "both": {"type": ["string", "object"]},
            "count": {"$ref": "#/$defs/Count"},
            "node": {"$ref": "#/$defs/Node"},
            "all": {"allOf": [{"type": ["string", "integer"]}, {"type": "integer"}]},
            "free": {"description": "anything"},
        },
        "$defs": {
            "Count": {"$ref": "#/$defs/Inner"},
            "Inner": {"type": "integer"},
            "Node": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "object"}]},
        },
    },
)
G = Tool("g", "", {})

VALUES_READ = [
    ("n", "2026-01-15", '"2026-01-15"'),
    ("n", "1,000", '"1,000"'),
    ("n", "5.0", "5"),
    ("n", "12345678901234567890123", "12345678901234567890123"),
    ("n", "9" * 5000, f'"{"9" * 5000}"'),
    ("x", "1e999", '"1e999"'),
    ("b", "False", "false"),
    ("o", '{"k": 1.50, "big": 12345678901234567890}', '{"k": 1.50, "big": 12345678901234567890}'),
    ("o", "{'k': True, 'n': None}", '{"k": true, "n": null}'),
    ("l", '["a",]', '["a"]'),
    ("a", '{"name": "x"}', r'"{\"name\": \"x\"}"'),
    ("a", '"quoted"', r'"\"quoted\""'),
    ("text", "null", '"null"'),
    ("both", '{"k": 1}', r'"{\"k\": 1}"'),
    ("count", "3", "3"),
    ("all", "3", "3"),
    ("node", '{"k": 1}', '{"k": 1}'),
    ("free", '{"k": 1}', '{"k": 1}'),
]


@pytest.mark.parametrize("style", ["qwen3_coder", "glm47", "minimax_m2", "minicpm5", "muse_spark"])
@pytest.mark.parametrize(("key", "text", "value"), VALUES_READ)
def test_values_without_types_follow_the_schema_and_keep_their_text(
    style: str, key: str, text: str, value: str
) -> None:
    raw = WRITERS[style]([("f", {key: text})])
    assert result(style, raw, tools=(F, G)) == [("f", f'{{"{key}": {value}}}')]


def p(key: str, value: str, end: str = "\n</parameter>") -> str:
    return f"<parameter={key}>\n{value}{end}\n"


def f(*parts: str, name: str = "f") -> str:
    return f"\n<function={name}>\n{''.join(parts)}</function>\n"


A = '{"a": "x"}'
QUOTED = f"See {OPEN}. Write {OPEN}{f(p('a', '1'))}{CLOSE}{OPEN}{f(name='g')}{CLOSE}"
FORMAT_ITSELF = f"Write{f(p('a', '1'))}so."
XML_READ = [
    ("two functions in one tag", f(p("a", "x")) + f(name="g"), [("f", A), ("g", "{}")]),
    ("the next call begins", f"{f(p('a', 'x'))}{OPEN}{f(name='g')}", [("f", A), ("g", "{}")]),
    (
        "the next call begins before the function ends",
        f"<function=f>\n{p('a', 'x')}{OPEN}{f(name='g')}",
        [("f", A), ("g", "{}")],
    ),
    ("a parameter without end", f(p("a", "x", ""), p("n", "3", "")), [("f", '{"a": "x", "n": 3}')]),
    ("a last one without end", f(p("a", "x", "")), [("f", A)]),
    ("no end of the function", f"<function=f>\n{p('a', 'x')}", [("f", A)]),
    ("no arguments", f(), [("f", "{}")]),
    ("white space of its own", f(p("a", "\n x\n\n")), [("f", r'{"a": "\n x\n\n"}')]),
    ("the same tag in a value", f(p("a", "<p>\n</parameter>\n</p>")), [
        ("f", r'{"a": "<p>\n</parameter>\n</p>"}')]),
    ("a function's end in a value", f(p("a", "see </function> there")), [
        ("f", r'{"a": "see </function> there"}')]),
    ("the format itself in a value", f(p("a", FORMAT_ITSELF)), [
        ("f", json.dumps({"a": FORMAT_ITSELF}))]),
    ("another parameter's tag in a value", f(p("a", "1\n<parameter=zz>\n2")), [
        ("f", r'{"a": "1\n<parameter=zz>\n2"}')]),
    ("the tags of calls in a value", f(p("a", QUOTED)), [("f", json.dumps({"a": QUOTED}))]),
    ("text in the place of parameters", "<function=f>hello</function>", None),
    ("a value without any end", "<function=f>\n<parameter=a>\nx\n", None),
    ("nothing", "", None),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "calls"), [c[1:] for c in XML_READ], ids=[c[0] for c in XML_READ])
def test_miswritten_xml_calls_are_read_or_left_as_text(raw: str, calls: Calls | None) -> None:
    assert result("qwen3_coder", raw, tools=(F, G)) == (raw if calls is None else calls)


# -- calls in JSON, as models miswrite them ---------------------------------------------------

JSON_READ = [
    ('{"name": "f", "parameters": {"a": "x"}}', [("f", A)]),
    ('{"type": "function", "function": {"name": "f", "arguments": {"a": "x"}}}', [("f", A)]),
    (r'{"name": "f", "arguments": "{\"a\": \"x\"}"}', [("f", A)]),
    ('{"arguments": {"a": "x"}, "name": "f", "id": 3}', [("f", A)]),
    ('{"name": "f", "arguments": {"a": "1\n2\t3"}}', [("f", r'{"a": "1\n2\t3"}')]),
    ('{"name": "f", "arguments": {"a": "x",},}', [("f", A)]),
    ('{"name": "f", "arguments": {"a": "x"}', [("f", A)]),
    ('{"name": "f", "arguments": {"a": "x"}}}', [("f", A)]),
    (r'{"name": "f", "arguments": {"a": "\d+ \u12 \'"}}', [("f", """{"a": "\\\\d+ \\\\u12 '"}""")]),
    ("{'name': 'f', 'arguments': {'a': 'x', 'b': True}}", [("f", '{"a": "x", "b": true}')]),
    ('{"name": "f", "arguments": {a: "x"}}', [("f", A)]),
    ('{"name": "f", "arguments": {"n": 12345678901234567890, "x": 1.10}}',
     [("f", '{"n": 12345678901234567890, "x": 1.10}')]),
    ('```json\n{"name": "f", "arguments": {"a": "x"}}\n```', [("f", A)]),
    ('{"name": "f", "arguments": {"a": "x"}}\n{"name": "g"}', [("f", A), ("g", "{}")]),
    (f'{{"name": "f", "arguments": {A}}}\n{OPEN}\n{{"name": "g"}}', [("f", A), ("g", "{}")]),
    ('[{"name": "f", "arguments": {"a": "x"}}, {"name": "g"}', [("f", A), ("g", "{}")]),
    ('{"name": "f"}', [("f", "{}")]),
    ('{"name": "f", "input": {"a": "x"}}', None),
    ('{"name": "f", "arguments": {"a": "x"', None),
    ('{"name": "f", "arguments": {"a": NaN}}', None),
    ('{"name": "f", "arguments": {"a": "say "x" now"}}', None),
    ('{"name": "f", "arguments": {"a": {"b": 1}}}, "c": 2}}', None),
    (f'{{"name": "f", "arguments": {{"a": {"[" * 200}{"]" * 200}}}}}', None),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "calls"), JSON_READ)
def test_miswritten_json_calls_are_repaired_or_left_as_text(raw: str, calls: Calls | None) -> None:
    assert result("json_tools", raw) == (raw if calls is None else calls)


REPAIRED = {
    "json_tools": '{{"name": "f", "arguments": {}}}',
    "mistral": "f[ARGS]{}",
    "deepseek": "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
    "gemma4": "call:f{}",
}


@pytest.mark.parametrize("style", REPAIRED)
def test_json_arguments_are_repaired_alike_in_every_format(style: str) -> None:
    raw = REPAIRED[style].format('{"a": "\\d\n", "n": 12345678901234567890,}')
    assert result(style, raw) == [("f", r'{"a": "\\d\n", "n": 12345678901234567890}')]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [("", "{}"), ('{"a":1}', '{"a":1}'), ('{"a": "\\d",}', '{"a": "\\\\d"}'),
     ('{"a": 1', '{"a": 1}'), ('{"a": 1}}', '{"a": 1}'), ("[1]", None), ("text", None)],
)  # fmt: skip
def test_arguments_under_a_tag_that_names_the_tool(text: str, arguments: str | None) -> None:
    assert result("", text, name="f") == ([("f", arguments)] if arguments else text)


@pytest.mark.parametrize("style", ["json_tools", "mistral", "gemma4"])
def test_a_bracket_is_never_added_to_a_call_that_was_cut(style: str) -> None:
    raw = REPAIRED[style].format('{"a": 1}')[:-1]
    assert result(style, raw, ending=CallEnd.CUT) == raw
    assert result(style, raw, ending=CallEnd.EOS) == [("f", '{"a": 1}')]


# -- calls in Python --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "calls"),
    [
        ("[f(a='1\n2', l=[true, null])]", [("f", r'{"a": "1\n2", "l": [true, null]}')]),
        ("f('x', 12345678901234567890)", [("f", '{"a": "x", "n": 12345678901234567890}')]),
        (f"[f(a='x')]{CLOSE}{OPEN}[g()]", [("f", A), ("g", "{}")]),
        ("[f(a=b)]", None),
        ("[f(a='x'", None),
        ("[f(a=float('nan'))]", None),
    ],
)
def test_python_calls_are_read_or_left_as_text(raw: str, calls: Calls | None) -> None:
    assert result("pythonic", raw, tools=(F, G)) == (raw if calls is None else calls)
