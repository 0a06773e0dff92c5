"""The tokens that end a model's answers, and where each is named.

A conversion whose files name the wrong token would never end: its answers go on as the user. The
chat template names the right one, because it closes each of the assistant's turns with it.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.errors import ModelLoadFailed
from engine.inference.mlx_lm_internals import has_template_in_code, inner_tokenizer
from engine.library.model_files import read_json
from engine.library.model_info import EosToken
from engine.output.harmony import is_inner_end
from engine.stopping.record import TEMPLATE_SOURCE

_ANSWER = "ANSWER"
_FILES = ("generation_config.json", "config.json")


def end_tokens(folder: Path, tokenizer: Any, size: int) -> tuple[EosToken, ...]:
    """Return the tokens below ``size`` that end the answers of a model, by their ids."""
    sources: dict[int, str] = {}
    if (own := tokenizer.eos_token_id) is not None:
        sources[own] = "tokenizer"
    for name in _FILES:
        with contextlib.suppress(ModelLoadFailed):
            for token_id in stated_ids(read_json(folder / name)):
                sources.setdefault(token_id, name)
    for token_id in tokenizer.eos_token_ids:
        sources.setdefault(token_id, "mlx-lm")
    closing = template_end(tokenizer)
    if closing is not None:
        sources.setdefault(closing, TEMPLATE_SOURCE)
    named = {i: source for i, source in sources.items() if type(i) is int and 0 <= i < size}
    text_of = inner_tokenizer(tokenizer).convert_ids_to_tokens
    return tuple(EosToken(i, str(text_of(i)), source) for i, source in sorted(named.items()))


def stated_ids(config: Mapping[str, Any]) -> list[int]:
    """Return the EOS ids of a configuration; anything else in their place counts as not stated."""
    stated = config.get("eos_token_id")
    each = stated if isinstance(stated, list) else [stated]
    return [token_id for token_id in each if type(token_id) is int]


def template_end(tokenizer: Any) -> int | None:
    """Return the special token with which the template closes an answer; None for anything else."""
    inner = inner_tokenizer(tokenizer)
    messages = [
        {"role": "user", "content": "QUESTION"},
        {"role": "assistant", "content": _ANSWER},
    ]
    renderer = tokenizer if has_template_in_code(tokenizer) else inner
    text = ""
    with contextlib.suppress(Exception):  # templates raise whatever their authors chose
        text = str(
            renderer.apply_chat_template(messages, tokenize=False, add_generation_prompt=False)
        )
    _, answer, rest = text.rpartition(_ANSWER)
    closing = rest.strip()
    if not answer or not closing:
        return None
    if is_inner_end(closing, inner.get_vocab()):
        return None
    added = getattr(inner, "added_tokens_decoder", {})
    special = {str(token.content): i for i, token in added.items() if token.special}
    for token_id in inner.all_special_ids:
        special.setdefault(str(inner.convert_ids_to_tokens(token_id)), token_id)
    return special.get(closing)
