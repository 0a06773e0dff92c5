"""Turns sampled token ids into text as soon as a character is whole.

A character split over tokens appears when it is complete; an invalid or truncated one becomes
one U+FFFD and never blocks what follows. Pure; belongs to the thread that feeds it.
"""

import codecs
import copy
from collections.abc import Container
from typing import Any, Protocol

from engine.vocabulary import Vocabulary


class Detokenizer(Protocol):
    """Streaming text of one answer."""

    def add(self, token_id: int) -> str:
        """Take the next id and return the text that it completes."""
        ...

    def peek(self, token_id: int) -> str:
        """Return what ``add`` would return, and change nothing."""
        ...

    def cut(self, token_id: int) -> str:
        """Take a tag or another token that is no text here; return what it truncates."""
        ...

    def finish(self) -> str:
        """Return what is left when no more ids come."""
        ...


class ByteDetokenizer:
    """For vocabularies whose tokens are known byte strings; the common case."""

    __slots__ = ("_at_start", "_decoder", "_is_partial", "_raw", "_special", "_text")

    def __init__(self, vocabulary: Vocabulary) -> None:
        assert vocabulary.raw is not None, "needs the bytes of every token"
        self._raw = vocabulary.raw
        self._text = vocabulary.text
        self._special = vocabulary.special
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._is_partial = False
        self._at_start = vocabulary.strips_first_space

    def add(self, token_id: int) -> str:
        """Take the next id and return the text that it completes."""
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
        """Return what ``add`` would return, and change nothing."""
        kept = self._decoder.getstate(), self._is_partial, self._at_start
        text = self.add(token_id)
        self._decoder.setstate(kept[0])
        self._is_partial, self._at_start = kept[1:]
        return text

    def cut(self, token_id: int) -> str:
        """Take a tag: a character that it truncates never becomes whole."""
        self._at_start = False
        return self.finish()

    def finish(self) -> str:
        """Return U+FFFD for a character that never became whole, else nothing."""
        self._is_partial = False
        return self._decoder.decode(b"", True)


class TokenizerDetokenizer:
    """For tokenizers whose pieces depend on their neighbours: asks mlx-lm's own detokenizer."""

    def __init__(self, streaming: Any, special: Container[int]) -> None:
        self._streaming = streaming
        self._special = special

    def add(self, token_id: int) -> str:
        """Take the next id and return the text that it completes."""
        if token_id in self._special:
            return ""
        self._streaming.add_token(token_id)
        return str(self._streaming.last_segment)

    def peek(self, token_id: int) -> str:
        """Return what ``add`` would return, and change nothing."""
        trial = copy.copy(self._streaming)
        for name, value in vars(trial).items():
            if isinstance(value, list):
                setattr(trial, name, list(value))
        return TokenizerDetokenizer(trial, self._special).add(token_id)

    def cut(self, token_id: int) -> str:
        """Take a tag: what precedes it is decoded without what follows."""
        text = self.finish()
        self._streaming.reset()
        return text

    def finish(self) -> str:
        """Return what the detokenizer still kept."""
        self._streaming.finalize()
        return str(self._streaming.last_segment)
