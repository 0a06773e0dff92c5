"""The part of a model that sees: mlx-vlm's tower, projector and processor with a folder's weights.

mlx-vlm's model is built whole, because it joins tower and projector. Its own text model computes
nothing and gets no weights: mlx-lm's answers. Engine thread.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn

from engine.inference.vision.text_model import subclass
from engine.library.architectures import SEEING, SeeingFamily
from engine.library.configuration import architecture_of

_TEXT = "language_model."


class Tower:
    """Turns the pixels of a picture into what the text model reads in place of its tokens.

    Attributes:
        family: How the text model reads its features.
        token: The id of a picture's tokens.
        placeholder: The id of which the text model looks up what else it needs of them.
        special: The first of the ids that it embeds, such as that behind a picture, and their
            embeddings; None for most models.
    """

    def __init__(self, model: Any, family: SeeingFamily, hidden_size: int, dtype: Any) -> None:
        self._model, self.family = model, family
        model.language_model = _TextModel(hidden_size, dtype)
        config = model.config
        self.token = int(getattr(config, "image_token_id", None) or config.image_token_index)
        self.placeholder = 0 if family.scales_embeddings else self.token
        self._divisor = hidden_size**0.5 if family.scales_embeddings else 1.0
        self.special: tuple[int, Any] | None = None
        if family.needs_audio:
            vision = config.vision_config
            first = int(vision.vocab_offset)
            rows = model.embed_vision(mx.arange(first, first + vision.vocab_size))
            self.special = first, rows / self._divisor
        self._outputs: list[Any] = []
        for block in _blocks(model.vision_tower):
            subclass(block, _Block)
            block.note_output = self._outputs.append
        self._added: list[Any] = []
        if getattr(config.vision_config, "deepstack_visual_indexes", None):
            subclass(model.vision_tower, _DeepStack)
            model.vision_tower.note_added = self._added.extend

    @property
    def size_bytes(self) -> int:
        return sum(int(part.nbytes) for _, part in nn.utils.tree_flatten(self._model.parameters()))

    def features(self, tokens: int, pixels: dict[str, Any]) -> "Features":
        """Return the features of a picture's tokens, to be computed.

        ``pixels`` is what the processor made of the picture.
        """
        ids = mx.full((1, tokens), self.token)
        try:
            found = self._model.get_input_embeddings(ids, **pixels, mask=mx.ones_like(ids))
            values, added = found.inputs_embeds[0] / self._divisor, tuple(self._added)
            return Features(values, added, [*self._outputs, (values, added)])
        finally:
            self._outputs.clear()
            self._added.clear()


class Features:
    """The features of a picture's tokens, computed block by block of the tower.

    Attributes:
        values: In place of the tokens' embeddings, of shape (tokens, size).
        added: Added behind each of the first layers, of the same shape.
        is_complete: Whether they are computed.
    """

    def __init__(self, values: Any, added: tuple[Any, ...], outputs: list[Any]) -> None:
        self.values, self.added = values, added
        self._outputs = deque(outputs)

    @property
    def is_complete(self) -> bool:
        return not self._outputs

    @property
    def size_bytes(self) -> int:
        return int(self.values.nbytes) + sum(int(part.nbytes) for part in self.added)

    def compute(self, max_s: float) -> bool:
        """Evaluate at least one block, until ``max_s`` have passed; return whether it was all."""
        end_s = time.perf_counter() + max_s
        while self._outputs:
            mx.eval(self._outputs.popleft())
            if time.perf_counter() >= end_s:
                break
        return self.is_complete


class _Block:
    """Added to the class of a tower's block: MLX computes nothing before an output is evaluated."""

    note_output: Callable[[Any], None]

    def __call__(self, *args: Any, **options: Any) -> Any:
        output = super().__call__(*args, **options)  # type: ignore[misc]
        self.note_output(output)
        return output


