"""Values of JSON files are checked against the types that they are read as."""

from dataclasses import dataclass
from typing import Any

import pytest

from engine.files.json_fields import DamagedFile, Fields, from_values, to_values
from engine.stopping.record import Channel


@dataclass(frozen=True)
class Record:
    name: str
    channel: Channel = Channel.TEXT
    odds: tuple[tuple[int, float], ...] = ()
    ends: dict[str, int] | None = None
    raw: bytes = b""


RECORD = Record("a", Channel.THINKING, ((1, -1.5), (2, float("-inf"))), {"b": 3}, b"\xff")


def test_dataclass_survives_its_json_values() -> None:
    values = to_values(RECORD)
    assert from_values(Record, {**values, "a field of a later version": 1}) == RECORD
    assert to_values(Record("a")) == {"name": "a"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": None}, r"run\.name: must be text"),
        ({"channel": "odd"}, r"run\.channel: must be one of text, "),
        ({"odds": [[1, 0.5], [2, "x"]]}, r"run\.odds\[1\]\[1\]: must be a number"),
        ({"odds": [[1]]}, r"run\.odds\[0\]: must have 2 items"),
        ({"ends": {"b": 1.5}}, r"run\.ends\.b: must be a whole number"),
        ({"raw": "f"}, r"run\.raw: must be bytes in hexadecimal digits"),
        ({"name": "\ud800"}, r"run: contains half of a character"),
    ],
)
def test_damaged_value_is_named(change: dict[str, Any], message: str) -> None:
    fields = Fields({"run": {**to_values(RECORD), **change}})
    with pytest.raises(DamagedFile, match=message):
        fields.take("run", Record)
