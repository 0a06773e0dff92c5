"""Tokens of an answer beside the likeliest ones of another model. Any thread."""

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx

from engine.values.tokens import Comparison, Difference

# Logits that differ by less are as good as equal: rounding decides between them.
_NEAR = 1e-3
_STEP_OF = {mx.bfloat16: 2.0**-8, mx.float16: 2.0**-11}


def compare_tokens(
    tokens: Sequence[int],
    logits: Any,
    logits_after: Callable[[int], Any],
    on_token: Callable[[int], None],
    done: int,
) -> Comparison:
    """Compare the tokens of an answer with the likeliest ones; ``logits`` are those of the first.

    ``on_token`` is called with the number of tokens compared, of which ``done`` were before.
    """
    near_ties, differences = 0, []
    for index, token in enumerate(tokens):
        last = logits[0, -1]
        step = _STEP_OF.get(last.dtype, 0.0)
        last = last.astype(mx.float32)
        best, two = mx.argmax(last), mx.topk(last, 2)
        facts = (best, last[best], two.max() - two.min(), last[token])
        expected, highest, lead, own = (float(fact.item()) for fact in facts)  # type: ignore[arg-type]
        # Numbers of 16 bits are further apart: two of their steps are near as well.
        near = max(_NEAR, 2 * step * abs(highest))
        near_ties += lead < near
        if expected != token:
            gap = highest - own
            differences.append(Difference(index, token, int(expected), gap, gap < near))
        on_token(done + index + 1)
        if index + 1 < len(tokens):
            logits = logits_after(token)
    return Comparison(len(tokens), near_ties, tuple(differences))
