"""Calls without tags: how such a call begins, and where it ends. Pure; any thread."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from engine.output.channels import Part, Switch, TagSplitter
from engine.stopping.record import Channel

SEPARATORS = " \t\r\n;"
"""What may stand between two calls, or before the first."""

_NAME = r"[\w.-]{1,64}"
BARE_NAME = re.compile(_NAME)
"""Matches a name that such a call can have."""

_NAMED = ("name", '"', _NAME, '"')
_TYPED = ("type", *'"function"')
_GIVEN = tuple((key, r"\{") for key in ("parameters", "arguments"))
_CALLED = (r"\[", r"\s*", r"[A-Za-z_][\w.]{0,63}", r"\(", r"\s*")
_MARK = re.compile(r"""[{}\[\]()"'\\]""")

BareCalls = tuple[re.Pattern[str], re.Pattern[str]]
"""How a call without tags begins: its whole beginning, and any part of one."""


def _beginnings(*heads: Sequence[str]) -> BareCalls:
    """Return beginnings, each as a sequence of expressions."""
    whole, begun = [], []
    for head in heads:
        parts = (r"[\s;]*", *head)
        whole.append("".join(parts))
        nested = ""
        for part in reversed(parts):
            nested = f"(?:{part}{nested})?"
        begun.append(nested)
    return re.compile("|".join(whole)), re.compile("|".join(begun))


def _object_head(*fields: Sequence[str]) -> list[str]:
    """Return the expressions of an object's first fields, each its key and value."""
    parts = [r"\{"]
    for number, (key, *value) in enumerate(fields):
        parts += [r"\s*", ","] if number else []
        parts += [r"\s*", *f'"{key}"', r"\s*", ":", r"\s*", *value]
    return parts


JSON_OBJECT = _beginnings(
    *(_object_head(_NAMED, given) for given in _GIVEN),
    *(_object_head(_TYPED, _NAMED, given) for given in _GIVEN),
)
"""``{"name": "f", "parameters": {`` at the beginning of an answer, as Llama 3.1 writes it."""

PYTHON_LIST = _beginnings((*_CALLED, r"\)"), (*_CALLED, r"[A-Za-z_]\w{0,63}", r"\s*", "="))
"""``[f(a=`` at the beginning of an answer, as Gemma 3 writes it."""


class UntaggedCallSplitter(TagSplitter):
    """Channels of a model whose calls need no tag: an answer that begins like one is a call.

    Such a call ends with its last bracket that is not in a string; another may follow. Text is held
    back as long as it may become the beginning of a call.
    """

    def __init__(
        self,
        ids: Mapping[int, str],
        parts: Mapping[int, str],
        edges: Mapping[Channel, Mapping[str, Channel]],
        starts_in: Channel,
        calls: BareCalls,
    ) -> None:
        super().__init__(ids, parts, edges, starts_in)
        self.closes_calls = True
        self._whole, self._begun = calls
        self._scans_tags = self.scans_text
        self._prefix: str | None = None
        # Of an open call without a tag: its open brackets, and the quotation mark of a string.
        self._is_bare = self._is_escaped = False
        self._depth = 0
        self._quote = ""
        self._follow(starts_in)

    def _follow(self, channel: Channel) -> None:
        self._prefix = "" if channel is Channel.TEXT else None
        by_tag = Channel.TEXT in self._edges[Channel.TOOL].values()
        self._is_bare = channel is Channel.TOOL and not by_tag
        self._is_escaped, self._depth, self._quote = False, 0, ""
        self.scans_text = True

    @property
    def held(self) -> str:
        return (self._prefix or "") + super().held

    def _scan(self, text: str) -> Iterator[Part]:
        if self._is_bare:
            yield from self._feed_call(text)
        elif self._prefix is not None:
            yield from self._feed_prefix(text)
        else:
            yield from super()._scan(text)

    def _feed_prefix(self, text: str) -> Iterator[Part]:
        text = self._take_prefix() + text
        if self._whole.match(text):
            call = text.lstrip(SEPARATORS)
            yield self._enter(Channel.TOOL, visible=len(text) - len(call))
            self._is_bare = True
            yield from self._feed_call(call)
        elif self._begun.fullmatch(text):
            self._prefix = text
            self._forget(len(text))
        else:
            self.scans_text = self._scans_tags
            yield from super()._scan(text)

    def _feed_call(self, text: str) -> Iterator[Part]:
        length = self._call_end(text)
        if length < 0:
            self._pieces.clear()
            yield text
            return
        yield text[:length]
        yield self._enter(Channel.TEXT)
        yield from self._feed_prefix(text[length:])

    def _call_end(self, text: str) -> int:
        """Take more text of a call; return the index behind its last bracket, or -1."""
        end = 0
        if self._is_escaped and text:
            self._is_escaped = False
            end = 1
        while match := _MARK.search(text, end):
            mark, end = match[0], match.end()
            if mark == "\\":
                self._is_escaped = end == len(text)
                end += 1
            elif self._quote:
                if mark == self._quote:
                    self._quote = ""
            elif mark in "\"'":
                self._quote = mark
            elif mark in "{[(":
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth <= 0:
                    return end
        return -1

    def _take_prefix(self) -> str:
        begun, self._prefix = self._prefix or "", None
        return begun

    def take_tag(self, token_id: int) -> Iterator[Part]:
        opening = self.opens(token_id)
        separators = 0
        if opening is not None and not (self._prefix or "").strip(SEPARATORS):
            separators = len(self._take_prefix())
        for part in super().take_tag(token_id):
            yield replace(part, visible=separators) if isinstance(part, Switch) else part

    def finish(self) -> str:
        return self._take_prefix() + super().finish()
