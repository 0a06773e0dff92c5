"""Streaming text of one answer's token ids.

A character that is split over tokens appears when it is complete; an invalid or truncated one
becomes one U+FFFD and never blocks the next text. It belongs to the thread that feeds it.
"""

import codecs
import copy
from collections.abc import Container, Sequence
from typing import Any, Protocol

from engine.output.vocabulary import Vocabulary, decode_ids

_REPLACEMENT = "\ufffd"
# How many pieces can change the next one's text.
_NEIGHBOURS = 4


class Detokenizer(Protocol):
    """Streaming text of one answer."""

    def add(self, token_id: int) -> str:
        """Take the next id and return the text that it completes."""

    def peek(self, token_id: int) -> str:
        """Return what ``add`` would return, and change nothing."""

    def cut(self, token_id: int) -> str:
        """Take a token without text, such as a tag; return U+FFFD if it truncates a character."""

    def finish(self) -> str:
        """Return the text that is left after the last id."""


class ByteDetokenizer:
    """For vocabularies whose tokens are known byte strings; the common case."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        assert vocabulary.raw is not None, "needs the bytes of every token"
        self._raw = vocabulary.raw
        self._text = vocabulary.text
        self._special = vocabulary.special
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._is_partial = False
        self._at_start = vocabulary.strips_first_space

    def add(self, token_id: int) -> str:
        if token_id in self._special or token_id >= len(self._raw):
            return ""
        text = None if self._is_partial else self._text[token_id]
        if text is None:
            text = self._decoder.decode(self._raw[token_id])
            self._is_partial = bool(self._decoder.getstate()[0])
        if self._at_start and text:
            self._at_start = False
            return text.removeprefix(" ")
        return text

    def peek(self, token_id: int) -> str:
        ahead = copy.copy(self)
        vars(ahead).update(_decoder=copy.copy(self._decoder))
        return ahead.add(token_id)

    def cut(self, token_id: int) -> str:
        """Take a tag; return U+FFFD for a character that it truncates, otherwise nothing."""
        self._at_start = False
        return self.finish()

    def finish(self) -> str:
        """Return U+FFFD for an incomplete character at the end, otherwise nothing."""
        self._is_partial = False
        return self._decoder.decode(b"", True)


class TokenizerDetokenizer:
    """For tokenizers whose pieces depend on their neighbours: asks the tokenizer's own decoder.

    A piece adds its text to that of the pieces before it; only the last few are kept.
    """

    def __init__(self, tokenizer: Any, special: Container[int], before: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._special = special
        self._ids = list(before)
        # The text of these ids that has been returned; the rest is half a character.
        self._text = ""
        self._forget()

    def add(self, token_id: int) -> str:
        if token_id in self._special:
            return ""
        self._ids = [*self._ids, token_id]
        whole = decode_ids(self._tokenizer, self._ids)
        is_partial = whole.endswith(_REPLACEMENT)
        if is_partial:
            # The end may be a character that is not complete yet; wrong bytes may be before it.
            known = len(whole.rstrip(_REPLACEMENT))
            whole = whole[: max(known, len(whole) - 3)]
        text = whole[len(self._text) :]
        self._text += text
        if len(self._ids) > 2 * _NEIGHBOURS and not is_partial:
            self._forget()
        return text

    def peek(self, token_id: int) -> str:
        return copy.copy(self).add(token_id)

    def cut(self, token_id: int) -> str:
        """Take a tag: it truncates a character, but the text after it does not begin a text."""
        text = self.finish()
        self._ids = [*self._ids, token_id]
        self._forget()
        return text

    def finish(self) -> str:
        whole = decode_ids(self._tokenizer, self._ids)
        is_partial = len(whole) > len(self._text)
        self._text = whole
        return _REPLACEMENT if is_partial else ""

    def _forget(self) -> None:
        self._ids = self._ids[-_NEIGHBOURS:]
        self._text = decode_ids(self._tokenizer, self._ids)
