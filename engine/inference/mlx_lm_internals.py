"""The only module that uses private parts of mlx-lm. Each is a workaround.

Checked with mlx-lm 0.32.2, whose source is at https://github.com/ml-explore/mlx-lm/tree/v0.32.2.
``tests/conventions/test_private_parts.py`` fails, and names the part, when one changes.
Importing this module does not import mlx-lm.
"""

import contextlib
import resource
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

# Modules of ``mlx_lm.models`` whose layers take the padding of shorter prompts for tokens. Where
# prompts of different lengths are read together, their answers are wrong from the first token on.
_PADDING_IS_READ = {
    "baichuan_m1",
    "bailing_moe_linear",
    "jamba",
    "mamba",
    "nemotron_h",
    "olmo_hybrid",
    "recurrent_gemma",
    "rwkv7",
}
# Models that fail, or decode wrongly, beside sequences of other lengths: the blocks that
# ``minimax_m3_vl`` attends to begin where the padding does, the others fail.
_NO_BATCH = {
    "afm7",
    "gemma2",
    "gpt_bigcode",
    "longcat_flash_ngram",
    "minimax_m3_vl",
    "phi3small",
}
# Those whose masks depend on how many tokens a pass has.
_NO_DRAFTS = {"phi3small", "plamo3"}
# Of these, only a pass over a single token is right, in which there is nothing to hide.
_NO_CHUNKS = {"phi3small"}


class Together(NamedTuple):
    """What a model of mlx-lm can do for several sequences or tokens at once.

    ``prompts`` of different lengths are read together, ``answers`` decoded together. ``drafts``
    where a pass over several tokens sees what passes over one see; ``chunks`` where a prompt may be
    read several tokens at a time.
    """

    prompts: bool
    answers: bool
    drafts: bool
    chunks: bool = True


def together(model: Any) -> Together:
    """Return what mlx-lm computes rightly for a model.

    Upstream: the modules of ``mlx_lm/models``.
    """
    inside = getattr(model, "modules", lambda: [model])()
    names = {type(module).__module__.rpartition(".")[2] for module in inside}
    return Together(
        prompts=names.isdisjoint(_PADDING_IS_READ | _NO_BATCH),
        answers=names.isdisjoint(_NO_BATCH),
        drafts=names.isdisjoint(_NO_DRAFTS),
        chunks=names.isdisjoint(_NO_CHUNKS),
    )


def inner_tokenizer(wrapper: Any) -> Any:
    """Return the transformers tokenizer inside mlx-lm's ``TokenizerWrapper``.

    The wrapper passes most calls on, but it changes what ``apply_chat_template`` does, and it
    hides the type that says how the tokenizer works.
    Upstream: ``TokenizerWrapper.__init__`` in ``mlx_lm/tokenizer_utils.py``.
    """
    return wrapper._tokenizer


def has_template_in_code(wrapper: Any) -> bool:
    """Whether mlx-lm renders this model's prompts with Python code of its own, not a template.

    Then only the wrapper can render them.
    Upstream: ``TokenizerWrapper.apply_chat_template`` in ``mlx_lm/tokenizer_utils.py``.
    """
    return wrapper._chat_template is not None


def tool_format(wrapper: Any) -> str:
    """Return mlx-lm's name for the format of a model's tool calls; empty where it knows none.

    The wrapper keeps the parser and not its name, which is the name of the parser's module.
    Upstream: ``_infer_tool_parser`` and ``load`` in ``mlx_lm/tokenizer_utils.py``.
    """
    return str(getattr(wrapper.tool_parser, "__module__", "")).rpartition(".")[2]


def classes_of(config: dict[str, Any]) -> tuple[type[Any], type[Any]]:
    """Return the classes of a configuration's model, and of what that is made from.

    Fails where mlx-lm does not know the architecture; loads no model.
    Upstream: ``_get_classes`` in ``mlx_lm/utils.py``.
    """
    from mlx_lm.utils import _get_classes

    classes: tuple[type[Any], type[Any]] = _get_classes(config)
    return classes


class DecodingRows:
    """The rows of a ``GenerationBatch``, for passes over several tokens of a row.

    mlx-lm keeps one pass in flight: it computes the next token of each row while it returns the
    last one. This class reads and sets that pending token, with all state that depends on it.
    Upstream: ``GenerationBatch`` in ``mlx_lm/generate.py``, ``TokenBuffer`` in
    ``mlx_lm/models/cache.py``.
    """

    def __init__(self, batch: Any) -> None:
        self._rows = batch

    def __len__(self) -> int:
        return len(self._rows.uids)

    @property
    def numbers(self) -> list[int]:
        numbers: list[int] = self._rows.uids
        return numbers

    @property
    def cache(self) -> list[Any]:
        cache: list[Any] = self._rows.prompt_cache
        return cache

    def tokens(self, index: int) -> list[int]:
        """Return the tokens of a row that the cache holds."""
        tokens: list[int] = self._rows.tokens[index]
        return tokens

    def sampler(self, index: int) -> Any:
        return self._rows.samplers[index] or self._rows.fallback_sampler

    def processors(self, index: int) -> Sequence[Any]:
        return self._rows.logits_processors[index] or ()

    def pending(self) -> list[int]:
        """Wait for the next token of each row and return them; the cache does not hold them yet."""
        tokens: list[int] = self._rows._next_tokens.tolist()
        return tokens

    def pending_logprobs(self, index: int) -> Any:
        return self._rows._next_logprobs[index]

    def context(self, index: int, tokens: Any) -> Any:
        """Add tokens to the tokens that a row's processors see; return all of them."""
        return self._rows._token_context[index].update_and_fetch(tokens)

    def shorten_context(self, index: int, surplus: int) -> None:
        self._rows._token_context[index]._size -= surplus

    def go_on(self, tokens: Sequence[Sequence[int]], pending: Any, logprobs: list[Any]) -> None:
        """Note the tokens that were added to the cache, and the pending ones after them."""
        for index, handed in enumerate(tokens):
            self._rows.tokens[index].extend(handed)
            self._rows._num_tokens[index] += len(handed)
        self._rows._next_tokens = pending
        self._rows._next_logprobs = logprobs


