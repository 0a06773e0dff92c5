"""What may become of a documented parameter, and how the tables are written.

A table maps a parameter's name, with dots into objects, to an example value other than its default
and its fate. ``Beside`` adds the fields without which the parameter has no meaning.
"""

from typing import Any, Literal, NamedTuple, TypeAlias

Fate = Literal["honoured", "refused", "named", "neutral"]


class Beside(NamedTuple):
    """A value that has a meaning only beside other fields of the request."""

    value: Any
    fields: dict[str, Any]


Table: TypeAlias = dict[str, tuple[Any, Fate]]

SCHEMA = {"type": "object", "properties": {"a": {"type": "boolean"}}}
FUNCTION = {"name": "f", "description": "Calls", "parameters": SCHEMA}
TOOL = {"type": "function", "function": FUNCTION}
