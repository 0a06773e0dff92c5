"""Names the fields of an export that have no place here, so that nothing is lost unnoticed.

What becomes of each field is declared for each program, in lines such as::

    mapping.*.message: id~ create_time content! citations=source

The field is kept; with ``~`` it is a mark that only the other program needs, such as an id; with
``!`` it is kept with all that is inside; with ``=`` it is not kept, and a person would call it so.
Any other field that has a value is named. Pure; any thread.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

# A hostile file may have a million names, or one as long as a page.
_MOST_NAMES, _MOST_NAME_CHARS = 60, 60
_ANY = "*"
FIELD, MARK, SETTING = "field", "mark of the program", "setting"

Shape = Mapping[str, Any]


def shape_of(declared: str) -> Shape:
    """Return the fields that are declared."""
    shape: dict[str, Any] = {}
    for line in declared.strip().splitlines():
        place, _, names = line.strip().rpartition(":")
        inside = shape
        for step in place.split(".") if place else ():
            inside = inside.setdefault(step, {})
            if not isinstance(inside, dict):
                raise ValueError(f"{place} is declared as a whole")
        for name in names.split():
            bare, _, noun = name.partition("=")
            mark = noun.replace("_", " ") if noun else name[-1]
            bare = bare.rstrip("!~")
            if name != bare:
                inside[bare] = mark
            else:
                inside.setdefault(bare, {})
    return shape


def note_fields(values: Any, shape: Shape, left_out: Counter[str]) -> None:
    """Count the fields of a conversation that are not kept, by their names."""
    names: Counter[str] = Counter()
    _note(values, shape, "", names)
    for name, count in names.most_common(_MOST_NAMES):
        left_out[name] += count
    if more := sum(count for _, count in names.most_common()[_MOST_NAMES:]):
        left_out[f"{FIELD}: others"] += more


def _note(values: Any, shape: Shape, place: str, names: Counter[str]) -> None:
    if isinstance(values, list):
        for value in values:
            if isinstance(value, dict | list):
                _note(value, shape, place, names)
        return
    if not isinstance(values, dict):
        return
    for name, value in values.items():
        if value is None or value in ("", [], {}):
            continue
        known = shape.get(name, shape.get(_ANY))
        if isinstance(known, Mapping):
            if isinstance(value, dict | list):
                inner = place if _ANY in shape and name not in shape else f"{place}.{name}"
                _note(value, known, inner, names)
        elif known != "!":
            kind = FIELD if known is None else MARK if known == "~" else known
            count = len(value) if isinstance(value, list) else 1
            names[f"{kind}: {f'{place}.{name}'.lstrip('.')[:_MOST_NAME_CHARS]}"] += count