def straighten(part: Any) -> None:
    """Put a window of several rows into temporal order; other kinds are not changed.

    Reading a single token of a prompt leaves its window rotated. The mask for the next tokens
    ignores that, so a row with padding sees a token that is not its own, and its answer is wrong.
    Calling this after each pass over a prompt prevents it.
    Upstream: ``BatchRotatingKVCache._temporal_order`` in ``mlx_lm/models/cache.py``.
    """
    if getattr(part, "rotated", False):
        part._temporal_order()


def window_content(part: Any) -> tuple[Any, Any, Any]:
    """Return the keys and values of a window of several rows, in temporal order, and for each row
    how many of the first places are not its own.

    The window may hold more than its size after a pass over several tokens; that is left out.
    Upstream: ``BatchRotatingKVCache`` in ``mlx_lm/models/cache.py``.
    """
    straighten(part)
    end = part._idx
    begin = max(0, end - part.max_size)
    padding = part.left_padding - begin
    return part.keys[..., begin:end, :], part.values[..., begin:end, :], padding


def cut_windows(parts: Sequence[Any], shared: int, more: Sequence[int]) -> None:
    """Remove the newest ``shared`` tokens of all rows of windows, then ``more[row]`` of each.

    After a pass over several tokens a window still holds all that the next token sees, whatever is
    removed: mlx-lm cuts its beginning only before a pass, down to what the first token sees.
    Upstream: ``BatchRotatingKVCache`` in ``mlx_lm/models/cache.py``.
    """
    from mlx import core as mx

    moved = mx.array(list(more))
    # For windows of each length: where each place is taken from.
    sources: dict[int, Any] = {}
    for part in parts:
        straighten(part)
        end = part._idx - shared
        keys, values = part.keys[..., :end, :], part.values[..., :end, :]
        part.offset = part.offset - shared
        if any(more):
            if end not in sources:
                sources[end] = ((mx.arange(end) - moved[:, None]) % end)[:, None, :, None]
            keys = mx.take_along_axis(keys, sources[end], axis=2)
            values = mx.take_along_axis(values, sources[end], axis=2)
            # Removed tokens are on the left now, hidden as padding.
            part.left_padding = mx.maximum(part.left_padding, 0) + moved
            part.offset = part.offset - moved
        part.keys, part.values, part._idx = keys, values, end
        part._offset = end if end < part.max_size else part._offset - shared


def cut_window(part: Any, tokens: int) -> bool:
    """Remove the newest tokens of one row's window; return whether it holds enough for that.

    Upstream: ``RotatingKVCache`` in ``mlx_lm/models/cache.py``.
    """
    if part.keys is None:
        return True
    end, offset = part._idx - tokens, part.offset - tokens
    is_in_order = part._idx == part.keys.shape[2] or part.offset <= part.max_size
    if not is_in_order or end < min(offset, part.max_size):
        return False
    part.keys, part.values = part.keys[..., :end, :], part.values[..., :end, :]
    part._idx, part.offset = end, offset
    return True


def fill_window(part: Any) -> None:
    """Let one row's window hold as many tokens as it says, after all of a pass were removed.

    Its oldest token was cut off before the pass. The next token will overwrite that place before
    anything reads it, so that a copy of another token fills it.
    Upstream: ``RotatingKVCache`` and ``BatchRotatingKVCache.merge`` in ``mlx_lm/models/cache.py``.
    """
    from mlx import core as mx

    if part.keys is None or part.keys.shape[2] >= part.size() or part._idx != part.keys.shape[2]:
        return
    for name in ("keys", "values"):
        held = getattr(part, name)
        missing = part.size() - held.shape[2]
        filled = mx.concatenate([held[..., :1, :]] * missing + [held], axis=2)
        setattr(part, name, filled)
    part._idx = part.keys.shape[2]


def wrap_recurrences(delta_rule: Callable[..., Any], scan: Callable[..., Any]) -> bool:
    """Let layers call other functions for their recurrences from now on; return whether this was
    the first call of the process.

    Each is given mlx-lm's function, of Gated DeltaNet or Mamba2, and its arguments.
    Upstream: ``gated_delta_update`` in ``mlx_lm/models/gated_delta.py``, and ``ssm_update`` in
    ``mlx_lm/models/ssm.py``, which find these functions in their modules.
    """
    from mlx_lm.models import gated_delta, ssm

    if isinstance(ssm.ssm_attn, partial):
        return False
    gated_delta.gated_delta_ops = partial(delta_rule, gated_delta.gated_delta_ops)
    gated_delta.gated_delta_kernel = partial(delta_rule, gated_delta.gated_delta_kernel)
    ssm.ssm_attn = partial(scan, ssm.ssm_attn)
    return True


@contextlib.contextmanager
def limit_of_open_files_kept() -> Iterator[None]:
    """Keep mlx-lm from changing how many files this process may open, while it is imported.

    The import fails where the hard limit is below 4,096, and lowers both limits where they are
    higher.
    Upstream: the call of ``resource.setrlimit`` at the top of ``mlx_lm/utils.py``.
    """
    changed = resource.setrlimit
    resource.setrlimit = lambda *_: None
    try:
        yield
    finally:
        resource.setrlimit = changed
