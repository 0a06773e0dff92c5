"""Calls whose parameters stand between tags. Pure; any thread.

A tag counts as one where the structure of the call closes behind it; anywhere else it is text of a
value, such as a file that contains the same tags. Text is held back until that is decided:

    tag in a value         is the value's end where
    the value's end        a parameter, the end of the call or what may follow a call is behind it
    the call's end         another call, or nothing, or text without a further end is behind it
    a parameter's tag      it names a declared parameter that the call does not have yet
    another call's tags    never: the value quotes that call, and no end counts until it is closed
"""

import re
from collections.abc import Callable, Sequence

from engine.output.tool_calls.call_text import (
    CALL_ENDS,
    CallEnd,
    CallWriter,
    IrregularCall,
    ReadCalls,
    StreamBuffer,
    Waiting,
)
from engine.output.tool_calls.formats import TaggedCalls
from engine.output.tool_calls.json_calls import json_calls
from engine.output.tool_calls.json_text import JsonReader, escaped
from engine.output.tool_calls.parameters import ParameterType, ToolTypes
from engine.output.tool_calls.schema_alternatives import TYPES

_NAME = re.compile(r"[^\s<>\"'={}]+")
_CDATA = ("<![CDATA[", "]]>")

# A value that its tag does not call text.
_JSON_VALUE = ParameterType(((TYPES - {"string"}, None),))
_TEXT = ParameterType(((frozenset({"string"}), None),))


def tagged_calls(tags: TaggedCalls, types: ToolTypes, marks: Sequence[str]) -> ReadCalls:
    """Return the reader of calls in a format."""
    as_json = json_calls(marks)

    def read(text: StreamBuffer, out: CallWriter) -> Waiting[None]:
        char = yield from text.skip_marks(marks)
        if char in "{[":
            yield from as_json(text, out)  # some models write JSON at times
            return
        if char in CALL_ENDS:
            raise IrregularCall("the call has no text")
        while char not in CALL_ENDS:
            yield from _TaggedCall(tags, types, marks, text, out).read()
            char = yield from text.skip_marks(marks)
            if not (yield from text.find_mark(("</", tags.parameter[0]))):
                out.keep(text)

    return read


