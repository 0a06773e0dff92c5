"""Calls whose arguments are JSON. Pure; any thread."""

import re
from collections.abc import Callable, Sequence

from engine.output.tool_calls.call_text import (
    ENDINGS,
    CallWriter,
    Ending,
    Format,
    IrregularCall,
    StreamBuffer,
    Waiting,
)
from engine.output.tool_calls.json_text import JsonReader, read_string
from engine.output.tool_calls.parameters import ToolTypes

_NAMES = ("name", "tool_name", "function")
_ARGUMENTS = ("arguments", "parameters")
# What a call may have beside its name and its arguments.
_OTHER = frozenset({"type", "id", "tool_call_id", "index"})
_BETWEEN = (";", ",", "```json", "```")
# Characters that continue the object before them: its end was not its end.
_CONTINUED = frozenset(",:\"'}]")
# What may stand where another call could begin.
_CALL_ENDS = (*ENDINGS, "}", "]")
_BARE_KEY = re.compile(r"\w+")
_NAME = re.compile(r"[^\s<>{}`\"\[\]]+")
_KIMI_NUMBER = re.compile(r":\d+$")
_MISTRAL_ID = re.compile(r"\[CALL_ID\][^\[\]]*$")


def named_call(name: str) -> Format:
    """Return the format of a call whose tag named the tool: the text is its arguments."""

    def read(text: StreamBuffer, out: CallWriter) -> Waiting[None]:
        if (yield from text.skip_space()) in ENDINGS:
            out.start(name)
            out.defer("{}")
            return
        yield from _arguments(name, text, out, keeps_space=True)
        yield from _end(text)

    return read


def _arguments(
    name: str, text: StreamBuffer, out: CallWriter, *, keeps_space: bool = False
) -> Waiting[None]:
    """Read a call whose name is known, from its arguments' first brace to their last."""
    if (yield from text.skip_space()) != "{":
        raise IrregularCall("the arguments are not an object")
    out.start(name)
    yield from JsonReader(text, out.write, keeps_space=keeps_space).read_object()
    out.defer("}")


def _end(text: StreamBuffer) -> Waiting[None]:
    """Read the end of a text, where one bracket too many may stand."""
    while (char := (yield from text.skip_space())) not in ENDINGS:
        if char not in "}]":
            raise IrregularCall("text follows the call")
        text.repair()
        text.skip(1)


def json_format(types: ToolTypes, marks: Sequence[str]) -> Format:
    """Return the format ``{"name": …, "arguments": …}``, several of them, or a list of them.

    Command's ``tool_name`` and ``parameters`` are read as well, and OpenAI's ``function``.
    """
    between = (*marks, *_BETWEEN)

    def read(text: StreamBuffer, out: CallWriter) -> Waiting[None]:
        char = yield from text.skip_marks(between)
        if char not in "{[":
            raise IrregularCall("the call is not JSON")
        while char in "{[":
            if char == "{":
                yield from _JsonCall(text, out).read()
            else:
                yield from _list(text, out)
            char = yield from text.skip_marks(between)
            if char not in _CONTINUED:
                out.keep(text)
        yield from _end(text)

    return read


def _list(text: StreamBuffer, out: CallWriter) -> Waiting[None]:
    char = ","
    while char == ",":
        text.skip(1)
        if (yield from text.skip_space()) == "]":
            raise IrregularCall("the list has no call")
        yield from _JsonCall(text, out).read()
        char = yield from text.skip_space()
    if char == "]":
        text.skip(1)
    elif char in ENDINGS and char != Ending.CUT.value:
        text.repair()
    else:
        raise IrregularCall("a comma or bracket is missing")


