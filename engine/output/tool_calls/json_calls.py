"""Calls whose arguments are JSON. Pure; any thread."""

import re
from collections.abc import Sequence

from engine.output.tool_calls.call_text import (
    CALL_ENDS,
    CallEnd,
    CallWriter,
    IrregularCall,
    ReadCalls,
    StreamBuffer,
    Waiting,
)
from engine.output.tool_calls.formats import HeadedCalls
from engine.output.tool_calls.json_text import JsonReader, read_string

_NAMES = ("name", "tool_name", "function")
_ARGUMENTS = ("arguments", "parameters")
# What a call may have beside its name and its arguments.
_OTHER = frozenset({"type", "id", "tool_call_id", "index"})
_BETWEEN = (";", ",", "```json", "```")
# Characters that continue the object before them: its end was not its end.
_CONTINUED = frozenset(",:\"'}]")
# What may stand where another call could begin.
_OBJECT_ENDS = (*CALL_ENDS, "}", "]")
_BARE_KEY = re.compile(r"\w+")
_NAME = re.compile(r"[^\s<>{}`\"\[\]]+")


def named_call(name: str) -> ReadCalls:
    """Return the reader of a call whose tag named the tool: the text is its arguments."""

    def read(text: StreamBuffer, out: CallWriter) -> Waiting[None]:
        if (yield from text.skip_space()) in CALL_ENDS:
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
    while (char := (yield from text.skip_space())) not in CALL_ENDS:
        if char not in "}]":
            raise IrregularCall("text follows the call")
        text.repair()
        text.skip(1)


def json_calls(marks: Sequence[str]) -> ReadCalls:
    """Return the reader of ``{"name": …, "arguments": …}``, several of them, or a list of them.

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
    elif char in CALL_ENDS and char != CallEnd.CUT.value:
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
            elif char == "]" or (char in CALL_ENDS and char != CallEnd.CUT.value):
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
        inner.append(CallEnd.CUT.value)
        if (yield from inner.skip_space()) in CALL_ENDS:
            return True
        yield from JsonReader(inner, self._write, keeps_space=True).read_object()
        if (yield from inner.skip_space()) not in CALL_ENDS:
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


def headed_calls(call_format: HeadedCalls, marks: Sequence[str]) -> ReadCalls:
    """Return the reader of calls with a head each, which has the name: ``f[ARGS]{…}``."""
    before, behind = call_format.call
    fences = ("```",) if call_format.fence else ()
    ends = tuple(filter(None, (*fences, call_format.call_end, *marks)))
    as_json = json_calls(marks)

    def read_name(text: StreamBuffer) -> Waiting[str]:
        yield from text.expect(before)
        head = yield from text.text_before(
            [behind or "{", *(() if call_format.is_section else "{")]
        )
        text.skip(len((yield from text.find_mark([behind] if behind else []))))
        if call_format.fence and (yield from text.skip_space()) != "{":
            head = yield from text.until("\n")
            yield from text.skip_space()
            yield from text.expect(call_format.fence)
        name = call_format.suffix.sub("", head.strip()).strip().removeprefix(call_format.prefix)
        if not _NAME.fullmatch(name):
            raise IrregularCall("the call has no name")
        return name

    def read(text: StreamBuffer, out: CallWriter) -> Waiting[None]:
        char = yield from text.skip_marks(ends)
        if call_format.has_json and char in "[{":
            yield from as_json(text, out)
            return
        while True:
            name = yield from read_name(text)
            yield from _arguments(name, text, out)
            char = yield from text.skip_marks(ends)
            if call_format.is_section:
                out.keep(text)
                if char in CALL_ENDS:
                    return
            elif char in _OBJECT_ENDS:
                break
            elif char not in _CONTINUED:
                out.keep(text)
        yield from _end(text)

    return read
