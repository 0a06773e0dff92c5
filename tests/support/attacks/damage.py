"""Damages texts and bytes like disks, editors and strangers; the same seed does the same damage."""

import copy
import json
import random
from collections.abc import Callable
from typing import Any

# Values that no field expects, and values at which parsers and databases fail.
ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1 << 63,
    1 << 70,
    -(1 << 200),
    10**4000,
    1e308,
    float("nan"),
    float("inf"),
    -0.5,
    "",
    " ",
    "\x00",
    "\ud800",
    "a\udc00b",
    "\x1b[2J\x9b\u202e\u2066",
    "x" * 20_000,
    "é" * 3,
    [],
    [[]],
    [None],
    [[1, 2, 3]],
    {},
    {"": None},
    {"id": 5},
)
_ODD_TEXTS = (
    "9" * 5_000,
    "-" + "9" * 5_000,
    "1e999999",
    "NaN",
    "-Infinity",
    '"\\ud800"',
    "[" * 100_000,
    '{"a":' * 100_000,
    "\x00",
    "\ufeff",
    "/* no */",
)


def damaged(rng: random.Random, text: str) -> bytes:
    """Return a JSON text with a few faults: in its values, its characters, or its bytes."""
    harm = rng.choice((_other_values, _other_values, _other_values, _odd_text, _other_bytes))
    return harm(rng, text)


def flipped(rng: random.Random, content: bytes, most: int = 8) -> bytes:
    """Return the content with up to ``most`` bytes changed."""
    changed = bytearray(content)
    for _ in range(rng.randint(1, most)):
        if changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _other_values(rng: random.Random, text: str) -> bytes:
    """Change, drop or move values of the object, which stays JSON."""
    values = json.loads(text)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        holder, key = rng.choice(_find_starts(values) or [([values], 0)])
        _CHANGES[rng.randrange(len(_CHANGES))](rng, holder, key)
    # Lone surrogates as escapes, as JavaScript writes them.
    return json.dumps(values).encode()


def _odd_text(rng: random.Random, text: str) -> bytes:
    at = rng.randrange(len(text) + 1)
    end = at if rng.random() < 0.5 else min(len(text), at + rng.randrange(1, 40))
    return (text[:at] + rng.choice(_ODD_TEXTS) + text[end:]).encode("utf-8", "surrogatepass")


def _other_bytes(rng: random.Random, text: str) -> bytes:
    content = text.encode("utf-8", "surrogatepass")
    match rng.randrange(4):
        case 0:
            return flipped(rng, content)
        case 1:
            return content[: rng.randrange(len(content) + 1)]
        case 2:
            at, length = rng.randrange(len(content) + 1), rng.randrange(1, 200)
            return content[:at] + bytes(length) + content[at + length :]
        case _:
            return content + content[: rng.randrange(len(content) + 1)]


def _find_starts(value: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) within a value."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            inner: list[tuple[Any, Any]] = [(one, key) for key in one]
        elif isinstance(one, list):
            inner = [(one, index) for index in range(len(one))]
        else:
            continue
        found += inner
        waiting += [one[key] for _, key in inner]
    return found


def _replace(rng: random.Random, holder: Any, key: Any) -> None:
    holder[key] = copy.deepcopy(rng.choice(ODD_VALUES))


def _drop(rng: random.Random, holder: Any, key: Any) -> None:
    try:
        del holder[key]
    except LookupError:
        return


def _wrap(rng: random.Random, holder: Any, key: Any) -> None:
    _change_if_there(holder, key, lambda value: [copy.deepcopy(value)])


def _repeat(rng: random.Random, holder: Any, key: Any) -> None:
    _change_if_there(holder, key, lambda value: value * 2 if isinstance(value, str | list) else {})


def _change_if_there(holder: Any, key: Any, change: Callable[[Any], Any]) -> None:
    try:
        holder[key] = change(holder[key])
    except LookupError:
        return


_CHANGES = (_replace, _replace, _replace, _drop, _wrap, _repeat)
