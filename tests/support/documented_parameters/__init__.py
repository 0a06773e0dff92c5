"""The documented parameters of each API, and what becomes of them here."""

from typing import Any, Literal, NamedTuple

# Honoured: the answer follows it. Refused: 400 that names it. Named: the header
# x-fullstop-not-applied has it. Neutral: no value of it changes an answer.
Treatment = Literal["honoured", "refused", "named", "neutral"]
# By their names, dotted inside objects: a value that asks for something, and the treatment.
Documented = dict[str, tuple[Any, Treatment]]


class Beside(NamedTuple):
    """A value that has a meaning only beside other fields of the request."""

    value: Any
    fields: dict[str, Any]


SCHEMA = {"type": "object", "properties": {"a": {"type": "boolean"}}}
FUNCTION = {"name": "f", "description": "Calls", "parameters": SCHEMA}
TOOL = {"type": "function", "function": FUNCTION}
