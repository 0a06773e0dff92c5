"""The parts of a request in its prompt, the ones in no part of it, and where two prompts differ.

The conversation is rendered a second time with marks around each text of the request: the marks
that the template writes are the places of its parts. Pure; any thread.
"""

import functools
import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from engine.errors import EngineError
from engine.values.events import PromptPart
from engine.values.request import PICTURE_MARK, GenerationRequest, Message
from engine.values.unanswered_prompt import Part

_DATE = re.compile(
    r"\d{4}-\d\d?-\d\d?|\d{1,2}[:.]\d\d(?:[:.]\d\d)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}"
    r"|\d{1,2}\.? [A-Z][a-zä]{2,8}\.? \d{4}|[A-Z][a-z]{2,8}\.? \d{1,2},? \d{4}"
)
# Marks that no text contains: letters and digits, which no template escapes.
_MARK = re.compile(r"zqfs(\d{1,9})([ab])qz")
# The JSON around the name of a tool or call, and after its last value.
_HEAD = re.compile(
    r'(?:\{\s*"type"\s*:\s*"function"\s*,\s*"function"\s*:\s*)?\{\s*"name"\s*:\s*"\Z'
)
_CLOSERS = re.compile(r'["\]}]*')
_MAX_HEAD = 80
# Values that a template may write in another form: each is searched for in the whole call.
_MAX_UNFOUND = 100
_IN_PART = " (in part)"
_DESCRIPTION = ".description"
_IMAGE = " (image)"
# The text that an API puts in the place of an image, or of a file of another kind.
IMAGE_NOTE = re.compile(r"\[\w+ not shown(?: \([a-z0-9/.+-]+\))?: [a-z ]+\.\]")
OPENING = "answer_opening"
BEGUN = "begun"


class _Text(NamedTuple):
    """One text of a request; ``values`` are those of the JSON after the name of a tool or call."""

    text: str
    field: str
    kind: PromptPart
    message: int
    role: str
    values: tuple[str, ...] | None = None


_Span = tuple[int, int, _Text]


