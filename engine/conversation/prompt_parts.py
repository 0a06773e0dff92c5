"""The parts of a request in the text of its prompt, and the part in which two prompts differ.

Texts are found as the template wrote them. Pure; any thread.
"""

import functools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.values.events import PromptPart
from engine.values.request import Message, Tool

_DATE = re.compile(
    r"\d{4}-\d\d?-\d\d?|\d{1,2}[:.]\d\d(?:[:.]\d\d)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}"
    r"|\d{1,2}\.? [A-Z][a-zä]{2,8}\.? \d{4}|[A-Z][a-z]{2,8}\.? \d{1,2},? \d{4}"
)
# The text before a message's own ends with a mark, such as ``<|user|>``, or with its role.
_HEADER_END = re.compile(r"(?:[>\]:|}]|user|assistant|model|system|tool|human|\A)\s*\Z", re.I)


class Part(NamedTuple):
    """The text of one part of a request, from ``start`` to ``end`` in characters.

    ``message`` counts from 1, without system texts; 0 for these and for tools.
    """

    kind: PromptPart
    message: int
    role: str
    start: int
    end: int

    @property
    def key(self) -> tuple[PromptPart, int]:
        return self.kind, self.message


@dataclass(frozen=True)
class RenderedPrompt:
    """A prompt's text, of which ``tokens`` tokens are made, and its request's messages and tools.

    Without a text, its tokens are all that is known. ``thinks`` where its end opens reasoning.
    """

    text: str = ""
    tokens: int = 0
    messages: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] = ()
    thinks: bool = False

    @functools.cached_property
    def parts(self) -> tuple[Part, ...]:
        """The parts in order; they are located only where two prompts differ."""
        found = list(_contents(self.text, self.messages))
        tools = _tools(self.text, found, self.tools)
        details = _details(self.text, self.messages, found)
        return tuple(sorted([*found, *details, *tools], key=lambda part: part.start))

    def part_at(self, char: int) -> Part | None:
        """Return the part that a character belongs to, its header included; None after all."""
        return next((part for part in self.parts if char < part.end), None)

    @property
    def size_bytes(self) -> int:
        """Roughly the memory of its text, which the messages and tools have a second time."""
        return 2 * len(self.text)


def _numbered(messages: Sequence[Message]) -> Iterator[tuple[int, Message]]:
    number = 0
    for message in messages:
        is_system = message.role == "system"
        number += not is_system
        yield (0 if is_system else number), message


def _contents(text: str, messages: Sequence[Message]) -> Iterator[Part]:
    position = 0
    for number, message in _numbered(messages):
        content = message.content.strip()
        if content and (start := _find(text, content, position)) >= 0:
            position = start + len(content)
            kind = PromptPart.MESSAGE if number else PromptPart.SYSTEM
            yield Part(kind, number, message.role, start, position)


def _find(text: str, content: str, position: int) -> int:
    """Return where a message's text begins: behind a header, where it is in several places."""
    first = start = text.find(content, position)
    while start >= 0:
        if _HEADER_END.search(text[max(position, start - 40) : start]):
            return start
        if len(content) > 200:  # hardly in two places
            break
        start = text.find(content, start + 1)
    return first


def _gap(text: str, contents: Sequence[Part], number: int) -> tuple[int, int]:
    """Return the text between the contents around a message without system texts."""
    before = [part.end for part in contents if part.message and part.message < number]
    after = [part.start for part in contents if part.message >= number]
    return max(before, default=0), min(after, default=len(text))