class _DeepStack:
    """Added to the class of Qwen3-VL's tower: its model would evaluate what layers add at once."""

    note_added: Callable[[Any], None]

    def __call__(self, *args: Any, **options: Any) -> Any:
        values, added = super().__call__(*args, **options)  # type: ignore[misc]
        self.note_added(added)
        return values, None


def _blocks(module: Any) -> Iterator[Any]:
    """Return the modules that a tower has in lists."""
    parts: Any = nn.utils.tree_flatten(module.children(), is_leaf=nn.Module.is_module)
    for name, part in parts:
        if "." in name:
            yield part
        else:
            yield from _blocks(part)


class _TextModel(nn.Module):  # type: ignore[misc]  # mlx has no types
    """In place of mlx-vlm's text model, which the towers ask for the embeddings of tokens."""

    embed_scale = 1.0
    hidden_size_per_layer_input = 0

    def __init__(self, hidden_size: int, dtype: Any) -> None:
        super().__init__()
        self._hidden_size, self._dtype = hidden_size, dtype

    @property
    def model(self) -> "_TextModel":
        return self

    def embed_tokens(self, ids: Any) -> Any:
        return mx.zeros((*ids.shape, self._hidden_size), self._dtype)

    def get_rope_index(self, *_: Any) -> tuple[None, None]:
        return None, None

    def get_per_layer_inputs(self, ids: Any) -> None:
        return None


def read_tower(folder: Path, config: dict[str, Any], text_model: Any) -> Tower:
    """Return the tower of a folder; raises mlx-vlm's errors."""
    from mlx_vlm import utils

    family = SEEING[architecture_of(config)]
    kind, _ = utils.get_model_and_args(dict(config))
    parts = ["text", "vision", "projector"]
    stated = {**config, "audio_config": None}
    if family.needs_audio:
        parts.append("audio")
        stated["audio_config"] = dict(config.get("audio_config") or {})
    for name in ("text_config", "vision_config"):
        stated[name] = dict(config.get(name) or {})
    own = kind.ModelConfig.from_dict(stated)
    own = utils.update_module_configs(own, kind, stated, parts)
    model = kind.Model(own)
    weights: dict[str, Any] = {}
    for file in sorted(folder.glob("model*.safetensors")):
        read: Any = mx.load(str(file))
        weights |= read
    weights = utils.sanitize_weights(model, weights)
    for name, part in (("VisionModel", "vision_config"), ("LanguageModel", "text_config")):
        if hasattr(kind, name):
            weights = utils.sanitize_weights(getattr(kind, name), weights, getattr(own, part))
    weights = {name: value for name, value in weights.items() if not name.startswith(_TEXT)}
    model.language_model = nn.Module()
    if family.needs_audio:
        model.audio_tower = nn.Module()
    if quantization := config.get("quantization"):
        nn.quantize(
            model,
            group_size=quantization["group_size"],
            bits=quantization["bits"],
            class_predicate=lambda path, part: (
                hasattr(part, "to_quantized") and f"{path}.scales" in weights
            ),
        )
    missing = {name for name, _ in nn.utils.tree_flatten(model.parameters())} - weights.keys()
    if any(name.startswith("vision_tower.") for name in missing):
        raise ValueError(f"the weights lack {sorted(missing)[0]} and {len(missing) - 1} more")
    model.load_weights(list(weights.items()), strict=False)
    mx.eval(model.parameters())  # the first picture must not wait for the disk, nor others with it
    # The weights of a quantized table are packed; its output has the text model's type.
    embedding = next(part.embed_tokens for part in text_model.modules() if "embed_tokens" in part)
    probe = embedding(mx.array([[0]]))
    return Tower(model, family, int(probe.shape[-1]), probe.dtype)


def read_processor(folder: Path) -> Any:
    """Return mlx-vlm's processor of a folder; raises whatever transformers does."""
    from mlx_vlm import utils

    return utils.load_processor(
        folder, add_detokenizer=False, trust_remote_code=False, use_fast=False
    )
