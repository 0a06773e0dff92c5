"""A model's vocabulary as the grammar library is told it. Knows no request and no grammar.

The library (llguidance) is imported, and receives the vocabulary, for the first constrained answer:
most programs never ask for one. A large vocabulary is handed over when the model is loaded, because
that keeps every thread waiting: no answer is under way then.
"""

import re
from typing import Any

from engine.constraining.compiling import ModelTokens, new_tokenizer
from engine.constraining.token_constraint import ConstraintTokens
from engine.output.vocabulary import Vocabulary

# A vocabulary of so many tokens is handed over within a few milliseconds.
_LARGE = 10_000
# Added tokens of this form are structure, whether their tokenizer says so or not.
_TAG = re.compile(r"<.+>", re.DOTALL)


class GrammarVocabulary:
    """The vocabulary of one loaded model.

    Args:
        tokenizer: The Hugging Face tokenizer.
        vocabulary: Its token ids.

    Attributes:
        told: What the library was told; None before, or where it cannot use the tokenizer.
        adapter: The library's own form of it; likewise.
    """

    def __init__(self, tokenizer: Any, vocabulary: Vocabulary) -> None:
        self.told: ModelTokens | None = None
        self.adapter: Any = None
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._problem: Exception | None = None

    @property
    def is_large(self) -> bool:
        """Whether handing it over keeps every thread waiting for a while."""
        return self._vocabulary.size > _LARGE

    def hand_over(self, tokens: ConstraintTokens) -> Exception | None:
        """Hand the library the vocabulary, once; returns why it cannot use it.

        Args:
            tokens: Learn what they need of it.
        """
        if self.adapter is None and self._problem is None:
            try:
                self.told = _told_of(self._tokenizer, self._vocabulary)
                self.adapter = new_tokenizer(self.told, self.encode)
                tokens.learn(self.adapter)
            except Exception as error:
                self._problem = error
        return self._problem

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a plain text."""
        fast = self._tokenizer.backend_tokenizer
        return list(fast.encode_batch_fast([text], add_special_tokens=False)[0].ids)


def _told_of(tokenizer: Any, vocabulary: Vocabulary) -> ModelTokens:
    """Return a vocabulary as the library is told it.

    Raises:
        ValueError: Its tokens have no bytes, or no token ends an answer.
    """
    if vocabulary.raw is None:
        raise ValueError("what its tokens stand for depends on their neighbours")
    if not vocabulary.eos:
        raise ValueError("it has no EOS token")
    # The model may have more ids than the tokenizer.
    unused = range(len(vocabulary.raw), vocabulary.size)
    added = getattr(tokenizer, "added_tokens_decoder", {}).items()
    special = {i for i, one in added if one.special or _TAG.fullmatch(str(one.content))}
    return ModelTokens(
        [*vocabulary.raw, *(b"<[%d]>" % token_id for token_id in unused)],
        sorted(special | vocabulary.special.keys() | set(unused)),
        sorted(vocabulary.eos),
    )
