"""Features of pictures in the text models of mlx-lm, beside the whole models of mlx-vlm."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx_vlm")

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model
from mlx_vlm.models import cache as oracle_cache
from mlx_vlm.models.gemma3n import vision as gemma3n_vision

from engine.inference.running_cache import prepare_to_run
from engine.inference.speculation.rollback import Rollback
from engine.inference.vision.tower import read_tower
from engine.inference.vision.vision import PreparedPicture, Vision
from tests.support.models.seeing import write_model

FAMILIES = (
    "qwen2_vl",
    "qwen2_5_vl",
    "qwen3_vl",
    "qwen3_vl_moe",
    "qwen3_5",
    "qwen3_5_moe",
    "gemma3",
    "gemma3n",
    "gemma4",
    "gemma4_both_ways",
    "mistral3",
    "lfm2-vl",
)
_IMAGE = 290
_BEHIND = list(range(10, 30))


def pictures(family: str) -> list[PreparedPicture]:
    """Return two pictures of noise, their images in the form that the family's processor gives."""
    mx.random.seed(3)
    made = []
    for number, (height, width) in enumerate(((4, 6), (8, 4))):
        grid, tokens = None, 4
        match family:
            case _ if family.startswith("qwen"):
                tokens, grid = height * width // 4, (1, height // 2, width // 2)
                pixels: dict[str, Any] = {
                    "pixel_values": mx.random.normal((height * width, 3 * 2 * 16 * 16)),
                    "image_grid_thw": mx.array([(1, height, width)]),
                }
            case "lfm2-vl":
                pixels = {
                    "pixel_values": mx.random.normal((1, 16, 48)),
                    "spatial_shapes": mx.array([[4, 4]]),
                    "pixel_attention_mask": mx.ones((1, 16), mx.int32),
                }
            case "mistral3":
                pixels = {"pixel_values": mx.random.normal((1, 3, 16, 16))}
                pixels["image_sizes"] = [(16, 16)]
            case "gemma3n":
                pixels = {"pixel_values": mx.random.uniform(shape=(1, 3, 32, 32))}
            case _:
                pixels = {"pixel_values": mx.random.uniform(shape=(1, 3, 16, 16))}
        digest = bytes([number + 1]) * 32
        shown: Any = pixels
        made.append(PreparedPicture("me", digest, shown, "", tokens, grid))
    return made


def use_small_mobilenet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give Gemma 3n's tower few blocks, and 2 x 2 tokens a picture."""
    tower, uir = gemma3n_vision, gemma3n_vision._uir
    blocks = [
        [tower._er(3, 128, 2)],
        [uir(3, 0, 256, 2, 1.0)],
        [uir(3, 0, 640, 2, 1.0)],
        [uir(3, 0, 1280, 2, 1.0), tower._mmqa(2, 8, 1)],
    ]
    adapter = tower.MobileNetV5MultiScaleFusionAdapter

    def small_adapter(**given: Any) -> Any:
        return adapter(**{**given, "output_resolution": (2, 2)})

    monkeypatch.setattr(tower, "gemma3n_mobilenet_def", lambda: blocks)
    monkeypatch.setattr(tower, "MobileNetV5MultiScaleFusionAdapter", small_adapter)


def joined(parts: list[Any]) -> Any:
    return mx.concatenate(parts) if isinstance(parts[0], mx.array) else [*parts[0], *parts[1]]


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_after_pictures_equal_those_of_mlx_vlm(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Vision, "_process", lambda _, owner, shown, field: (None, shown))
    if family == "gemma3n":
        use_small_mobilenet(monkeypatch)
    whole = write_model(tmp_path, family)
    seen = pictures(family)
    first, second = ([_IMAGE] * one.tokens for one in seen)
    ids = [5, 6, 7, 288, *first, 289, 8, 9, 288, *second, 289, *_BEHIND]
    tokens = mx.array([ids])
    shown: list[Any] = [one.picture for one in seen]
    pixels = {name: joined([one[name] for one in shown]) for name in shown[0]}
    text = whole.language_model
    made = oracle_cache.make_prompt_cache(text)
    found = whole.get_input_embeddings(tokens, **pixels, mask=mx.ones_like(tokens)).to_dict()
    found = {
        name: value
        for name, value in found.items()
        if value is not None and name != "attention_mask_4d"
    }
    if family == "gemma3n":  # mlx_vlm/models/gemma3n/gemma3n.py, line 122, scales no ids of text
        are_text = (tokens < 289)[..., None]
        found["inputs_embeds"] *= mx.where(are_text, text.config.hidden_size**0.5, 1.0)
    if family == "gemma4_both_ways":
        found["mm_token_type_ids"] = (tokens == _IMAGE).astype(mx.int32)
    expected = text(tokens, cache=made, **found).logits
    behind = text(mx.array([[33]]), cache=made).logits

    model, config = load_model(tmp_path)
    vision = Vision(tmp_path, config, model, read_tower(tmp_path, config, model))
    placed = vision.locate(ids, seen)
    assert placed is not None
    for chunk in (1000, 16, 7, 1):
        cache, logits = make_prompt_cache(model), []
        start = 0
        while start < len(ids):
            end = vision.whole_end(placed, start, min(len(ids), start + chunk))
            while vision.run_tower(placed, start, end, 0):
                pass
            with vision.shown(placed, start, end):
                part = vision.readable(ids[start:end])
                logits.append(model(mx.array([part]), cache=cache))
            start = end
        assert mx.abs(mx.concatenate(logits, axis=1) - expected).max().item() < 1e-4
    vision.set_deltas([placed.delta])
    assert mx.abs(model(mx.array([[33]]), cache=cache) - behind).max().item() < 1e-4


def test_keys_of_another_picture_differ_at_every_token_of_it(tmp_path: Path) -> None:
    write_model(tmp_path, "qwen3_vl")
    model, config = load_model(tmp_path)
    vision = Vision(tmp_path, config, model, read_tower(tmp_path, config, model))
    one, other = pictures("qwen3_vl")
    ids = [5, *[_IMAGE] * one.tokens, 6]
    other = replace(one, digest=other.digest)
    keys = [np.array(placed.keys) for p in (one, other) if (placed := vision.locate(ids, [p]))]
    assert (keys[0] == keys[1]).tolist() == [True, *[False] * one.tokens, True]
    assert vision.ids_of(keys[0].tolist()) == ids
    assert vision.locate(ids, [one, other]) is None


def test_states_can_be_taken_back_beside_pictures(tmp_path: Path) -> None:
    write_model(tmp_path, "qwen3_5")
    model, config = load_model(tmp_path)
    vision = Vision(tmp_path, config, model, read_tower(tmp_path, config, model))
    vision.set_deltas([-3, -4])
    cache = [part.merge([part, part]) for part in make_prompt_cache(model)]
    prepare_to_run(cache)
    assert Rollback(model).can_take_back(cache)
