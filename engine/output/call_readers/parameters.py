"""Values of parameters in formats that are not JSON, written as JSON while they arrive.

The text of a string is written at once, and so is JSON that the parser would take as JSON. The
model's own parser converts any other value when it is complete: it parses a call with this
parameter alone. The parser also tells which parameters are strings or JSON. Where every text that
is not JSON is a string, as in ``muse_spark``, JSON is not written early: a file that only begins
like JSON would have to be taken back. Pure; any thread.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.output.arguments import arguments_text
from engine.output.call_readers.arriving import (
    ArrivingText,
    CallParser,
    CallWriter,
    IrregularCall,
    Waiting,
)
from engine.output.call_readers.json_text import Rewritten, escaped, json_value
from engine.output.call_readers.nested import NestedValue, ReadValue
from engine.output.call_readers.parameter_value import NULL, ParameterValue, Trim

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
            [found] = self.parse(call, None)
        except ValueError as error:
            raise IrregularCall from error
        return found


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
