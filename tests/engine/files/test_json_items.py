"""JSON as a stream: the same values as the parser's, item by item, in pieces of any size."""

import json
import random
from collections.abc import Iterator
from typing import Any

from engine.files.json_fields import DamagedFile
from engine.files.json_items import json_items

TEXTS = ("", 'a"b', "\\", 'x\\"y', "[{", "é😀\n", "\u2028", "s" * 40)


def pieces(raw: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(raw), size):
        yield raw[start : start + size]


def drawn(rng: random.Random, depth: int) -> Any:
    match rng.randrange(7 if depth else 3):
        case 0 | 1:
            return rng.choice(TEXTS)
        case 2:
            return rng.choice((1, -2.5e3, None, True))
        case 3 | 4:
            return [drawn(rng, depth - 1) for _ in range(rng.randrange(4))]
        case _:
            names = rng.sample(TEXTS, rng.randrange(4))
            return {name: drawn(rng, depth - 1) for name in names}


def test_items_are_those_of_the_parser_however_the_text_arrives() -> None:
    rng = random.Random(1)
    for _ in range(300):
        items, other = [drawn(rng, 4) for _ in range(rng.randrange(4))], drawn(rng, 3)
        raw = json.dumps(items, ensure_ascii=rng.random() < 0.5, indent=1).encode("utf-8-sig")
        assert [one.value for one in json_items(pieces(raw, rng.randrange(1, 9)))] == items
        raw = json.dumps({"x": other, "list": items, "y": [items]}).encode()
        found = json_items(pieces(raw, rng.randrange(1, 9)), ("list",))
        assert [(one.path, one.value) for one in found] == [
            ("x", other),
            *((f"list[{number}]", value) for number, value in enumerate(items)),
            ("y", [items]),
        ]


def test_damage_anywhere_is_told_and_nothing_else_is_raised() -> None:
    rng = random.Random(2)
    refused = 0
    for _ in range(500):
        raw = bytearray(json.dumps({"x": drawn(rng, 3), "list": [drawn(rng, 3)]}).encode())
        raw[rng.randrange(len(raw))] = rng.randrange(256)
        try:
            for one in json_items(pieces(bytes(raw[: rng.randrange(len(raw) + 1)]), 5), ("list",)):
                assert one.path
        except DamagedFile:
            refused += 1
    assert refused > 100