@dataclass(frozen=True)
class RenderedPrompt:
    """A prompt's text, of which ``tokens`` tokens are made, its request, and how it is rendered.

    Without a text, its tokens are all that is known. ``thinks`` where its end opens reasoning.
    """

    text: str = ""
    tokens: int = 0
    request: GenerationRequest = field(default_factory=GenerationRequest)
    render: Callable[[GenerationRequest], str] = field(default=lambda _: "")
    thinks: bool = False

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts in order; they are located only where someone needs them."""
        return self._found[0]

    @property
    def missing(self) -> tuple[str, ...]:
        """The fields that are in no part of it, such as ``messages.1.reasoning_content``.

        A text of which something is missing is "(in part)".
        """
        return self._found[1]

    @property
    def opening(self) -> str:
        """The end of the text, with which the template opens the answer; empty for none."""
        if not self.text or not self.request.opens_answer or self.request.continues_message:
            return ""
        try:
            closed = self.render(replace(self.request, opens_answer=False))
        except EngineError:
            return ""
        start = common_chars(self.text, closed)
        end = max((part.end for part in self.parts), default=len(self.text))
        return self.text[start:] if end <= start else ""

    @functools.cached_property
    def _found(self) -> tuple[tuple[Part, ...], tuple[str, ...]]:
        if not self.text:
            return (), ()
        marked, texts = _with_marks(self.request)
        try:
            written = self.render(marked)
        except EngineError:  # a template may refuse marks
            return (), ()
        return _locate(self.text, written, texts)

    def part_at(self, char: int) -> Part | None:
        """Return the part that a character belongs to, its header included; None after all."""
        return next((part for part in self.parts if char < part.end), None)

    @property
    def size_bytes(self) -> int:
        """Roughly the memory of its text, which its request has a second time."""
        return 2 * len(self.text)


def _with_marks(request: GenerationRequest) -> tuple[GenerationRequest, list[_Text]]:
    """Return a request with numbered marks around its texts, and these in their order."""
    texts: list[_Text] = []

    def mark(text: str, *about: Any) -> str:
        if not (inner := text.strip()):
            return text
        before, after = text.split(inner, 1)
        number = len(texts)
        texts.append(_Text(inner, *about))
        return f"{before}zqfs{number}aqz{inner}zqfs{number}bqz{after}"

    messages, tools, choice = [], [], request.tool_choice
    for index, (number, message) in enumerate(_numbered(request.messages)):
        place, role = f"messages.{index}", message.role
        kind = PromptPart.MESSAGE if number else PromptPart.SYSTEM
        reasoning = f"{place}.reasoning_content"
        thinking = mark(message.thinking, reasoning, PromptPart.THINKING, number, role)
        content = mark(message.content, f"{place}.content", kind, number, role)
        calls = []
        for count, call in enumerate(message.tool_calls):
            values = tuple(_leaves(call.arguments))
            name = mark(call.name, f"{place}.tool_calls.{count}", kind, number, role, values)
            calls.append(replace(call, name=name))
        marked = replace(message, thinking=thinking, content=content, tool_calls=tuple(calls))
        messages.append(marked)
    for tool in request.tools:
        if not tool.is_deferred:
            place, about = f"tools.{tool.name}", (PromptPart.TOOLS, 0, "")
            values = tuple(_leaves(json.dumps(tool.parameters)))
            name = mark(tool.name, place, *about, values)
            text = mark(tool.description, f"{place}{_DESCRIPTION}", *about)
            choice = replace(choice, name=name) if choice.name == tool.name else choice
            tool = replace(tool, name=name, description=text)
        tools.append(tool)
    turns, listed = tuple(messages), tuple(tools)
    return replace(request, messages=turns, tools=listed, tool_choice=choice), texts


def _numbered(messages: Sequence[Message]) -> Iterator[tuple[int, Message]]:
    number = 0
    for message in messages:
        is_system = message.role == "system"
        number += not is_system
        yield (0 if is_system else number), message


def _leaves(arguments: str) -> Iterator[str]:
    try:
        values: list[Any] = [json.loads(arguments)]
    except (ValueError, RecursionError):
        return
    while values:
        value = values.pop()
        if isinstance(value, dict):
            values += reversed(value.values())
        elif isinstance(value, list):
            values += reversed(value)
        else:
            yield value if isinstance(value, str) else json.dumps(value)


def _locate(
    prompt: str, written: str, texts: Sequence[_Text]
) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """Return the parts of a prompt, and the missing fields; ``written`` has the marks."""
    plain, removed = _MARK.sub("", written), 0
    marks: dict[tuple[int, str], int] = {}
    for found in _MARK.finditer(written):
        marks.setdefault((int(found[1]), found[2]), found.start() - removed)
        removed += len(found[0])
    missing: dict[str, None] = {}
    spans: list[_Span] = []
    for number, text in enumerate(texts):
        start, end = _ends(plain, text.text, marks.get((number, "a")), marks.get((number, "b")))
        if start < 0:
            if text.field.removesuffix(_DESCRIPTION) not in missing:
                missing[text.field] = None
            continue
        if not _is_whole(plain[start:end], text.text):
            missing[f"{text.field}{_IN_PART}"] = None
        spans.append((start, end, text))
    spans.sort(key=lambda span: span[:2])
    if plain != prompt:  # such as a time that the template writes
        spans = list(_moved(spans, plain, prompt))
    return tuple(sorted(_parts(prompt, spans), key=lambda part: part.start)), tuple(missing)


def _ends(plain: str, text: str, start: int | None, end: int | None) -> tuple[int, int]:
    """Return the place of a text by its marks, of which a template may write one; -1 for none."""
    if start is not None and end is not None:
        return start, end
    if start is not None:
        return start, start + common_chars(plain[start : start + len(text)], text)
    if end is not None:
        before = plain[max(0, end - len(text)) : end]
        return end - common_chars(before[::-1], text[::-1]), end
    return -1, -1


def common_chars(text: str, other: str) -> int:
    """Return the length of the common beginning of two texts."""
    low, high = 0, min(len(text), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if text[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _moved(spans: Sequence[_Span], plain: str, prompt: str) -> Iterator[_Span]:
    """Yield spans at their places in a prompt whose other text differs, or whose characters do.

    Tokenizers compose accents, and SentencePiece's (Gemma) write U+2581 as a space.
    """
    position = 0
    for start, end, text in spans:
        written = plain[start:end]
        composed = unicodedata.normalize("NFC", written)
        for form in (written, composed, written.replace("\u2581", " ")):
            if (at := prompt.find(form, position)) >= 0:
                position = at + len(form)
                yield at, position, text
                break


def _parts(prompt: str, spans: Sequence[_Span]) -> Iterator[Part]:
    """Yield the parts: all tools are one, and a call has its arguments."""
    tools: list[Part] = []
    for index, (start, end, text) in enumerate(spans):
        if text.values is not None:
            head = _HEAD.search(prompt, max(0, start - _MAX_HEAD), start)
            start = head.start() if head else start
            limit = next((span[0] for span in spans[index + 1 : index + 2]), len(prompt))
            unfound = 0
            for value in text.values:
                if (at := prompt.find(value, end, limit)) >= 0:
                    end = at + len(value)
                elif (unfound := unfound + 1) == _MAX_UNFOUND:
                    break
            closers = _CLOSERS.match(prompt, end, limit)
            end = closers.end() if closers else end
        part = Part(text.kind, text.message, text.role, start, end, text.field)
        if part.kind is PromptPart.TOOLS:
            tools.append(part)
        else:
            yield part
            notes = (note.span() for note in IMAGE_NOTE.finditer(prompt, start, end))
            for first, last in (*notes, *(_pictures(prompt[start:end], text.text, start) or ())):
                yield part._replace(start=first, end=last, field=text.field + _IMAGE)
    if tools:
        yield tools[0]._replace(end=max(part.end for part in tools), field="tools")


def _pictures(written: str, text: str, start: int = 0) -> list[tuple[int, int]] | None:
    """Return the placeholders of pictures in a text, moved by ``start``; None if text is missing.

    Pictures without text between them are one.
    """
    found, at, before, *others = [], 0, *text.split(PICTURE_MARK)
    at = max(0, written.find(before.strip())) + len(before.strip())
    for number, piece in enumerate(others, 1):
        is_last = number == len(others)
        inner = piece.strip()
        place = written.find(inner, at) if inner or not is_last else len(written)
        if place < 0:
            return None
        if place > at:
            found.append((start + at, start + place))
        at = place + len(inner)
    return found


def _is_whole(written: str, text: str) -> bool:
    if PICTURE_MARK in text:
        return _pictures(written, text) is not None
    return _without_space(written) in map(_without_space, _forms(text))


def _forms(text: str) -> tuple[str, ...]:
    return text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]


def _without_space(text: str) -> str:
    return "".join(text.split())


Place = tuple[PromptPart, int, str]
"""The kind, the message and the role of the part of a request in which two prompts differ."""


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
        return PromptPart.PROMPT, 0, ""
    here, before = new.part_at(char), old.part_at(char)
    last = max(part.message for part in old.parts)
    if before is None and (here is None or here.message > last):
        message, role = (0, "") if here is None else (here.message, here.role)
        if in_thinking or (char < len(old.text) and old.thinks):
            return PromptPart.THINKING, message, role
        if char < len(old.text) or here is None:
            return PromptPart.ANSWER_OPENING, message, role
        return here.kind, message, role
    part = _earlier(new, old, here, before)
    if all(one is None or char < one.start for one in (here, before)):
        if all(_is_date_at(text, char) for text in texts):
            return PromptPart.DATE, 0, ""
        if here is not None and before is not None and here.key == before.key:
            is_first = here == new.parts[0] and before == old.parts[0]
            if part.kind is PromptPart.TOOLS or is_first:
                return PromptPart.TEMPLATE, 0, ""
    return part.kind, part.message, part.role


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
