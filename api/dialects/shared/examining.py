"""Checks a large body before parsing it, and refuses what no model could read.

Python objects are many times as large as their JSON, so values are counted before they are made.
Runs in a helper process, whose time and memory are limited. Pure; knows no vendor.
"""

import itertools
import json
import re
from collections.abc import Collection, Sequence
from typing import Any, TypeVar

from api.dialects.shared.body import WireModel, parsed
from api.transport.errors import ApiError, ContextOverflow, ErrorKind, invalid
from engine.files.text_memory import WIDEST, text_memory

# Limits of the whole body: parsing more would take too much memory.
_MOST_VALUES = 1_000_000
_MOST_READ = 600_000
# Limit of the request without unknown fields: passing on more would take too long.
_MOST_KEPT = 150_000
_MOST_MESSAGES = 100_000
MESSAGES = ("messages", "input")
_TOKEN_IDS = ("prompt", "input_ids")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
# Replaces a long list of numbers; the number of its items follows.
_FOLDED = -9_007_199_254_740_993_007

_COMMA, _OPENING = ord(","), b"{["
_TEXTS = ("prompt", "text")
# The same rule by which the engine checks a prompt before tokenizing: templates drop white space,
# and tokenizers combine characters.
_LONG_TEXT = 1_000_000
_SHRINKING = 2

_Model = TypeVar("_Model", bound=WireModel)


def examined(
    raw: bytes, model: type[_Model], context: int | None, longest: int | None = None
) -> _Model:
    """Return a large body as a wire model."""
    _check_token_ids(raw, model, context)
    _check_counts(raw)
    params = parsed(raw, model)
    _check_messages(params, context)
    if context is not None and longest is not None:
        _check_texts(params, context, longest)
    _check_kept(params)
    return params


def check_text_memory(raw: bytes, most_bytes: int) -> None:
    """Refuse a body whose text takes more memory than the largest body of ASCII would."""
    if len(raw) * WIDEST > most_bytes and (why := text_memory(raw).excess(most_bytes)):
        raise ApiError(ErrorKind.TOO_LARGE, f"the body takes too much memory: {why}")


def _check_token_ids(raw: bytes, model: type[WireModel], context: int | None) -> None:
    """Refuse prompts of token ids that are longer than the context, without parsing the ids."""
    fields = [name for name in _TOKEN_IDS if name in model.model_fields]
    if context is None or not fields or raw.count(b",") < context - 1:
        return
    long_list = re.compile(rb"\[\s*+-?\d++(?:\s*+,\s*+-?\d++){%d,}+\s*+\]" % max(context - 1, 1))
    folded, count = long_list.subn(_fold, raw)
    if not count or _is_beyond(folded):
        return
    try:
        value = json.loads(folded)
    except (ValueError, RecursionError):
        return  # parsing the body itself reports the error
    if not isinstance(value, dict):
        return
    for name in fields:
        prompts = value.get(name)
        if not isinstance(prompts, list):
            continue
        sizes = [_folded_size(one) for one in (prompts, *prompts)]
        if longest := max(sizes):
            raise ContextOverflow((name,), longest, context)


def _fold(found: re.Match[bytes]) -> bytes:
    return b"[%d,%d]" % (_FOLDED, found[0].count(b",") + 1)


def _folded_size(value: object) -> int:
    if isinstance(value, list) and len(value) == 2 and value[0] == _FOLDED:
        return int(value[1])
    return 0


def _check_counts(raw: bytes) -> None:
    if not _is_beyond(raw):
        return
    # Brackets and commas in strings do not count. Strings are left out only if it matters, because
    # that takes time, and are not copied, because there may be millions.
    values = objects = start = 0
    for string in itertools.chain(_STRING.finditer(raw), (None,)):
        end = len(raw) if string is None else string.start()
        if end > start + 1:
            values += raw.count(b",", start, end)
            objects += raw.count(b"{", start, end) + raw.count(b"[", start, end)
        elif end > start:
            values += raw[start] == _COMMA
            objects += raw[start] in _OPENING
        if values >= _MOST_VALUES:
            raise ApiError(
                ErrorKind.TOO_LARGE,
                f"the body holds more than {_MOST_VALUES:,} values; send fewer, and prompts as "
                "text",
            )
        if objects > _MOST_READ:
            raise ApiError(
                ErrorKind.TOO_LARGE,
                f"the body holds more than {_MOST_READ:,} objects and lists; send fewer",
            )
        start = 0 if string is None else string.end()


def _is_beyond(raw: bytes) -> bool:
    return raw.count(b",") >= _MOST_VALUES or raw.count(b"{") + raw.count(b"[") > _MOST_READ


def _check_messages(params: WireModel, context: int | None) -> None:
    for name in MESSAGES:
        turns = getattr(params, name, None)
        if not isinstance(turns, Sequence) or isinstance(turns, str):
            continue
        if context is not None and len(turns) >= context:  # each is a token at least
            raise ContextOverflow((name,), len(turns), context)
        if len(turns) > _MOST_MESSAGES:
            raise invalid((name,), f"at most {_MOST_MESSAGES:,} are possible, got {len(turns):,}")


def _check_texts(params: WireModel, context: int, longest: int) -> None:
    """Refuse texts that are too long however they are tokenized, as the engine would."""
    sizes = {name: _longest_text(getattr(params, name, None)) for name in _TEXTS}
    sizes |= {name: _size_of_turns(getattr(params, name, None)) for name in MESSAGES}
    for name, size in sizes.items():
        least = size // (longest * _SHRINKING)
        if size > _LONG_TEXT and least >= context:
            raise ContextOverflow((name,), least, context)


def _longest_text(prompts: object) -> int:
    texts = prompts if isinstance(prompts, list) else [prompts]
    return max((len(one) for one in texts if isinstance(one, str)), default=0)


def _size_of_turns(turns: object) -> int:
    """Return the characters of all turns but the assistant's, whose reasoning may be left out."""
    total = 0
    for turn in turns if isinstance(turns, list) else ():
        if getattr(turn, "role", "assistant") == "assistant":
            continue
        content = getattr(turn, "content", None)
        texts = (
            [getattr(part, "text", None) for part in content] if isinstance(content, list) else []
        )
        total += sum(len(one.strip()) for one in (content, *texts) if isinstance(one, str))
    return total


def _check_kept(params: WireModel) -> None:
    left = _MOST_KEPT
    places: list[Any] = [params]
    inner: Collection[Any]
    while places:
        place = places.pop()
        if isinstance(place, WireModel):
            inner = place.__dict__.values()
        elif isinstance(place, dict):
            inner = place.values()
        elif isinstance(place, (list, tuple)):
            inner = place if place and isinstance(place[0], (WireModel, dict, list)) else ()
        else:
            continue
        left -= 1
        if left < 0:
            raise ApiError(
                ErrorKind.TOO_LARGE,
                f"the request consists of more than {_MOST_KEPT:,} objects and lists; send fewer",
            )
        places.extend(inner)
