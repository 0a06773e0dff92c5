"""The running batch of one model, and what is kept of the prompts that went through it.

Knows token ids only: no text, no request, no reason to end a row. mlx-lm's ``BatchGenerator`` is
given no stops and no limits, because ending an answer is decided elsewhere. Belongs to the thread
that made it, as MLX's streams do.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mlx.core as mx
from mlx_lm.generate import BatchGenerator
from mlx_lm.models.cache import can_trim_prompt_cache, make_prompt_cache, trim_prompt_cache

from engine.inference.backend import BatchLimits, PromptCacheUse
from engine.inference.mlx_lm_internals import decoding_rows, prompt_tokens_read, set_reading
from engine.inference.pacing import ReadingPace
from engine.inference.prompt_cache import PromptCache

# The batch must never end a row by itself.
_NO_LIMIT = 1 << 40
_CACHED_PROMPTS = 64
# Prompts that arrive together are read a few at a time: half of their readers see their first word
# sooner than if all had to wait for all.
READ_TOGETHER = 4


class RunningBatch:
    """The rows that a model decodes together.

    Args:
        model: The model; called as mlx-lm calls it.
        limits: How much it holds and reads.

    Attributes:
        cache_use: What the cache of prompts is good for; another object whenever it changed.
    """

    def __init__(self, model: Any, limits: BatchLimits) -> None:
        self.cache_use = PromptCacheUse()
        self._model = model
        self._chunk = limits.prefill_chunk
        self._rows = limits.rows
        self._pace = ReadingPace(limits.prefill_chunk)
        self._stepped_at_s = 0.0
        # Rows that have not decoded a token yet.
        self._reading: set[int] = set()
        self._prompt_cache = PromptCache(
            _CACHED_PROMPTS, limits.cache_bytes, can_trim_prompt_cache, trim_prompt_cache
        )
        # A cache that cannot be cut back is kept at the end of the prompt as well, because
        # the next turn seldom repeats a cut answer token by token.
        self._keeps_prompts = not can_trim_prompt_cache(make_prompt_cache(model))
        self._batch = self._new_batch()

    def _new_batch(self) -> Any:
        return BatchGenerator(
            self._model,
            completion_batch_size=self._rows,
            prefill_batch_size=min(READ_TOGETHER, self._rows),
            prefill_step_size=self._chunk,
        )

    def insert(
        self,
        tokens: list[int],
        *,
        sampler: Callable[[mx.array], mx.array] | None = None,
        processors: list[Any] | None = None,
    ) -> tuple[int, int]:
        """Add a row; return its number and how many of its tokens the cache spared.

        Args:
            tokens: The prompt, at least one token.
            sampler: Draws its tokens; None takes the most likely.
            processors: Change its logits before that.
        """
        cache, cached = self._prompt_cache.fetch(tokens)
        [row] = self._batch.insert(
            [tokens[cached:]],
            max_tokens=[_NO_LIMIT],
            caches=None if cache is None else [cache],
            all_tokens=[tokens[:cached]],
            samplers=[sampler],
            logits_processors=[processors or []],
        )
        self._reading.add(row)
        if cached:
            use = self.cache_use
            self.cache_use = replace(use, hits=use.hits + 1, hit_tokens=use.hit_tokens + cached)
        return row, cached

    def step(self) -> tuple[list[tuple[int, int]], list[tuple[int, int, mx.array]]]:
        """Decode one token of each running row and read as much of the prompts as is fair.

        Returns:
            (row, tokens read) of those that read, and (row, token, log-probabilities) of those
            that decoded.
        """
        decoding = decoding_rows(self._batch)
        reading = min(READ_TOGETHER, len(self._reading))
        chunk = self._pace.chunk(decoding, reading) if reading else self._chunk
        was_read = prompt_tokens_read(self._batch)
        # From step to step: the device decodes while the last step's tokens are handed on.
        begin_s = self._stepped_at_s if decoding else time.perf_counter()
        found = self._step(chunk)
        self._stepped_at_s = time.perf_counter()
        took_s = self._stepped_at_s - begin_s
        if reading and chunk:
            tokens = prompt_tokens_read(self._batch) - was_read
            self._pace.read(took_s, tokens, is_whole=tokens >= chunk, decoding=decoding)
        else:
            self._pace.decoded(took_s)
        return found

    def _step(self, chunk: int) -> tuple[list[tuple[int, int]], list[tuple[int, int, mx.array]]]:
        """Decode, and read up to ``chunk`` tokens of each prompt, which may be none."""
        batch = self._batch
        # A batch that has as many rows as it may hold reads nothing.
        set_reading(batch, chunk, self._rows if chunk else 0)
        read, sampled = batch.next()
        if self._reading:
            self._reading.difference_update(part.uid for part in sampled)
        if self._keeps_prompts:
            for part in read:
                if part.end_of_segment and not part.end_of_prompt:
                    found = batch.extract_cache([part.uid])
                    self._keep(*found.get(part.uid, (None, None)))
        return (
            [(part.uid, part.progress[0]) for part in read],
            [(part.uid, part.token, part.logprobs) for part in sampled],
        )

    def leave(self, row: int) -> None:
        """Take a row out, whatever it is doing, and keep its cache for the next turn."""
        self._keep(*self._taken_out(row))

    def _taken_out(self, row: int) -> tuple[Any, list[int] | None]:
        """Take a row out; return its cache and the tokens that it holds, None for none."""
        self._reading.discard(row)
        with mx.stream(self._batch.stream):
            found = self._batch.remove([row], return_prompt_caches=True)
        cache, tokens = found.get(row, (None, None))
        return cache, tokens

    def _keep(self, cache: Any, tokens: list[int] | None) -> None:
        if not cache or not tokens:
            return
        with mx.stream(self._batch.stream):
            # Evaluated now: a lazy slice would keep the whole batch's cache alive.
            mx.eval([part.state for part in cache])
            self._prompt_cache.keep(tokens, cache)
        self.cache_use = replace(
            self.cache_use,
            entries=len(self._prompt_cache),
            size_bytes=self._prompt_cache.size_bytes,
        )

    def reset(self) -> None:
        """Drop all rows and the batch itself after a step that failed."""
        with contextlib.suppress(Exception):
            self._batch.close()
        self._reading.clear()
        self._batch = self._new_batch()

    def close(self) -> None:
        """Free the rows, the kept prompts and the model."""
        self._batch.close()
        self._prompt_cache.clear()
        del self._batch, self._model
        mx.clear_cache()
