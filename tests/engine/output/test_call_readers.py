"""Arguments that are sent while a call is written are the arguments of the complete call."""

import importlib
import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.inference.text import call_parser
from engine.output.tool_calls.call_text import arguments_text
from engine.output.tool_calls.calls import STYLES, OpenCalls, own_parser, readers
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
    Tool("get-time", "", {"properties": {}}),
)
PLAIN = st.text("ab \n,:=\"'é🚀(){}[]\\<>&/null", max_size=12)


def parser_of(style: str) -> Any:
    if own := own_parser(style):
        return call_parser(own, TOOLS)
    module = importlib.import_module(f"mlx_lm.tool_parsers.{style}")
    return call_parser(module.parse_tool_call, TOOLS)


def told(style: str, pieces: Sequence[str], name: str | None = None) -> tuple[list[Event], str]:
    """Return the events of a call that comes in these pieces, and what turned out to be text."""
    parse = parser_of(style)
    calls = OpenCalls(parse, readers(style, parse))
    events = list(calls.open(name))
    for piece in pieces:
        events += calls.add(piece)
    closing, stray = calls.close()
    return [*events, *closing], stray


def expected(style: str, raw: str) -> list[tuple[str, str]]:
    """Return the calls of a text that is parsed when it is complete; none if it is text."""
    try:
        return [(n, arguments_text(given)) for n, given in parser_of(style)(raw, None)]
    except ValueError:
        return []


def check(events: Sequence[Event]) -> list[tuple[str, str]]:
    """Check that the events add up; return the calls."""
    increments: dict[str, str] = {}
    done: list[tuple[str, str]] = []
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


def early(events: Sequence[Event]) -> str:
    """Return the arguments that were sent before the first call was complete."""
    place = next(i for i, event in enumerate(events) if isinstance(event, ToolCallCompleted))
    parts = [event.text for event in events[:place] if isinstance(event, ToolCallArguments)]
    return "".join(parts)


# -- how each format writes a call ------------------------------------------------------------


def _json(calls: Any) -> str:
    texts = [json.dumps({"name": name, "arguments": given}) for name, given in calls]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _qwen(calls: Any) -> str:
    [(name, given)] = calls
    inner = "".join(f"<parameter={k}>\n{_plain(v)}\n</parameter>\n" for k, v in given.items())
    return f"\n<function={name}>\n{inner}</function>\n"


def _pairs(prefix: str) -> Callable[[Any], str]:
    def write(calls: Any) -> str:
        [(name, given)] = calls
        start = "" if given else f"<{prefix}_key>"  # without it GLM's parser guesses
        return (
            name
            + start
            + "\n".join(
                f"<{prefix}_key>{k}</{prefix}_key>\n<{prefix}_value>{_plain(v)}</{prefix}_value>"
                for k, v in given.items()
            )
        )

    return write


def _minimax(calls: Any) -> str:
    return "\n".join(
        f'<invoke name="{name}">\n'
        + "".join(f'<parameter name="{k}">{_plain(v)}</parameter>\n' for k, v in given.items())
        + "</invoke>"
        for name, given in calls
    )


def _minicpm(calls: Any) -> str:
    [(name, given)] = calls

    def value(v: object) -> str:
        is_marked = isinstance(v, str) and any(char in v for char in "<&\n")
        return f"<![CDATA[{v}]]>" if is_marked else _plain(v)

    inner = "".join(f'<param name="{k}">{value(v)}</param>' for k, v in given.items())
    return f'"{name}">{inner}'


def _muse(calls: Any) -> str:
    return "".join(
        f'<atem:invoke name="{name}">'
        + "".join(
            f'<atem:parameter name="{k}">{_plain(v)}</atem:parameter>' for k, v in given.items()
        )
        + "</atem:invoke>"
        for name, given in calls
    )


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


def _llama(calls: Any) -> str:
    [(name, given)] = calls
    return json.dumps({"name": name, "parameters": given})


def _mistral(calls: Any) -> str:
    if len(calls) == 2:
        return _json([*calls])
    return "".join(f"{name}[ARGS]{json.dumps(given)}" for name, given in calls)


def _python(calls: Any) -> str:
    texts = [
        f"{name.replace('-', '.')}({', '.join(f'{k}={v!r}' for k, v in given.items())})"
        for name, given in calls
    ]
    return f"[{', '.join(texts)}]"


def _tool_code(calls: Any) -> str:
    listed = _python(calls)
    return f"\n{listed}" if len(calls) > 1 else f"\n{listed[1:-1]}"


