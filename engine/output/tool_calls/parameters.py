"""Values of parameters in formats that are not JSON, written as JSON while they arrive.

Pure; any thread.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from engine.output.tool_calls.call_text import (
    ArrivingText,
    CallParser,
    CallWriter,
    IrregularCall,
    Rewritten,
    Waiting,
    arguments_text,
    escaped,
    json_value,
)

# Only the parser knows the right value, and only when the value is complete: irregular text
# becomes a string, for example. A string may also begin with a bracket, so nothing is written
# before the first text or number inside the value. At the end the written text is compared with
# the parser's value. Where they differ, or the value is not regular, the reader gives up, and the
# call is sent when it is complete.

ReadValue = Callable[[ArrivingText, Callable[[str], object]], Waiting[None]]
"""Reads one value and writes it as ``json.dumps`` would."""

_OPENING = "{["


class NestedValue:
    """One value while it arrives."""

    __slots__ = ("_arriving", "_begin", "_has_begun", "_is_over", "_out", "_raw", "_reading",
                 "_told")  # fmt: skip

    def __init__(self, read: ReadValue, begin: Callable[[], None], out: CallWriter) -> None:
        self._arriving = ArrivingText()
        self._reading = read(self._arriving, self._write)
        self._begin = begin
        self._out = out
        self._raw: list[str] = []
        self._told: list[str] = []
        self._has_begun = False
        self._is_over = False

    @property
    def raw(self) -> str:
        """The raw text of the value so far."""
        return "".join(self._raw)

    def append(self, piece: str) -> None:
        """Take more of it."""
        self._raw.append(piece)
        if self._is_over:
            return
        self._arriving.append(piece)
        try:
            next(self._reading)
        except (StopIteration, IrregularCall):
            self._is_over = True

    def finish(self, value: object) -> bool:
        """End the value; return whether it was written. If not, the caller has to write it."""
        if not self._has_begun:
            return False
        told, text = "".join(self._told), json.dumps(value, ensure_ascii=False)
        if text.startswith(told):
            self._out.write(text[len(told) :])
        elif not _is_same(told, text):
            raise IrregularCall
        return True

    def _write(self, text: str) -> None:
        self._told.append(text)
        if self._has_begun:
            self._out.write(text)
        elif text not in _OPENING:
            self._has_begun = True
            self._begin()
            self._out.write("".join(self._told))


def _is_same(told: str, text: str) -> bool:
    """Return whether two JSON texts are the same except for a repeated key."""
    try:
        return json.dumps(json.loads(told), ensure_ascii=False) == text
    except ValueError:
        return False


NULL = "null"
_CDATA = "<![CDATA["
_CDATA_END = re.compile(r"\](?:\](?:>\s*)?)?\Z")
# A string that is still undecided after this many characters is sent when it is complete.
_LONG = 64
_JSON_STARTS = frozenset('"-0123456789{[tfnNI')


class Trim(Enum):
    """What is removed around a string: white space, one line end, nothing, or the end of CDATA."""

    SPACE = auto()
    NEWLINE = auto()
    NOTHING = auto()
    CDATA_END = auto()


class ParameterValue:
    """One value while it arrives."""

    __slots__ = ("_begin", "_grows", "_has_cdata", "_head", "_held", "_is_begun", "_out",
                 "_raw", "_trim", "growing", "may_grow", "nested")  # fmt: skip

    def __init__(
        self, out: CallWriter, trim: Trim, begin: Callable[[], None], *, has_cdata: bool
    ) -> None:
        self._out = out
        self._begin = begin
        self._trim = trim
        self._has_cdata = has_cdata
        self._raw: list[str] = []
        self._head = ""
        self._held: list[str] = []
        self._is_begun = False
        self._grows: bool | None = None
        self.may_grow: Callable[[str], bool | None] = _never
        self.nested: Callable[[str], NestedValue | None] = _come_whole
        self.growing: NestedValue | None = None

    @property
    def raw(self) -> str:
        """The whole value as it was written, unless it grew as a string."""
        return "".join(self._raw)

    def add(self, piece: str) -> None:
        """Take more of it."""
        if self._grows:
            self._grow(piece)
            return
        self._raw.append(piece)
        if self.growing is not None:
            self.growing.append(piece)
        if self._grows is False:
            return
        if not self._is_begun:
            piece = self._without_start(piece)
            if not piece:
                return
        self._head += piece
        self._decide()

    def _without_start(self, piece: str) -> str:
        if self._trim is Trim.SPACE:
            piece = piece.lstrip()
            self._is_begun = bool(piece)
        else:
            self._is_begun = True
            if self._trim is Trim.NEWLINE:
                piece = piece.removeprefix("\n")
        return piece

    def _decide(self) -> None:
        """Decide from its beginning whether it is passed on as a string."""
        if self._has_cdata:
            if len(self._head) < len(_CDATA) and _CDATA.startswith(self._head):
                return
            self._has_cdata = False
            if self._head.startswith(_CDATA):
                self._trim = Trim.CDATA_END
                self._head = self._head.removeprefix(_CDATA)
        head = self._head[: self._kept(self._head)]
        self._grows = self.may_grow(head)
        if self._grows is None and len(self._head) > _LONG:
            self._grows = False
        if self._grows is False and head[:1] in ("{", "["):
            self.growing = self.nested(head[0])
            if self.growing is not None:
                self.growing.append(self._head)
        if self._grows:
            self._raw.clear()
            self._begin()
            self._out.write('"')
            self._grow(self._head)

    def is_no_null(self, head: str) -> bool | None:
        """Return whether a string certainly is not the word ``null``."""
        return None if NULL.startswith(head.lower()) else True

    def is_no_json(self, head: str) -> bool | None:
        """Return whether a value certainly is not JSON."""
        return head[0] not in _JSON_STARTS if head else None

    def _grow(self, piece: str) -> None:
        if self._held or (self._trim is Trim.SPACE and piece.isspace()):
            self._held.append(piece)
            if self._trim is Trim.SPACE and piece.isspace():
                return
            piece = "".join(self._held)
            self._held.clear()
        kept = self._kept(piece)
        if kept < len(piece):
            self._held.append(piece[kept:])
            piece = piece[:kept]
        self._out.write(escaped(piece))

    def _kept(self, text: str) -> int:
        """Return how many characters of a text belong to the value, whatever follows."""
        match self._trim:
            case Trim.SPACE:
                return len(text.rstrip())
            case Trim.NEWLINE:
                return len(text.removesuffix("\n"))
            case Trim.CDATA_END:
                match = _CDATA_END.search(text)
                return len(text) if match is None else match.start()
            case Trim.NOTHING:
                return len(text)

    def finish(self) -> bool:
        """End the value; return whether it was written. If not, ``raw`` must be converted."""
        if not self._grows:
            return False
        if self._trim is Trim.CDATA_END and not "".join(self._held).startswith("]]>"):
            raise IrregularCall
        self._out.write('"')
        return True


def _come_whole(opening: str) -> NestedValue | None:
    """Return None: a value with brackets is converted when it is complete."""
    return None


def _never(head: str) -> bool | None:
    """Return False: a value is converted when it is complete."""
    return False


# The text of a string is written at once, and so is JSON that the parser would take as JSON. The
# model's own parser converts any other value when it is complete: it parses a call with this
# parameter alone. The parser also tells which parameters are strings or JSON. Where every text
# that is not JSON is a string, as in ``muse_spark``, JSON is not written early: a file that only
# begins like JSON would have to be taken back.

# A parameter is a string if the parser leaves all of these unchanged.
_PROBES = ("5", "1.5", "true", "yes", "None", "[1]", '{"a": 1}', "'a'", '"a"', "(1,)", "a")
# Test values by their first character: a parameter that takes JSON leaves them unchanged.
_NESTED = {
    "[": '["5", "&lt;", {"a": "true"}, [1.5, 1.0, 1e3, true, null]]',
    "{": '{"a": "5", "&lt;": ["true"], "b": 1.5, "c": {"d": null}}',
}


@dataclass(slots=True)
class Conversions:
    """How the parser of a model converts single parameters, for one answer."""

    parse: CallParser
    _strings: dict[str, bool] = field(default_factory=dict)
    _nested: dict[tuple[str, str], bool] = field(default_factory=dict)

    def name_of(self, call: str) -> str:
        """Return the name of the tool in the text of a call without parameters."""
        return self._parsed(call)[0]

    def pair(self, call: str) -> tuple[str, object]:
        """Return a call's only parameter; raises ``IrregularCall`` if it has none or several."""
        arguments = self._parsed(call)[1]
        if not isinstance(arguments, dict) or len(arguments) != 1:
            raise IrregularCall
        [(key, value)] = arguments.items()
        if not isinstance(key, str):
            raise IrregularCall
        return key, value

    def are_strings(self, call_of: Callable[[str], str]) -> bool:
        """Return whether every value of a parameter is a string."""
        known = self._strings.get(call_of(""))
        if known is None:
            try:
                known = all(self.pair(call_of(probe))[1] == probe for probe in _PROBES)
            except IrregularCall:  # such as a parameter that must be a number
                known = False
            self._strings[call_of("")] = known
        return known

    def takes_json(self, call_of: Callable[[str], str], opening: str) -> bool:
        """Return whether a parameter takes JSON that begins with ``opening`` unchanged."""
        known = self._nested.get((call_of(""), opening))
        if known is None:
            text = _NESTED[opening]
            try:
                value = self.pair(call_of(text))[1]
                known = json.dumps(value) == json.dumps(json.loads(text))
            except (IrregularCall, TypeError, ValueError):
                known = False
            self._nested[call_of(""), opening] = known
        return known

    def _parsed(self, call: str) -> tuple[str, object]:
        try:
            [parsed] = self.parse(call, None)
        except ValueError as error:
            raise IrregularCall from error
        return parsed


