"""Calls whose arguments are JSON. Pure; any thread."""

import re
from dataclasses import dataclass

from engine.output.tool_calls.call_text import (
    ArrivingText,
    AsWritten,
    CallWriter,
    Format,
    IrregularCall,
    Rewritten,
    Waiting,
    json_object,
    json_value,
    string_text,
    whole_string,
)

_KIMI_HEAD = re.compile(r"\s*(?:functions\.)?(.+?):\d+\s*", re.DOTALL)
_DEEPSEEK_NAME = re.compile(r"[^\s<>{}`\"]+")
_MISTRAL_HEAD = re.compile(r"([\w-]+)\s*$")


def _nothing(text: str) -> None:
    """Ignore text."""


def named_call(name: str) -> Format:
    """Return the format of a call whose tag named the tool: the text is its arguments."""

    def read(text: ArrivingText, out: CallWriter) -> Waiting[None]:
        out.start(name)
        yield from text.skip_space()
        yield from json_object(text, AsWritten(out.write))
        out.owe("}")

    return read


def json_calls(text: ArrivingText, out: CallWriter) -> Waiting[None]:
    """Read ``{"name": …, "arguments": …}``, or a list of them."""
    yield from _json_calls(text, out, _Fields(takes_text=True))


def command(text: ArrivingText, out: CallWriter) -> Waiting[None]:
    """Read Command's ``{"tool_call_id": …, "tool_name": …, "parameters": {…}}``, or a list."""
    yield from _json_calls(text, out, _Fields("tool_name", ("parameters",)))


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of a call, and whether its arguments may be JSON in a string."""

    name: str = "name"
    arguments: tuple[str, ...] = ("arguments",)
    takes_text: bool = False


def _json_calls(text: ArrivingText, out: CallWriter, fields: _Fields) -> Waiting[None]:
    if (yield from text.skip_space()) != "[":
        yield from _json_call(text, out, fields)
        return
    char = ","
    while char == ",":
        yield from text.take()
        yield from _json_call(text, out, fields)
        char = yield from text.skip_space()
    if char != "]":
        raise IrregularCall
    yield from text.take()


def llama(text: ArrivingText, out: CallWriter) -> Waiting[None]:
    """Read ``{"name": …, "parameters": …}``; derived models write ``arguments``."""
    yield from _json_call(text, out, _Fields(arguments=("parameters", "arguments")))


class _Held:
    """Keeps arguments that come before the name of their call."""

    __slots__ = ("_kept", "_out", "_owed")

    def __init__(self, out: CallWriter) -> None:
        self._out = out
        self._kept: list[str] | None = []
        self._owed = "{}"

    def start(self, name: str) -> None:
        """Begin the call, and write the arguments that were kept."""
        self._out.start(name)
        for text in self._kept or ():
            self._out.write(text)
        self._kept = None

    def write(self, text: str) -> None:
        """Add to the arguments."""
        if self._kept is None:
            self._out.write(text)
        else:
            self._kept.append(text)

    def close(self) -> None:
        """Note that the arguments are complete except for their last brace."""
        self._owed = "}"

    def end(self) -> None:
        """Note that the call is complete; raises ``IrregularCall`` where it has no name."""
        if self._kept is not None:
            raise IrregularCall
        self._out.owe(self._owed)


def _json_call(text: ArrivingText, out: CallWriter, fields: _Fields) -> Waiting[None]:
    """Read one object that is a call."""
    held = _Held(out)
    seen: set[str] = set()
    yield from text.skip_space()
    yield from text.expect("{")
    while True:
        key = yield from whole_string(text)
        yield from text.skip_space()
        yield from text.expect(":")
        if key in fields.arguments:
            key = "arguments"
        elif key == fields.name:
            key = "name"
        elif key in ("name", "arguments"):
            key = ""  # not in this format
        if key in seen:
            raise IrregularCall  # the parser uses the last one
        if key == "name":
            name = yield from whole_string(text)
            if not name:
                raise IrregularCall
            held.start(name)
        elif key == "arguments":
            yield from _arguments(text, held, fields.takes_text)
        else:
            yield from json_value(text, Rewritten(_nothing))
        if key in ("name", "arguments"):
            seen.add(key)
        char = yield from text.skip_space()
        yield from text.take()
        if char == "}":
            held.end()
            return
        if char != ",":
            raise IrregularCall


def _arguments(text: ArrivingText, held: _Held, takes_text: bool) -> Waiting[None]:
    char = yield from text.skip_space()
    if char == "{":
        yield from json_object(text, Rewritten(held.write))
        held.close()
    elif char == "n":
        yield from text.expect("null")
    elif char == '"' and takes_text:
        yield from text.take()
        inner = ArrivingText()
        reading = _object_in_text(inner, held)
        yield from string_text(text, lambda said, written: _go_on(inner, reading, said))
    else:
        raise IrregularCall


def _object_in_text(text: ArrivingText, held: _Held) -> Waiting[None]:
    yield from text.skip_space()
    yield from json_object(text, AsWritten(held.write))
    held.close()
    yield from text.skip_space()
    raise IrregularCall


def _go_on(text: ArrivingText, reading: Waiting[None], more: str) -> None:
    """Feed a reader inside another one."""
    text.append(more)
    next(reading)


def kimi_k2(text: ArrivingText, out: CallWriter) -> Waiting[None]:
    """Read Kimi K2's section of calls.

    Each is ``<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{…}<|tool_call_end|>``.
    """
    while True:
        yield from text.skip_past("<|tool_call_begin|>")
        head = yield from text.until("<|tool_call_argument_begin|>")
        match = _KIMI_HEAD.fullmatch(head)
        if match is None:
            raise IrregularCall
        out.start(match[1])
        yield from text.skip_space()
        yield from json_object(text, Rewritten(out.write))
        yield from text.skip_space()
        yield from text.expect("<|tool_call_end|>")
        out.owe("}")


def mistral(text: ArrivingText, out: CallWriter) -> Waiting[None]:
    """Read Mistral's calls: ``f[ARGS]{…}``, which can repeat, or a list in JSON."""
    if (yield from text.skip_space()) == "[":
        yield from _json_calls(text, out, _Fields())
        return
    while True:
        head = yield from text.until("[ARGS]")
        match = _MISTRAL_HEAD.search(head)
        if match is None:
            raise IrregularCall
        out.start(match[1])
        yield from text.skip_space()
        yield from json_object(text, Rewritten(out.write))
        out.owe("}")


def deepseek(text: ArrivingText, out: CallWriter) -> Waiting[None]:
    """Read DeepSeek's section of calls.

    Each is ``<｜tool▁call▁begin｜>f<｜tool▁sep｜>{…}<｜tool▁call▁end｜>``. Before V3.1 the name was
    followed by a line end and the arguments were in a fence, with ``function`` before the
    separator.
    """
    while True:
        yield from text.skip_past("<｜tool▁call▁begin｜>")
        name = yield from text.until("<｜tool▁sep｜>")
        if (yield from text.skip_space()) != "{":
            name = yield from text.until("\n")
            yield from text.skip_space()
            yield from text.expect("```json")
        name = name.strip()
        if not _DEEPSEEK_NAME.fullmatch(name):
            raise IrregularCall
        out.start(name)
        yield from text.skip_space()
        yield from json_object(text, Rewritten(out.write))
        out.owe("}")
        if (yield from text.skip_space()) == "`":
            yield from text.expect("```")
            yield from text.skip_space()
        yield from text.expect("<｜tool▁call▁end｜>")
