"""Values of parameters in formats that are not JSON, written as JSON while they come.

The text of a string grows. Any other value is converted when it is complete, by the model's own
parser: it is given a call that has this parameter alone. The parser is also asked which parameters
are strings, so that what is told here never differs from what it says in the end. Pure; any thread.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from engine.output.arguments import arguments_text
from engine.output.call_readers.arriving import (
    ArrivingText,
    CallParser,
    CallWriter,
    IrregularCall,
    Waiting,
)
from engine.output.call_readers.json_text import escaped

# A parameter is a string if all of these stay as they are.
_PROBES = ("5", "1.5", "true", "yes", "None", "[1]", '{"a": 1}', "'a'", '"a"', "(1,)", "a")
_NULL = "null"
_CDATA = "<![CDATA["
_CDATA_END = re.compile(r"\](?:\](?:>\s*)?)?\Z")
# A string that begins with the word for no value and much white space need not grow.
_LONG = 64
_JSON_STARTS = frozenset('"-0123456789{[tfnNI')


@dataclass(slots=True)
class Conversions:
    """What the parser of a model says of single parameters; of one answer alone.

    Attributes:
        parse: The parser.
    """

    parse: CallParser
    _strings: dict[str, bool] = field(default_factory=dict)

    def name_of(self, call: str) -> str:
        """Return the tool that the text of a call without parameters names.

        Raises:
            IrregularCall: The parser finds no call there, or not one.
        """
        return self._parsed(call)[0]

    def pair(self, call: str) -> tuple[str, object]:
        """Return the only parameter of a call; raises ``IrregularCall`` if there is not one."""
        arguments = self._parsed(call)[1]
        if not isinstance(arguments, dict) or len(arguments) != 1:
            raise IrregularCall
        [(key, value)] = arguments.items()
        if not isinstance(key, str):
            raise IrregularCall
        return key, value

    def are_strings(self, call_of: Callable[[str], str]) -> bool:
        """Return whether every value of a parameter is a string.

        Args:
            call_of: Makes the text of a call of a value.
        """
        known = self._strings.get(call_of(""))
        if known is None:
            try:
                known = all(self.pair(call_of(probe))[1] == probe for probe in _PROBES)
            except IrregularCall:  # it is no number, say
                known = False
            self._strings[call_of("")] = known
        return known

    def _parsed(self, call: str) -> tuple[str, object]:
        try:
            [found] = self.parse(call, None)
        except ValueError as error:
            raise IrregularCall from error
        return found


class Trim(Enum):
    """What is left out around a string: white space, one newline, nothing, the end of CDATA."""

    SPACE = auto()
    NEWLINE = auto()
    NOTHING = auto()
    CDATA_END = auto()


class ParameterWriter:
    """Writes the parameters of one call as the fields of an object.

    Args:
        out: Takes the text.
        conversions: What the parser says.
    """

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

    def pair(self, call: str) -> None:
        """Write a parameter that is complete, as the parser converts it.

        Args:
            call: The text of a call that has this parameter alone.

        Raises:
            IrregularCall: The parser takes it otherwise, or it cannot be an argument.
        """
        key, value = self._conversions.pair(call)
        try:
            arguments_text({"value": value})
        except ValueError as error:
            raise IrregularCall from error
        self.key(key)
        self._out.write(json.dumps(value, ensure_ascii=False))

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
        """Read a parameter up to and with its end.

        Args:
            text: Where its value begins.
            ends: Its end, and what may not come before it.
            call_of: Makes the text of a call that has this parameter alone, of a value.
            trim: What is left out around a string.
            may_be_json: Whether a value that is not JSON is a string.
            has_cdata: Whether a string may stand in a CDATA section.

        Raises:
            IrregularCall: The parser would not take it.
        """
        key = self._conversions.pair(call_of(_NULL))[0]
        value = _Value(self._out, trim, lambda: self.key(key), has_cdata=has_cdata)
        if self._conversions.are_strings(call_of):
            value.may_grow = value.is_no_null
        elif may_be_json:
            value.may_grow = value.is_no_json
        mark = yield from text.pass_on(ends, value.add)
        if mark != ends[0]:
            raise IrregularCall
        if not value.finish():
            self.pair(call_of(value.raw))


class _Value:
    """One value while it comes.

    Args:
        out: Takes the text of a string that grows.
        trim: What is left out around it.
        begin: Called before the first of it is written.
        has_cdata: Whether it may stand in a CDATA section.

    Attributes:
        may_grow: Tells of its beginning whether it is certainly a string; None where that is not
            known yet.
    """

    __slots__ = ("_begin", "_grows", "_has_cdata", "_head", "_held", "_is_begun", "_out",
                 "_raw", "_trim", "may_grow")  # fmt: skip

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
        """Find out from its beginning whether it can grow."""
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
        if self._grows:
            self._raw.clear()
            self._begin()
            self._out.write('"')
            self._grow(self._head)

    def is_no_null(self, head: str) -> bool | None:
        """Return whether a string cannot be the word for no value."""
        return None if _NULL.startswith(head.lower()) else True

    def is_no_json(self, head: str) -> bool | None:
        """Return whether a value cannot be JSON."""
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
        """Return how much of the text belongs to the value, whatever follows."""
        match self._trim:
            case Trim.SPACE:
                return len(text.rstrip())
            case Trim.NEWLINE:
                return len(text.removesuffix("\n"))
            case Trim.CDATA_END:
                found = _CDATA_END.search(text)
                return len(text) if found is None else found.start()
            case Trim.NOTHING:
                return len(text)

    def finish(self) -> bool:
        """End it; return whether it grew as a string, else ``raw`` has to be converted."""
        if not self._grows:
            return False
        if self._trim is Trim.CDATA_END and not "".join(self._held).startswith("]]>"):
            raise IrregularCall
        self._out.write('"')
        return True


def _never(head: str) -> bool | None:
    """Let a value come whole."""
    return False