class _JsonCall:
    """Reads one object that is a call."""

    def __init__(self, text: StreamBuffer, out: CallWriter) -> None:
        self._text = text
        self._out = out
        self._name = ""
        # Arguments that come before the name.
        self._early: list[str] = []
        self._has_arguments = self._is_started = False
        self._other: list[str] = []

    def read(self) -> Waiting[None]:
        """Read the call with its last brace."""
        yield from self._fields()
        if not self._name:
            raise IrregularCall("the call has no name")
        if not self._has_arguments:
            if self._other:
                raise IrregularCall(f"a call has no field {self._other[0]}")
            self._write("{")
        self._out.defer("}")

    def _fields(self) -> Waiting[None]:
        text = self._text
        yield from text.skip_space()
        yield from text.expect("{")
        while True:
            key = yield from self._key()
            yield from text.skip_space()
            yield from text.expect(":")
            char = yield from text.skip_space()
            if key == "function" and char == "{":
                yield from self._fields()
            elif key in _NAMES:
                yield from self._read_name()
            elif key in _ARGUMENTS:
                yield from self._read_arguments(char)
            else:
                yield from JsonReader(text, len).read_value()
                if key not in _OTHER:
                    self._other.append(key)
            char = yield from text.skip_space()
            if char == ",":
                text.skip(1)
                char = yield from text.skip_space()
                if char != "}":
                    continue
            if char == "}":
                text.skip(1)
            elif char == "]" or (char in ENDINGS and char != Ending.CUT.value):
                text.repair()
            else:
                raise IrregularCall("a comma or brace is missing")
            return

    def _key(self) -> Waiting[str]:
        text, parts = self._text, list[str]()
        if (yield from text.skip_space()) in "\"'":
            yield from read_string(text, parts.append, is_raw=True)
        else:
            while part := text.take_run(_BARE_KEY):
                parts.append(part)
                yield from text.peek()
        return "".join(parts)

    def _read_name(self) -> Waiting[None]:
        parts: list[str] = []
        yield from read_string(self._text, parts.append, is_raw=True)
        if self._name or not any(parts):
            raise IrregularCall("a call has one name")
        self._name = "".join(parts)
        if self._early:
            self._write("")

    def _read_arguments(self, char: str) -> Waiting[None]:
        if self._has_arguments:
            raise IrregularCall("a call has its arguments once")
        if char == "n":
            yield from self._text.expect("null")
            return
        if char == "{":
            yield from JsonReader(self._text, self._write).read_object()
        elif (yield from self._read_quoted()):
            return
        self._has_arguments = True

    def _read_quoted(self) -> Waiting[bool]:
        """Read arguments that are JSON in a string; return whether the string is empty."""
        inner = StreamBuffer()
        yield from read_string(self._text, inner.append, is_raw=True)
        inner.append(Ending.CUT.value)
        if (yield from inner.skip_space()) in ENDINGS:
            return True
        yield from JsonReader(inner, self._write, keeps_space=True).read_object()
        if (yield from inner.skip_space()) not in ENDINGS:
            raise IrregularCall("text follows the arguments")
        return False

    def _write(self, text: str) -> None:
        """Write arguments; the call begins with the first, once its name is known."""
        if not self._name:
            self._early.append(text)
            return
        if not self._is_started:
            self._is_started = True
            self._out.start(self._name)
            self._out.write("".join(self._early))
        self._out.write(text)


def _named_format(
    read_head: Callable[[StreamBuffer], Waiting[str]],
    ends: Sequence[str] = (),
    *,
    is_section: bool = False,
) -> Format:
    """Return the format of calls with a head each, which has the name: ``f[ARGS]{…}``."""

    def read(text: StreamBuffer, out: CallWriter) -> Waiting[None]:
        char = yield from text.skip_marks(ends)
        while True:
            name = yield from read_head(text)
            if not _NAME.fullmatch(name):
                raise IrregularCall("the call has no name")
            yield from _arguments(name, text, out)
            char = yield from text.skip_marks(ends)
            if is_section:
                out.keep(text)
                if char in ENDINGS:
                    return
            elif char in _CALL_ENDS:
                break
            elif char not in _CONTINUED:
                out.keep(text)
        yield from _end(text)

    return read


def kimi_k2(types: ToolTypes, marks: Sequence[str]) -> Format:
    """Return the format of Kimi K2's section of calls.

    Each is ``<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{…}<|tool_call_end|>``.
    """

    def read_head(text: StreamBuffer) -> Waiting[str]:
        yield from text.expect("<|tool_call_begin|>")
        head = yield from text.until("<|tool_call_argument_begin|>")
        return _KIMI_NUMBER.sub("", head.strip()).removeprefix("functions.")

    return _named_format(read_head, ("<|tool_call_end|>", *marks), is_section=True)


def mistral(types: ToolTypes, marks: Sequence[str]) -> Format:
    """Return the format of Mistral's calls: ``f[ARGS]{…}``, which can repeat, or a list in JSON."""
    as_json = json_format(types, marks)

    def read_head(text: StreamBuffer) -> Waiting[str]:
        head = yield from text.text_before(("[ARGS]", "{"))
        text.skip(len((yield from text.find_mark(("[ARGS]",)))))
        return _MISTRAL_ID.sub("", head).strip()

    as_named = _named_format(read_head, marks)

    def read(text: StreamBuffer, out: CallWriter) -> Waiting[None]:
        char = yield from text.skip_marks(marks)
        yield from (as_json if char in "[{" else as_named)(text, out)

    return read


def deepseek(types: ToolTypes, marks: Sequence[str]) -> Format:
    """Return the format of DeepSeek's section of calls.

    Each is ``<｜tool▁call▁begin｜>f<｜tool▁sep｜>{…}<｜tool▁call▁end｜>``. Before V3.1 the name was
    followed by a line end and the arguments were in a fence, with ``function`` before the
    separator.
    """

    def read_head(text: StreamBuffer) -> Waiting[str]:
        yield from text.expect("<｜tool▁call▁begin｜>")
        name = yield from text.until("<｜tool▁sep｜>")
        if (yield from text.skip_space()) != "{":
            name = yield from text.until("\n")
            yield from text.skip_space()
            yield from text.expect("```json")
        return name.strip()

    return _named_format(read_head, ("```", "<｜tool▁call▁end｜>", *marks), is_section=True)


def gemma(types: ToolTypes, marks: Sequence[str]) -> Format:
    """Return the format of Gemma 4 and FunctionGemma: ``call:f{key:value}``.

    It is JSON with bare keys, and with strings between marks of its own.
    """

    def read_head(text: StreamBuffer) -> Waiting[str]:
        yield from text.expect("call:")
        return (yield from text.text_before(("{",)))

    return _named_format(read_head, marks)
