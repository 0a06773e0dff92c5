"""What the text of a tool call says, and the header of a Harmony message."""

import json
import re
from typing import Any

from engine.stopping.record import Channel

Calls = tuple[tuple[str, Any], ...]


_DECODER = json.JSONDecoder(strict=False)
_HEAD = re.compile(r"\s*([\w.-]+)\s*(?:\[ARGS\]\s*|(?=\{))")


def parsed_calls(
    raw: str, *, has_brackets: bool, is_cut: bool, marks: tuple[str, ...]
) -> tuple[Calls, str] | None:
    """Return the calls in a text and the text behind them; None if it begins with no call.

    Args:
        raw: The text between the tags.
        has_brackets: Whether it is written ``name[ARGS]{…}`` and not as JSON.
        is_cut: Whether a stop or a limit ended it, so that no bracket is added.
        marks: The tags of calls, which may stand between two.
    """
    begin = "^(?:" + "|".join([r"\s", *map(re.escape, marks)]) + ")*"
    text = re.sub(begin, "", raw.strip())
    texts = [text]
    if not is_cut and text[-1:] not in set("{[,:"):
        # One bracket too few at the end; more are no call.
        texts += [text + end for end in "}]" if not (text + end).endswith(marks)]
    if text.endswith(("}", "]")):
        texts.append(text[:-1].rstrip())  # one too many
    for one in texts:
        if (found := _read(one, has_brackets, marks)) and not found[1]:
            return found
    return _read(text, has_brackets, marks)


def _read(text: str, has_brackets: bool, marks: tuple[str, ...]) -> tuple[Calls, str] | None:
    calls: list[tuple[str, Any]] = []
    while text:
        try:
            found, rest = _one(text, has_brackets)
        except ValueError:
            break
        between = r"\s" if has_brackets else r"[\s,;]"
        rest = re.sub("^(?:" + "|".join([between, *map(re.escape, marks)]) + ")*", "", rest)
        # What goes on as the same object would is a call that was misread.
        if rest[:1] in set(",:\"'}]"):
            break
        calls += found
        text = rest
    return (tuple(calls), text) if calls else None


def _one(text: str, has_brackets: bool) -> tuple[Calls, str]:
    """Return the calls that one object or list at the beginning of a text holds, and the rest."""
    if has_brackets and not text.startswith(("[", "{")):
        head = _HEAD.match(text)
        if head is None:
            raise ValueError("no head")
        given, end = _DECODER.raw_decode(text, head.end())
        if not isinstance(given, dict):
            raise ValueError("no object")
        return ((head[1], given),), text[end:]
    found, end = _DECODER.raw_decode(text)
    calls: list[tuple[str, Any]] = []
    for call in found if isinstance(found, list) else [found]:
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            raise ValueError("no call")
        arguments = _object(call.get("arguments"))
        if not call["name"] or arguments is None:
            raise ValueError("no call")
        if not call.get("arguments") and call.keys() - {"name", "arguments"}:
            raise ValueError("something that is not an argument")
        calls.append((call["name"], arguments))
    if not calls:
        raise ValueError("no call")
    return tuple(calls), text[end:]


def parsed_arguments(raw: str, name: str, *, is_cut: bool) -> tuple[Calls, str] | None:
    """Return the call of the tool that a Harmony message names; None if the text is not a call."""
    text = raw.strip()
    texts = [text]
    if text[-1:] in ("}", "]"):
        texts.append(text[:-1].rstrip())
    if not is_cut and text[-1:] not in set("{[,:"):
        texts.append(text + "}")
    for one in texts:
        if (arguments := _object(one)) is not None and (one or not text):
            return ((name, arguments),), ""
    return None


def _object(value: object) -> dict[str, Any] | None:
    """Return the one object that arguments are; none at all, or its text, will do."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return {}
    try:
        found = json.loads(value.strip()) if isinstance(value, str) else value
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def opened_by(header: str) -> tuple[Channel, str]:
    """Return the channel of the message that a Harmony header opens, and the tool it calls."""
    recipient = re.search(r"(?:^|[\s>])to=([^\s<]+)", header)
    name = recipient[1].removeprefix("functions.") if recipient else ""
    if name:
        return Channel.TOOL, name
    named = header.rpartition("<|channel|>")
    words = re.split(r"<\|\w+\|>", named[2])[0].split()
    is_analysis = bool(named[1]) and words[:1] == ["analysis"]
    return (Channel.THINKING if is_analysis else Channel.TEXT), ""
