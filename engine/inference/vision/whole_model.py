"""mlx-vlm's whole model, with which an answer about a picture is compared. Any thread."""

from collections.abc import Callable, Sequence
from pathlib import Path

import mlx.core as mx
import numpy as np
from mlx_vlm import utils
from mlx_vlm.models.cache import make_prompt_cache

from engine.inference.comparison import compare_tokens
from engine.inference.vision.pictures import decoded
from engine.inference.vision.tower import read_processor
from engine.library.architectures import SEEING
from engine.values.request import Picture
from engine.values.tokens import Comparison

_OF_TEXT = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids")


def compare(
    folder: Path,
    picture: Picture,
    answer: tuple[Sequence[int], Sequence[int]],
    on_token: Callable[[int], None],
) -> Comparison:
    """Compare an answer to a prompt with a picture; see ``loader.compare_with_mlx_vlm``."""
    prompt, tokens = answer
    ids = mx.array([prompt])
    whole, processor = utils.load_model(folder), read_processor(folder)
    mark = getattr(processor, SEEING[str(whole.config.model_type)].mark)
    made = processor(text=[mark], images=[decoded(picture, "picture")], add_special_tokens=False)
    pixels = {
        name: mx.array(value) if isinstance(value, np.ndarray) else value
        for name, value in made.items()
        if name not in _OF_TEXT
    }
    found = whole.get_input_embeddings(ids, **pixels, mask=mx.ones_like(ids)).to_dict()
    text = whole.language_model
    cache = make_prompt_cache(text)
    found = {
        name: value
        for name, value in found.items()
        if value is not None and name != "attention_mask_4d"  # it is made for one pass alone
    }
    if str(whole.config.model_type) == "gemma4":  # large ones attend both ways inside a picture
        found["mm_token_type_ids"] = (ids == whole.config.image_token_id).astype(mx.int32)
    logits = text(ids, cache=cache, **found).logits
    return compare_tokens(
        tokens, logits, lambda token: text(mx.array([[token]]), cache=cache).logits, on_token, 0
    )
