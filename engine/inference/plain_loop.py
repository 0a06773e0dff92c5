"""mlx-lm's plain loop, with which answers of the engine are compared. Any thread.

One pass over one token each: no batches, drafts, samplers or earlier prompts.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache

from engine.inference.backend import OnLoadProgress
from engine.inference.mlx_lm_internals import together
from engine.inference.mlx_loading import read_plainly
from engine.values.tokens import Comparison, Difference

# Logits that differ by less are as good as equal: rounding decides between them.
_NEAR = 1e-3
_STEP_OF = {mx.bfloat16: 2.0**-8, mx.float16: 2.0**-11}


def compare(
    folder: Path,
    answers: Sequence[tuple[Sequence[int], Sequence[int]]],
    on_progress: OnLoadProgress,
    on_token: Callable[[int], None],
) -> list[Comparison]:
    """Compare greedy answers; see ``engine.inference.loader.compare_with_plain_loop``."""
    model = read_plainly(folder, on_progress)
    chunk = 512 if together(model).chunks else 1
    comparisons, done = [], 0
    for prompt, tokens in answers:
        cache = make_prompt_cache(model)
        for start in range(0, len(prompt) - 1, chunk):
            model(mx.array([prompt[start : min(start + chunk, len(prompt) - 1)]]), cache=cache)
            mx.eval([part.state for part in cache])
        near_ties, differences, last = 0, [], prompt[-1]
        for index, token in enumerate(tokens):
            logits = model(mx.array([[last]]), cache=cache)[0, -1]
            step = _STEP_OF.get(logits.dtype, 0.0)
            logits = logits.astype(mx.float32)
            best, two = mx.argmax(logits), mx.topk(logits, 2)
            facts = (best, logits[best], two.max() - two.min(), logits[token])
            expected, highest, lead, own = (float(fact.item()) for fact in facts)  # type: ignore[arg-type]
            # Numbers of 16 bits are further apart: two of their steps are near as well.
            near = max(_NEAR, 2 * step * abs(highest))
            near_ties += lead < near
            if expected != token:
                gap = highest - own
                differences.append(Difference(index, token, int(expected), gap, gap < near))
            last, done = token, done + 1
            on_token(done)
        comparisons.append(Comparison(len(tokens), near_ties, tuple(differences)))
    return comparisons