class ParameterWriter:
    """Writes the parameters of one call as the fields of an object."""

    __slots__ = ("_before", "_conversions", "_out")

    def __init__(self, out: CallWriter, conversions: Conversions) -> None:
        self._out = out
        self._conversions = conversions
        self._before = "{"

    @property
    def is_open(self) -> bool:
        """Whether the object has begun."""
        return self._before != "{"

    def open(self) -> None:
        """Begin the object."""
        self._out.write(self._before)
        self._before = ""

    def key(self, key: str) -> None:
        """Begin a parameter whose value is certain to follow."""
        self._out.write(f'{self._before}"{escaped(key)}": ')
        self._before = ", "

    def pair(self, call: str, told: NestedValue | None = None) -> None:
        """Write a parameter that is complete, as the parser converts it."""
        key, value = self._conversions.pair(call)
        try:
            arguments_text({"value": value})
        except ValueError as error:
            raise IrregularCall from error
        if told is None or not told.finish(value):
            self.key(key)
            self._out.write(json.dumps(value, ensure_ascii=False))

    def nested(self, key: str, read: ReadValue) -> NestedValue:
        """Return a parameter's nested value, which is written while it arrives."""
        return NestedValue(read, lambda: self.key(key), self._out)

    def end(self) -> None:
        """Note that there are no more parameters."""
        self._out.owe("}" if self.is_open else "{}")

    def read(
        self,
        text: ArrivingText,
        ends: Sequence[str],
        call_of: Callable[[str], str],
        trim: Trim,
        *,
        may_be_json: bool = False,
        has_cdata: bool = False,
    ) -> Waiting[None]:
        """Read a parameter, including its end."""
        key = self._conversions.pair(call_of(NULL))[0]
        value = ParameterValue(self._out, trim, lambda: self.key(key), has_cdata=has_cdata)
        if self._conversions.are_strings(call_of):
            value.may_grow = value.is_no_null
        elif may_be_json:
            value.may_grow = value.is_no_json
        else:

            def nested(opening: str) -> NestedValue | None:
                if not self._conversions.takes_json(call_of, opening):
                    return None
                return self.nested(key, _read_json)

            value.nested = nested
        mark = yield from text.pass_on(ends, value.add)
        if mark != ends[0]:
            raise IrregularCall
        if not value.finish():
            self.pair(call_of(value.raw), value.growing)


def _read_json(text: ArrivingText, write: Callable[[str], object]) -> Waiting[None]:
    return json_value(text, Rewritten(write))
