"""A draft model: a smaller model with the same vocabulary, loaded beside the answering one.

Each answer has a cache of its own here, cut back to the tokens that the other model accepts. Engine
thread.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx.utils import tree_map
from mlx_lm.models.cache import ArraysCache, KVCache, RotatingKVCache, make_prompt_cache

from engine.errors import DraftLoadFailed
from engine.inference.cache.index import PrefixIndex
from engine.inference.running_cache import parts_of
from engine.inference.speculation.cost import MAX_ROWS
from engine.inference.speculation.sources import DraftSource, HitRate
from engine.library.model_info import DraftInfo
from engine.output.vocabulary import Vocabulary
from engine.values.tokens import TokenOrigin

_log = logging.getLogger(__name__)
# Up to this many unread tokens are read in the same pass as the first draft.
_PENDING = 16


@dataclass(frozen=True, slots=True, eq=False)
class LoadedDraft:
    """A draft model in memory; ``vocabulary`` is None for an assistant."""

    model: Any
    info: DraftInfo
    vocabulary: Vocabulary | None


class DraftModel:
    """The draft model of one loaded model."""

    def __init__(self, loaded: LoadedDraft, kept_bytes: int) -> None:
        # As of a model's own head, which is then not preferred to a model that somebody chose.
        self.hits = HitRate(0.85)
        self._model = loaded.model
        assert loaded.vocabulary is not None
        self._size = loaded.vocabulary.size
        self._answers = 0
        self._kept = PrefixIndex(make_prompt_cache(loaded.model), kept_bytes)

    def drafts(self, owner: str, prompt: Sequence[int]) -> "ModelDrafts | None":
        """Return the drafts for the answer to a prompt; None while too many answers run."""
        if self._answers > MAX_ROWS:
            return None
        cache, cached, _ = self._kept.fetch(owner, prompt)
        self._answers += 1
        return ModelDrafts(self, owner, prompt, cache or make_prompt_cache(self._model), cached)

    def can_read(self, tokens: Sequence[int]) -> bool:
        return max(tokens, default=0) < self._size

    def read(self, tokens: mx.array, cache: list[Any]) -> mx.array:
        """Read tokens; return the likeliest next one, of shape (1,), not computed yet."""
        logits = self._model(tokens[None], cache=cache)
        return mx.argmax(logits[0, -1:], axis=-1)

    def keep(self, owner: str, tokens: Sequence[int], cache: Sequence[Any]) -> None:
        """Keep the cache of an answer that has ended; without tokens the cache is dropped."""
        self._answers -= 1
        if tokens:
            self._kept.store(owner, tokens, cache)
            self._kept.shrink_to()

    def forget_prompts(self, owner: str) -> None:
        self._kept.clear(owner)

    def close(self) -> None:
        self._kept.clear()
        del self._model


class _Checkpoint:
    """A cache as it is after some tokens, to which it can be set back.

    Keys and values can be cut anywhere. States and windows cannot, and are kept here: that costs
    nothing for states, and a copy of a window when it goes on.
    """

    def __init__(self, cache: Sequence[Any], tokens: int) -> None:
        parts = list(parts_of(cache))
        self._tokens = tokens
        self._cut = [part for part in parts if type(part) is KVCache]
        self._kept = [(part, _copied(part.state)) for part in parts if type(part) is not KVCache]

    def cut(self, held: int, tokens: int) -> int:
        """Cut the cache, which holds ``held`` tokens, to ``tokens`` or fewer; return how many."""
        if self._kept:
            tokens = self._tokens
        for part, state in self._kept:
            part.state = _copied(state)
        for part in self._cut:
            part.trim(held - tokens)
        return tokens


def _copied(state: Any) -> Any:
    """Return a state whose arrays are others for mlx-lm, which changes some in place."""
    return tree_map(lambda array: array[...] if isinstance(array, mx.array) else array, state)


class ModelDrafts(DraftSource):
    """The draft model's drafts for one answer."""

    def __init__(
        self, draft: DraftModel, owner: str, prompt: Sequence[int], cache: list[Any], cached: int
    ) -> None:
        super().__init__(TokenOrigin.DRAFT, draft.hits)
        self._draft = draft
        self._owner = owner
        self._known = list(prompt)
        self._cache = cache
        # The cache holds this many known tokens, followed by the drafts ``_ahead``.
        self._read = cached
        self._ahead: list[int] = []
        # Where the drafts began.
        self._checkpoint = _Checkpoint(cache, cached)
        self._can_read = draft.can_read(prompt)
        self._is_over = False

    @property
    def unread(self) -> int:
        """How many tokens it has to read before it can draft; 0 for a few."""
        if not self._can_read or self._is_over:
            return 0
        left = len(self._known) - 1 - self._read
        return left if left > _PENDING else 0

    def read_on(self, max_tokens: int) -> None:
        """Read the next tokens of the prompt; all answers wait meanwhile."""
        end = min(len(self._known) - 1, self._read + max_tokens)
        try:
            self._draft.read(mx.array(self._known[self._read : end]), self._cache)
            mx.eval([part.state for part in self._cache])
            self._read = end
        except Exception:
            self._give_up()

    def extend(self, tokens: Sequence[int]) -> None:
        self._can_read = self._can_read and self._draft.can_read(tokens)
        for token in tokens:
            self._judge(token)
            if self._ahead and self._ahead[0] == token:
                del self._ahead[0]
                self._read += 1
            else:
                self._trim()
        self._known += tokens

    def _trim(self) -> None:
        if self._ahead:
            self._read = self._checkpoint.cut(self._read + len(self._ahead), self._read)
            self._ahead.clear()

    def likelihood(self) -> float:
        return self._hits.value if self._can_read and not self._is_over else 0.0

    def propose(self, max_drafts: int) -> Sequence[int]:
        """Return the tokens that the draft model would write; none while it still reads."""
        if not self._can_read or self._is_over or max_drafts < 1:
            return ()
        try:
            return self._proposal(max_drafts)
        except Exception:
            self._give_up()
            return ()

    def _give_up(self) -> None:
        """Stop drafting for this answer; the answer continues without drafts."""
        _log.exception("the draft model failed")
        self._can_read = False
        self._ahead.clear()
        self._read = 0  # so that the cache is not kept

    def _proposal(self, max_drafts: int) -> list[int]:
        if 2 * len(self._drafts) >= max_drafts:
            return self._drafts[:max_drafts]  # drafts left over from the last call
        self._trim()
        if self._read == len(self._known):  # read the last token again, to get the logits after it
            self._read = self._checkpoint.cut(self._read, self._read - 1)
        if self._read == len(self._known):
            return []
        if len(self._known) - self._read > _PENDING:
            return []  # it reads the prompt first
        token = self._draft.read(mx.array(self._known[self._read :]), self._cache)
        self._checkpoint = _Checkpoint(self._cache, len(self._known))
        drafted = [token]
        for _ in range(max_drafts - 1):
            token = self._draft.read(token, self._cache)
            drafted.append(token)
        proposed: Any = mx.concatenate(drafted).tolist()
        self._read = len(self._known)
        self._ahead = proposed[:-1]
        self._drafts = list(proposed)
        return list(proposed)

    def finish(self) -> None:
        """Give the cache back, because the answer has ended."""
        if not self._is_over:
            self._is_over = True
            self._trim()
            self._draft.keep(self._owner, self._known[: self._read], self._cache)

    def abandon(self) -> None:
        """Drop the cache, after a step that failed."""
        if not self._is_over:
            self._is_over = True
            self._draft.keep(self._owner, (), ())