class _TaggedCall:
    """Reads one call."""

    def __init__(
        self,
        tags: TaggedCalls,
        types: ToolTypes,
        marks: Sequence[str],
        text: StreamBuffer,
        out: CallWriter,
    ) -> None:
        self._tags = tags
        self._types = types
        self._text = text
        self._out = out
        self._marks = marks
        self._name = ""
        self._is_started = False
        self._given: set[str] = set()
        calls = (tags.call[0],) if tags.call[0] else ()
        # What may follow a call.
        self._next = (*calls, *marks, *CALL_ENDS)
        edges = tuple(filter(None, (tags.value_end, tags.parameter[0], tags.call_end)))
        behind_lines = tuple(f"\n{edge}" for edge in edges) if tags.has_line_ends else ()
        self._ends = (*behind_lines, *edges, *marks)

    def read(self) -> Waiting[None]:
        tags, text, out = self._tags, self._text, self._out
        yield from self._read_name()
        out.nested = 0
        follow = tuple(filter(None, (tags.parameter[0], tags.json[0], tags.call_end, *self._next)))
        while True:
            yield from text.skip_space()
            mark = yield from text.find_mark(follow)
            if mark == tags.parameter[0]:
                yield from self._parameter()
            elif mark and mark == tags.json[0]:
                yield from self._json()
                follow = (tags.call_end,)
            elif mark and mark == tags.call_end:
                text.skip(len(mark))
                break
            elif mark in self._next and self._may_end_at(mark):
                break
            else:
                raise IrregularCall("text stands between the parameters")
        self._start()
        out.defer("}")

    def _start(self) -> None:
        """Begin the call, where that was not done yet: it has a parameter, or its end."""
        if not self._is_started:
            self._is_started = True
            self._out.start(self._name)
            self._out.write("{")

    def _may_end_at(self, mark: str) -> bool:
        """Whether a call without its end is complete before a mark."""
        if mark in (CallEnd.EOS.value, CallEnd.CUT.value):
            is_named = bool(self._given) or self._name in self._types.names
            return not self._tags.call_end and is_named
        return True

    def _read_name(self) -> Waiting[None]:
        tags, text = self._tags, self._text
        before, behind = tags.call
        yield from text.expect(before)
        if behind:
            head = yield from text.until(behind)
        else:
            head = yield from text.text_before((tags.parameter[0], *self._next))
        self._name = _name_in(head, tags.call_name)
        char = yield from text.peek()
        if not behind and char in CALL_ENDS and self._name not in self._types.names:
            raise IrregularCall("a word that names no tool is not a call")

    def _parameter(self) -> Waiting[None]:
        tags, text, out = self._tags, self._text, self._out
        text.skip(len(tags.parameter[0]))
        head = yield from text.until(tags.parameter[1])
        key = _name_in(head, tags.parameter_name)
        if tags.value_start:
            yield from text.skip_space()
            yield from text.expect(tags.value_start)
        kind = self._types.type_of(self._name, key)
        text_mark, _ = tags.value_marks
        if text_mark:
            kind = _TEXT if text_mark in head else _JSON_VALUE
        self._start()
        out.write(f'{", " if self._given else ""}"{escaped(key)}": ')
        self._given.add(key)
        if kind.is_text:
            out.write('"')
            yield from self._value(lambda part: out.write(escaped(part)))
            out.write('"')
        else:
            parts: list[str] = []
            yield from self._value(parts.append)
            out.write(kind.json_of("".join(parts)))

    def _json(self) -> Waiting[None]:
        """Read arguments that are one object, in the place of parameters."""
        if self._given:
            raise IrregularCall("an object stands beside parameters")
        text, (_, end) = self._text, self._tags.json
        yield from text.until(self._tags.parameter[1])
        parts: list[str] = []
        yield from JsonReader(text, parts.append).read_object()
        self._start()
        self._out.write("".join(parts).removeprefix("{"))
        yield from text.skip_space()
        yield from text.expect(end)

    def _value(self, take: Callable[[str], object]) -> Waiting[None]:
        tags, text = self._tags, self._text
        if tags.has_cdata:
            offset = yield from text.after_space(0)
            if (yield from text.find_mark(_CDATA[:1], offset)):
                text.skip(offset + len(_CDATA[0]))
                yield from text.pass_until(_CDATA[1:], take)
                text.skip(len(_CDATA[1]))
                yield from text.skip_space()
                yield from text.expect(tags.value_end)
                return
        if tags.has_line_ends and (yield from text.peek()) == "\n":
            text.skip(1)
        while True:
            mark = yield from text.pass_until(self._ends, take)
            taken = yield from self._end_at(mark)
            if taken is not None:
                text.skip(taken)
                return
            take(mark[0])
            text.skip(1)

    def _end_at(self, mark: str) -> Waiting[int | None]:
        """Return the length of the end that a mark begins; None if the mark is text."""
        tags, text, out = self._tags, self._text, self._out
        line_end = len(mark) - len(mark.lstrip("\n"))
        tag = mark[line_end:]
        if tag in self._marks:
            # A call that the value quotes; what closes it is no end of this call.
            if tag != self._marks[0]:
                out.nested = max(out.nested - 1, 0)
            elif tags.call[0]:
                offset = yield from text.after_space(len(mark))
                out.nested += bool((yield from text.find_mark(tags.call[:1], offset)))
            return None
        if out.nested:
            return None
        if tag == tags.value_end:
            offset = yield from text.after_space(len(mark))
            follow = tuple(filter(None, (tags.parameter[0], tags.call_end, *self._next)))
            found = yield from text.find_mark(follow, offset)
            if found and found == tags.call_end:
                is_end = yield from self._ends_call(offset, (tags.value_end,))
            else:
                is_end = bool(found)
            return len(mark) if is_end else None
        if tag == tags.call_end:
            later = (tags.value_end, tags.call_end)
            return line_end if (yield from self._ends_call(line_end, later)) else None
        # A parameter begins inside a value only if it is declared and still missing.
        if tags.has_line_ends and not line_end:
            return None
        for key in self._types.parameters_of(self._name):
            if key not in self._given and (yield from self._names(key, len(mark))):
                return line_end
        return None

    def _ends_call(self, offset: int, later: Sequence[str]) -> Waiting[bool]:
        """Whether the end of a call at an offset is one.

        Another call follows, or nothing, or text in which none of the ``later`` ends comes.
        """
        offset = yield from self._text.after_space(offset + len(self._tags.call_end))
        if (yield from self._text.find_mark(self._next, offset)):
            return True
        return not (yield from self._text.has_later(later, offset))

    def _names(self, key: str, offset: int) -> Waiting[bool]:
        """Whether the tag of a parameter at an offset names this one."""
        tags = self._tags
        heads = [key, f'"{key}"', f"'{key}'"]
        if tags.parameter_name:
            heads = [f" {tags.parameter_name}={head}" for head in heads]
        return bool(
            (yield from self._text.find_mark([h + tags.parameter[1] for h in heads], offset))
        )


def _name_in(head: str, attribute: str) -> str:
    """Return the name in a tag; raises ``IrregularCall`` where there is none."""
    name = head.strip()
    if attribute:
        match = re.search(rf"\b{attribute}\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s\"'<>]+)", head)
        name = match[1] if match else ""
    if name[:1] in ("'", '"') and name[-1:] == name[:1]:
        name = name[1:-1].replace("&quot;", '"').replace("&amp;", "&")
    if not _NAME.fullmatch(name):
        raise IrregularCall("a tag names nothing")
    return name
