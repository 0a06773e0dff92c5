"""The part of a model that sees: mlx-vlm's tower, projector and processor with a folder's weights.

mlx-vlm's model is built whole, because it joins tower and projector. Its own text model computes
nothing and gets no weights: mlx-lm's answers. Engine thread.
"""

from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn

_TEXT = "language_model."
# mlx-lm multiplies what their tables of embeddings return, and gives each layer inputs of its own,
# in which a picture has those of id 0.
_SCALED = frozenset({"gemma3n", "gemma4"})


class Tower:
    """Turns the pixels of a picture into what the text model reads in place of its tokens.

    Attributes:
        kind: The model's type.
        token: The id of a picture's tokens.
        placeholder: The id of which the text model looks up what else it needs of them.
    """

    def __init__(self, model: Any, hidden_size: int, dtype: Any) -> None:
        self._model = model
        model.language_model = _TextModel(hidden_size, dtype)
        config = model.config
        self.kind = str(config.model_type)
        self.token = int(getattr(config, "image_token_id", None) or config.image_token_index)
        self.placeholder = 0 if self.kind in _SCALED else self.token
        self._divisor = hidden_size**0.5 if self.kind in _SCALED else 1.0

    @property
    def size_bytes(self) -> int:
        return sum(int(part.nbytes) for _, part in nn.utils.tree_flatten(self._model.parameters()))

    def features(self, tokens: int, pixels: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
        """Return the features of a picture's tokens, and what the first layers add to them.

        Each has the shape (tokens, size); ``pixels`` is what the processor made of the picture.
        """
        ids = mx.full((1, tokens), self.token)
        found = self._model.get_input_embeddings(ids, **pixels, mask=mx.ones_like(ids))
        added = found.deepstack_visual_embeds
        return found.inputs_embeds[0] / self._divisor, () if added is None else tuple(added)


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
    """Return the tower of a folder; raises whatever mlx-vlm does."""
    from mlx_vlm import utils

    kind, _ = utils.get_model_and_args(dict(config))
    parts = ["text", "vision", "projector"]
    # Gemma 3n tells tokens of pictures by those of sound, which other models can be without.
    needs_audio = config.get("model_type") == "gemma3n"
    stated = {**config, "audio_config": None}
    if needs_audio:
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
    if needs_audio:
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
    return Tower(model, int(probe.shape[-1]), probe.dtype)


def read_processor(folder: Path) -> Any:
    """Return mlx-vlm's processor of a folder; raises whatever transformers does."""
    from mlx_vlm import utils

    return utils.load_processor(
        folder, add_detokenizer=False, trust_remote_code=False, use_fast=False
    )
