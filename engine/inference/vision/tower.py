"""The part of a model that sees: mlx-vlm's vision tower and projector with the folder's weights.

mlx-vlm's model is built whole, because it joins tower and projector; its own text model computes
nothing and gets no weights. Engine thread.
"""

import importlib
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn

_TEXT = "language_model."


# How much larger mlx-lm's text model makes the embeddings that it looks up.
_SCALED = {"gemma4", "gemma3n"}


class Tower:
    """Turns the pixels of a picture into what the text model reads in place of its tokens."""

    def __init__(self, model: Any, hidden_size: int, dtype: Any) -> None:
        self.model = model
        self._text = _TextModel(hidden_size, dtype)
        model.language_model = self._text
        self._divisor = hidden_size**0.5 if model.config.model_type in _SCALED else 1.0

    def features(self, ids: Any, pixels: dict[str, Any]) -> tuple[Any, Any]:
        """Return the features of a picture's tokens, and those of the first layers or None.

        Args:
            ids: The tokens of one picture, of shape (1, tokens).
            pixels: What mlx-vlm's processor made of it.
        """
        found = self.model.get_input_embeddings(ids, **pixels, mask=mx.ones_like(ids))
        return found.inputs_embeds[0] / self._divisor, found.deepstack_visual_embeds


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


def read_tower(folder: Path, config: dict[str, Any]) -> Any:
    """Return mlx-vlm's model with the weights of everything but its text model, not computed."""
    from mlx_vlm import utils

    kind, _ = utils.get_model_and_args(dict(config))
    stated = {**config, "text_config": dict(config.get("text_config") or {}),
              "vision_config": dict(config.get("vision_config") or {}),
              "audio_config": dict(config.get("audio_config") or {})}
    own = kind.ModelConfig.from_dict(stated)
    own = utils.update_module_configs(own, kind, stated, ["text", "vision", "projector", "audio"])
    model = kind.Model(own)
    weights: dict[str, Any] = {}
    for file in sorted(folder.glob("model*.safetensors")):
        weights |= mx.load(str(file))
    weights = utils.sanitize_weights(model, weights)
    for name, part in (("VisionModel", "vision_config"), ("LanguageModel", "text_config")):
        if hasattr(kind, name):
            weights = utils.sanitize_weights(getattr(kind, name), weights, getattr(own, part))
    weights = {name: value for name, value in weights.items() if not name.startswith(_TEXT)}
    if quantization := config.get("quantization"):
        nn.quantize(
            model,
            group_size=quantization["group_size"],
            bits=quantization["bits"],
            class_predicate=lambda path, module: hasattr(module, "to_quantized") and f"{path}.scales" in weights,
        )
    model.load_weights(list(weights.items()), strict=False)
    return model
