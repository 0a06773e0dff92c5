"""Hands a model's vocabulary to the grammar library. Knows no request and no grammar.

The first constrained answer imports the library (llguidance) and hands over the vocabulary: many
runs of the program never need them. A large vocabulary is handed over while the model is loaded,
because that blocks all threads, and no answer runs then.
"""

import re
from typing import Any

from engine.constraining.compiling import ModelTokens, new_tokenizer
from engine.constraining.token_constraint import ConstraintTokens
from engine.output.vocabulary import Vocabulary

# Handing over a vocabulary of up to this many tokens takes a few milliseconds.
_LARGE = 10_000
# Added tokens of this form are structure, whether their tokenizer says so or not.
_TAG = re.compile(r"<.+>", re.DOTALL)


class GrammarVocabulary:
    """The vocabulary of one loaded model."""

    def __init__(self, tokenizer: Any, vocabulary: Vocabulary) -> None:
        self.library_tokens: ModelTokens | None = None
        self.adapter: Any = None
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._problem: Exception | None = None

    @property
    def is_large(self) -> bool:
        """Whether handing it over blocks all threads for a noticeable time."""
        return self._vocabulary.size > _LARGE

    def hand_over(self, tokens: ConstraintTokens) -> Exception | None:
        """Hand the vocabulary to the library, once; return the reason if it cannot use it."""
        if self.adapter is None and self._problem is None:
            try:
                self.library_tokens = _library_tokens_of(self._tokenizer, self._vocabulary)
                self.adapter = new_tokenizer(self.library_tokens, self.encode)
                tokens.learn(self.adapter)
            except Exception as error:
                self._problem = error
        return self._problem

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a plain text."""
        fast = self._tokenizer.backend_tokenizer
        return list(fast.encode_batch_fast([text], add_special_tokens=False)[0].ids)


def _library_tokens_of(tokenizer: Any, vocabulary: Vocabulary) -> ModelTokens:
    """Return a vocabulary in the form that the library needs."""
    if vocabulary.raw is None:
        raise ValueError("what its tokens stand for depends on their neighbours")
    if not vocabulary.eos:
        raise ValueError("it has no EOS token")
    # The model may have more ids than the tokenizer, whose own may have gaps.
    beyond = range(len(vocabulary.raw), vocabulary.size)
    unused = {*beyond, *(i for i, raw in enumerate(vocabulary.raw) if not raw)}
    added = getattr(tokenizer, "added_tokens_decoder", {}).items()
    special = {i for i, one in added if one.special or _TAG.fullmatch(str(one.content))}
    return ModelTokens(
        [raw or b"<[%d]>" % i for i, raw in enumerate([*vocabulary.raw, *(b"" for _ in beyond)])],
        sorted(special | vocabulary.special.keys() | unused),
        sorted(vocabulary.eos),
    )
