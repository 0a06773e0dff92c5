"""Checks the arguments of a tool call: the JSON text of one object. Pure; any thread."""

import json
import math
from typing import Any, NoReturn

# Clients' own parsers give up at about this depth (Rust's serde_json at 128).
MAX_DEPTH = 128


def arguments_object(text: str) -> dict[str, Any]:
    """Return the arguments of a call as an object."""
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError(f"the arguments are nested more than {MAX_DEPTH} levels deep") from None
    if not isinstance(value, dict):
        raise ValueError("the arguments of a tool call must be a JSON object")
    if _is_deeper(value, MAX_DEPTH):
        raise ValueError(f"the arguments are nested more than {MAX_DEPTH} levels deep")
    text.encode("utf-8")  # refuses half of a surrogate pair
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def arguments_text(value: object) -> str:
    """Return the arguments that a parser found as the text of one JSON object."""
    if isinstance(value, str):
        text = value.strip() or "{}"
    else:
        try:
            text = "{}" if value is None else json.dumps(value, ensure_ascii=False, allow_nan=False)
        except (TypeError, RecursionError) as error:
            raise ValueError(f"the arguments cannot be written as JSON: {error}") from error
    arguments_object(text)
    return text


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("a number is too large")
    return value


def _is_deeper(value: object, limit: int) -> bool:
    """Whether objects and lists are nested more than ``limit`` deep; level by level."""
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for one in level
            for inner in (
                one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
            )
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True
