"""A real MLX model whose answers follow a script, with a tokenizer whose pieces a test chooses.

The model runs through mlx-lm's own ``BatchGenerator``: its one layer keeps the input ids as keys
in an ordinary ``KVCache``, so that each row of a batch reads its own history and emits the next
id of its script. Token boundaries, batches, caches and faults are thereby exact and real.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.cache import KVCache
from mlx_lm.tokenizer_utils import load as load_wrapper
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from engine.inference.backend import BatchLimits, OnLoadProgress, unobserved
from engine.inference.batch import RunningBatch
from engine.inference.end_tokens import end_tokens
from engine.inference.mlx_backend import MlxBackend
from engine.inference.transformers_internals import bound_templates
from engine.library.memory_need import CacheSize
from engine.library.model_info import ModelInfo
from engine.output.vocabulary import read_vocabulary

# The one layer keeps each id twice, as a 32-bit number.
_TOKEN_BYTES = 8
# No pass that checks guesses is wider.
_MAX_CHECKED = 32
START, END, GO = "<|start|>", "<|end|>", "<|go|>"
TEMPLATE = (
    "{% for m in messages %}<|start|>{{ m.role }}:{{ m.content }}"
    "{% if not (loop.last and continue_final_message) %}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|go|>{% if think_open is defined %}{% endif %}{% endif %}"
)


def write_tokenizer(
    folder: Path,
    *,
    pieces: Iterable[str] = (),
    special: Iterable[str] = (),
    plain: Iterable[str] = (),
    template: str = TEMPLATE,
    eos: str = END,
    far: Mapping[str, int] | None = None,
) -> None:
    """Write tokenizer files: 256 bytes, the specials, and the pieces a test wants as tokens.

    Args:
        folder: Where to.
        pieces: Texts that are one token each.
        special: More special tokens (their text is skipped).
        plain: Added tokens that are no specials, such as ``<think>``.
        template: The chat template.
        eos: The text of the EOS token.
        far: Special tokens by their ids, which leave a gap behind all other ids.
    """
    far = far or {}
    folder.mkdir(parents=True, exist_ok=True)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    letters = {char: n for n, char in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE({**letters, **far}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    specials = dict.fromkeys([START, END, GO, eos, *special])
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in specials])
    added = dict.fromkeys([*plain, *pieces])
    tokenizer.add_tokens(
        [AddedToken(text, special=False, normalized=False) for text in added if text]
    )
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in far])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": eos,
        "chat_template": template,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


class ScriptedModel(nn.Module):
    """Emits, after each prompt, the ids that ``answer`` gives for it, then EOS for ever.

    Attributes:
        calls: Forward passes so far, as (rows, tokens per row).
        fault: Called before each forward pass with its number; may raise or wait.
    """

    def __init__(
        self, vocabulary_size: int, go: int, eos: int, answer: Callable[[list[int]], Sequence[int]]
    ) -> None:
        super().__init__()
        self.layers = [nn.Module()]
        self.calls: list[tuple[int, int]] = []
        self.fault: Callable[[int], None] = lambda _: None
        self._size = vocabulary_size
        self._go = go
        self._eos = eos
        self._answer = answer

    def make_cache(self) -> list[Any]:
        return [KVCache()]

    def __call__(self, inputs: mx.array, cache: Any = None) -> mx.array:
        rows, width = inputs.shape
        self.calls.append((rows, width))
        self.fault(len(self.calls))
        keys = inputs.astype(mx.float32)[:, None, :, None]
        # Beside each id stands its place, since a block of keys need not be in order.
        numbers = mx.array(cache[0].offset).reshape(-1, 1) + mx.arange(width)
        values = mx.broadcast_to(numbers.astype(mx.float32)[:, None, :, None], keys.shape)
        history, written = cache[0].update_and_fetch(keys, values)
        # A pass that checks guesses needs what follows each token; reading a prompt does not.
        places = width if width <= _MAX_CHECKED else 1
        ends = mx.broadcast_to(numbers[:, -1:] + 1, (rows, 1))
        total = history.shape[2]
        is_padding = mx.arange(total) < total - ends
        order = mx.argsort(mx.where(is_padding, -1.0, written[:, 0, :, 0]), axis=-1)
        read: Any = mx.take_along_axis(history[:, 0, :, 0], order, axis=-1)
        following = [
            [self._next(row[: len(row) - places + place + 1]) for place in range(places)]
            for row in read.astype(mx.int32).tolist()
        ]
        chosen = mx.array(following)[:, :, None] == mx.arange(self._size)
        logits = mx.where(chosen, 20.0, 0.0)
        return mx.broadcast_to(logits, (rows, width, self._size))

    def model(self, inputs: mx.array, cache: Any = None) -> mx.array:
        """Return hidden states, which tell ids apart, as the part before the vocabulary does."""
        keys = inputs.astype(mx.float32)[:, None, :, None]
        cache[0].update_and_fetch(keys, keys)
        return mx.cos(inputs[..., None] * mx.arange(1, 9))

    def _next(self, history: list[int]) -> int:
        if self._go not in history:
            return self._eos
        start = len(history) - history[::-1].index(self._go)
        script = self._answer(history[:start])
        done = len(history) - start
        return script[done] if done < len(script) else self._eos


class Stage:
    """A scripted model on a stage of its own: a loader for ``Engine(loader=stage.load)``.

    Args:
        folder: A scratch folder for the tokenizer files.
        scripts: User message to the pieces of the answer; a piece is a text (one token, or its
            bytes) or a token id.
        context: Context length in tokens.
        logits: The width of the model's logits; None for all ids of the tokenizer.
        options: For ``write_tokenizer``.
    """

    def __init__(
        self,
        folder: Path,
        scripts: dict[str, Sequence[str | int]],
        *,
        context: int = 4096,
        step_s: float = 0.0,
        logits: int | None = None,
        **options: Any,
    ) -> None:
        texts = {piece for script in scripts.values() for piece in script if isinstance(piece, str)}
        reserved = {START, END, GO, *options.get("special", ()), *options.get("plain", ())}
        options.setdefault("pieces", sorted(texts - reserved))
        write_tokenizer(folder, **options)
        self.folder = folder
        bound_templates()
        self.wrapper = load_wrapper(folder)
        self.scripts = {
            text: [i for piece in script for i in self.ids(piece)]
            for text, script in scripts.items()
        }
        self._context = context
        go = self.wrapper.convert_tokens_to_ids(GO)
        self.logits_size = logits or 1 + max(self.wrapper.get_vocab().values())
        self.model = ScriptedModel(
            self.logits_size,
            go,
            self.wrapper.eos_token_id,
            self._script_of,
        )
        if step_s:
            self.model.fault = lambda _: time.sleep(step_s)

    def slow_until(self, is_over: threading.Event, step_s: float = 0.05) -> None:
        """Let each step take ``step_s`` until ``is_over`` is set, however slow the machine is.

        What a test does while an answer runs is done before the answer ends by itself.
        """

        def wait(_: int) -> None:
            is_over.wait(step_s)

        self.model.fault = wait

    def hold_at(self, call: int, goes_on: threading.Event) -> None:
        """Hold the model in one of its calls until ``goes_on`` is set, for a minute at most."""

        def wait(number: int) -> None:
            if number == call:
                goes_on.wait(60)

        self.model.fault = wait

    def ids(self, piece: str | int) -> list[int]:
        if isinstance(piece, int):
            return [piece]
        return list(self.wrapper.encode(piece, add_special_tokens=False))

    def id(self, piece: str) -> int:
        """Return the id of a piece that is one token."""
        [only] = self.ids(piece)
        return only

    def _script_of(self, prompt: list[int]) -> Sequence[int]:
        asked = self.wrapper.decode(prompt).rsplit("user:", 1)[-1]
        asked = asked.split(END)[0].split(GO)[0]
        return self.scripts.get(asked, [])

    def load(
        self,
        folder: Path,
        *,
        limits: BatchLimits,
        on_progress: OnLoadProgress = unobserved,
        **_: Any,
    ) -> MlxBackend:
        """Make the backend; called on the engine thread."""
        ends = end_tokens(self.folder, self.wrapper, self.logits_size)
        sources = {end.token_id: end.source for end in ends}
        vocabulary = read_vocabulary(
            self.folder, self.wrapper._tokenizer, sources, self.logits_size, sources
        )
        info = ModelInfo(
            id="scripted",
            path=self.folder,
            architecture="scripted",
            context_length=self._context,
            vocabulary_size=vocabulary.size,
            eos=ends,
            can_think=bool(self.wrapper.has_thinking),
            can_call_tools=bool(self.wrapper.has_tool_calling),
            size_bytes=0,
            loaded_at=0,
            cache=CacheSize(_TOKEN_BYTES),
        )
        return MlxBackend(
            self.wrapper,
            info,
            vocabulary,
            RunningBatch(self.model, limits),
        )