def _details(text: str, messages: Sequence[Message], contents: Sequence[Part]) -> Iterator[Part]:
    """Yield the reasoning and the calls of earlier answers."""
    position = 0
    for number, message in _numbered(messages):
        if not (message.thinking.strip() or message.tool_calls):
            continue
        thinking = message.thinking.strip()
        begin, end = _gap(text, contents, number)
        if thinking and (start := text.find(thinking, max(begin, position), end)) >= 0:
            position = start + len(thinking)
            yield Part(PromptPart.THINKING, number, message.role, start, position)
        begin, _ = _gap(text, contents, number + 1)
        _, end = _gap(text, contents, number + 1)
        position = max(position, begin)
        for call in message.tool_calls:
            if (start := text.find(call.name, position, end)) < 0:
                break
            position = start + len(call.name)
            for value in _leaves(call.arguments):
                if (at := text.find(value, position, end)) >= 0:
                    position = at + len(value)
            yield Part(PromptPart.MESSAGE, number, message.role, start, position)


def _leaves(arguments: str) -> Iterator[str]:
    """Yield the values of a call's arguments as texts."""
    try:
        values: list[Any] = [json.loads(arguments)]
    except ValueError:
        return
    while values:
        value = values.pop(0)
        if isinstance(value, dict):
            values = [*value.values(), *values]
        elif isinstance(value, list):
            values = [*value, *values]
        else:
            yield value if isinstance(value, str) else json.dumps(value)


def _tools(text: str, contents: Sequence[Part], tools: Sequence[Tool]) -> Iterator[Part]:
    """Yield the list of tools: it is between two contents, where most of their texts are."""
    texts = [word for tool in tools for word in (tool.name, _escaped(tool.description)) if word]
    bounds = [0, *(place for part in contents for place in (part.start, part.end)), len(text)]
    best, count = (0, 0), 0
    for begin, end in zip(bounds[::2], bounds[1::2], strict=True):
        starts = [at for word in texts if (at := text.find(word, begin, end)) >= 0]
        if len(starts) > count:
            best, count = (min(starts), end), len(starts)
    if count:
        yield Part(PromptPart.TOOLS, 0, "", *best)


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


class Place(NamedTuple):
    """The part of a request in which two prompts differ."""

    kind: PromptPart
    message: int = 0
    role: str = ""


def differing_part(
    new: RenderedPrompt,
    old: RenderedPrompt,
    char: int,
    texts: tuple[str, str],
    *,
    in_thinking: bool,
) -> Place:
    """Return the part in which two prompts first differ, at a character of both texts.

    The texts are those of the new prompt and of the earlier one with its answer;
    ``in_thinking`` where the difference is in the reasoning of that answer.
    """
    if not new.parts or not old.parts:
        return Place(PromptPart.PROMPT)
    here, before = new.part_at(char), old.part_at(char)
    last = max(part.message for part in old.parts)
    if before is None and (here is None or here.message > last):
        message, role = (0, "") if here is None else (here.message, here.role)
        if in_thinking or (char < len(old.text) and old.thinks):
            return Place(PromptPart.THINKING, message, role)
        if char < len(old.text) or here is None:
            return Place(PromptPart.ANSWER_OPENING, message, role)
        return Place(here.kind, message, role)
    part = _earlier(new, old, here, before)
    if all(one is None or char < one.start for one in (here, before)):
        if all(_is_date_at(text, char) for text in texts):
            return Place(PromptPart.DATE)
        if here is not None and before is not None and here.key == before.key:
            is_first = here == new.parts[0] and before == old.parts[0]
            if part.kind is PromptPart.TOOLS or is_first:
                return Place(PromptPart.TEMPLATE)
    return Place(part.kind, part.message, part.role)


def _earlier(
    new: RenderedPrompt, old: RenderedPrompt, here: Part | None, before: Part | None
) -> Part:
    """Return which of two parts comes first; one of them may be in one prompt alone."""
    if here is None or before is None:
        only = here or before
        assert only is not None
        return only
    for parts in (new.parts, old.parts):
        order = [part.key for part in parts]
        if here.key in order and before.key in order:
            return min(here, before, key=lambda part: order.index(part.key))
    return here


def _is_date_at(text: str, char: int) -> bool:
    begin = max(0, char - 30)
    dates = _DATE.finditer(text[begin : char + 30])
    return any(date.start() <= char - begin <= date.end() for date in dates)
