"""One value of a format that is not JSON: a string that is passed on, or a value to be converted.

Pure; any thread.
"""

import re
from collections.abc import Callable
from enum import Enum, auto

from engine.output.call_readers.arriving import CallWriter, IrregularCall
from engine.output.call_readers.json_text import escaped
from engine.output.call_readers.nested import NestedValue

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
                found = _CDATA_END.search(text)
                return len(text) if found is None else found.start()
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
