"""Turns plain text into the ids of one model, and ids into text.

Knows nothing of batches. Any thread may tokenise and decode; a detokenizer belongs to the thread
that uses it.
"""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from engine.inference.mlx_lm_internals import inner_tokenizer
from engine.inference.text import prompts
from engine.output.beginnings import continues_text
from engine.output.channels import Beginning
from engine.output.detokenizer import ByteDetokenizer, Detokenizer, TokenizerDetokenizer
from engine.output.vocabulary import Vocabulary
from engine.values.request import GenerationRequest


class ModelText:
    """Knows what token ids stand for, in plain text and in answers."""

    def __init__(self, tokenizer: Any, vocabulary: Vocabulary) -> None:
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary

    def tokenize(self, text: str, context: int) -> list[int]:
        """Return the ids of plain text that fits into a context."""
        return prompts.plain(self._tokenizer, text, context)

    def detokenize(self, ids: Sequence[int]) -> str:
        """Return the text of ids."""
        prompts.check_ids(ids, "tokens", self._vocabulary.size)
        return self._decoded(list(ids))

    def vocabulary_of(self, request: GenerationRequest, beginning: Beginning) -> Vocabulary:
        """Return what token ids stand for in the answer to a request."""
        if request.prompt is not None:
            return self._showing_specials
        return self._continuing if continues_text(request, beginning) else self._vocabulary

    @functools.cached_property
    def _showing_specials(self) -> Vocabulary:
        """The vocabulary of an answer that is all text, tags and markers included."""
        return self._continuing.showing_specials()

    @functools.cached_property
    def _continuing(self) -> Vocabulary:
        """The vocabulary of an answer that continues a text, so that its first space is kept."""
        return replace(self._vocabulary, strips_first_space=False)

    def detokenizer(self, vocabulary: Vocabulary, before: Sequence[int]) -> Detokenizer:
        """Return a fresh streaming detokenizer."""
        if vocabulary.raw is not None:
            return ByteDetokenizer(vocabulary)
        return TokenizerDetokenizer(self._decoded, vocabulary.special, before)

    def _decoded(self, ids: list[int]) -> str:
        return str(
            inner_tokenizer(self._tokenizer).decode(
                ids, skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
        )