def check_draft(draft: LoadedDraft, target: str, vocabulary: Vocabulary) -> None:
    """Make sure that a model can draft for another one."""
    assert draft.vocabulary is not None
    name = draft.info.id
    lead = f"{name} cannot be the draft model of {target}"
    if difference := _difference(name, draft.vocabulary, target, vocabulary):
        raise DraftLoadFailed(
            f"{lead}: their vocabularies differ ({difference}); choose a smaller model of the same "
            "family"
        )
    kinds = {type(part) for part in parts_of(make_prompt_cache(draft.model))}
    if not kinds <= {KVCache, ArraysCache, RotatingKVCache}:
        raise DraftLoadFailed(
            f"{lead}: its cache cannot be set back to an earlier token, which wrong drafts "
            "require; choose another model of the family"
        )


def _difference(name: str, own: Vocabulary, target: str, other: Vocabulary) -> str:
    """Return the first difference of two vocabularies; empty where they are the same."""
    if len(own.text) != len(other.text):
        return f"{name} has {len(own.text):,} tokens, {target} has {len(other.text):,}"
    for token_id in range(len(own.text)):
        own_bytes, other_bytes = own.bytes_of(token_id), other.bytes_of(token_id)
        if own_bytes != other_bytes or (token_id in own.special) != (token_id in other.special):
            texts = [repr(one.text_of(token_id)[:40]) for one in (own, other)]
            return f"token {token_id} is {texts[0]} in {name} and {texts[1]} in {target}"
    return ""
