"""mlx-lm's plain loop, with which answers of the engine are compared. Any thread.

One pass over one token each: no batches, drafts, samplers or earlier prompts.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache

from engine.inference.backend import OnLoadProgress
from engine.inference.comparison import compare_tokens
from engine.inference.mlx_lm_internals import together
from engine.inference.mlx_loading import read_plainly
from engine.values.tokens import Comparison


def compare(
    folder: Path,
    answers: Sequence[tuple[Sequence[int], Sequence[int]]],
    on_progress: OnLoadProgress,
    on_token: Callable[[int], None],
    base: Path | None = None,
) -> list[Comparison]:
    """Compare greedy answers; see ``engine.inference.loader.compare_with_plain_loop``."""
    model = read_plainly(folder, on_progress, base)
    chunk = 512 if together(model).chunks else 1
    comparisons, done = [], 0
    for prompt, tokens in answers:
        cache = make_prompt_cache(model)
        for start in range(0, len(prompt) - 1, chunk):
            model(mx.array([prompt[start : min(start + chunk, len(prompt) - 1)]]), cache=cache)
            mx.eval([part.state for part in cache])
        logits = model(mx.array([prompt[-1:]]), cache=cache)

        def logits_after(token: int, cache: Any = cache) -> Any:
            return model(mx.array([[token]]), cache=cache)

        comparisons.append(compare_tokens(tokens, logits, logits_after, on_token, done))
        done += len(tokens)
    return comparisons