def _gemma(calls: Any) -> str:
    [(name, given)] = calls
    texts = (
        f"{k}:<escape>{v}<escape>" if isinstance(v, str) else f"{k}:{json.dumps(v)}"
        for k, v in given.items()
    )
    return f"call:{name.replace('-', '_')}{{{','.join(texts)}}}"


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
    "function_gemma": _gemma,
    "gemma4": _gemma4,
    "glm47": _pairs("arg"),
    "json_tools": _json,
    "kimi_k2": _kimi2,
    "kimi_k3": _kimi3,
    "llama": _llama,
    "longcat": _pairs("longcat_arg"),
    "minicpm5": _minicpm,
    "minimax_m2": _minimax,
    "mistral": _mistral,
    "muse_spark": _muse,
    "pythonic": _python,
    "qwen3_coder": _qwen,
    "tool_code": _tool_code,
}
ONE_CALL = {"function_gemma", "glm47", "llama", "longcat", "minicpm5", "qwen3_coder"}

VALUES = {
    "city": PLAIN,
    "days": st.integers(-5, 10**20),
    "near": st.lists(st.one_of(st.integers(), PLAIN, st.floats(-2, 2), st.none()), max_size=3),
    "more": st.dictionaries(st.sampled_from("abc"), st.one_of(st.booleans(), PLAIN), max_size=3),
    "on": st.booleans(),
}
CALLS = st.lists(
    st.tuples(
        st.sampled_from([tool.name for tool in TOOLS]),
        st.fixed_dictionaries({}, optional=VALUES),
    ),
    min_size=1,
    max_size=3,
)


def cut(draw: st.DrawFn, text: str) -> list[str]:
    places = draw(st.lists(st.integers(0, len(text)), max_size=20))
    edges = [0, *sorted(places), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(edges) if a < b]


@st.composite
def written(draw: st.DrawFn) -> tuple[str, str]:
    """A style, and calls in it: as a model writes them, or damaged somewhere."""
    style = draw(st.sampled_from(sorted(WRITERS)))
    calls = draw(CALLS)
    raw = WRITERS[style](calls[:1] if style in ONE_CALL else calls)
    if draw(st.booleans()):
        place = draw(st.integers(0, len(raw)))
        gone = draw(st.integers(0, 3))
        raw = raw[:place] + draw(st.sampled_from(["", "}", '"', "x", "\n"])) + raw[place + gone :]
    return style, raw


def same(found: Sequence[tuple[str, str]], wanted: Sequence[tuple[str, str]]) -> bool:
    """Return whether calls are the same, but for keys that were written twice."""
    return len(found) == len(wanted) and all(
        one[0] == other[0]
        and (one[1] == other[1] or json.dumps(json.loads(one[1]), ensure_ascii=False) == other[1])
        for one, other in zip(found, wanted, strict=True)
    )


# FunctionGemma's format has none. Muse Spark's values are strings unless they are JSON.
WITH_NESTED = sorted(STYLES - {"function_gemma", "muse_spark"})


@pytest.mark.parametrize("style", WITH_NESTED)
def test_strings_inside_nested_values_grow_while_they_are_written(style: str) -> None:
    near = [1.5, {"k": 'long "text" é and more\n'}, True, None, []]
    raw = WRITERS[style]([("weather", {"near": near, "more": {"a": ["x"], "b": {}}})])
    begun = raw.index(" and more")
    parse = parser_of(style)
    calls = OpenCalls(parse, readers(style, parse))
    calls.open(None)
    events = [event for char in raw[:begun] for event in calls.add(char)]
    so_far = "".join(event.text for event in events if isinstance(event, ToolCallArguments))

    assert so_far.endswith('{"near": [1.5, {"k": "long \\"text\\" é')
    assert check(told(style, list(raw))[0]) == expected(style, raw)


@pytest.mark.parametrize(
    "value",
    ["['a', {'b': None}]", "[note] to self", '{"a": "1\n2"}', '["a", "b"]]', '["a" // why', "{}{}",
     '{"a": NaN}', '{"a": 1, "a": [2]}', "[1, 2", "[", '["a"].map(f)'],
)  # fmt: skip
@pytest.mark.parametrize("style", ["qwen3_coder", "glm47", "minimax_m2", "kimi_k3", "pythonic"])
def test_text_that_only_begins_like_a_nested_value_is_what_the_parser_makes_of_it(
    style: str, value: str
) -> None:
    raw = WRITERS[style]([("weather", {"near": "@", "more": {"c": "d"}})]).replace("'@'", value)
    raw = raw.replace('"@"', value).replace("@", value)
    events, _ = told(style, list(raw))

    assert same(check(events), expected(style, raw))


def test_every_style_has_a_writer_here() -> None:
    assert set(WRITERS) == STYLES


@settings(max_examples=cases(60), deadline=None)
@given(written(), st.data())
def test_events_sent_early_add_up_to_the_parsed_calls_wherever_the_text_is_cut(
    given: tuple[str, str], data: st.DataObject
) -> None:
    style, raw = given
    pieces = data.draw(st.composite(cut)(raw))
    events, stray = told(style, pieces)
    found, wanted = check(events), expected(style, raw)

    assert same(found, wanted), (found, wanted)
    assert stray == ("" if wanted else raw)
    by_characters, _ = told(style, list(raw))
    assert [(c[0], c[1]) for c in check(by_characters)] == found
