"""The draft head of the demo model, and how it is trained."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import mlx.core as mx
import pytest

from engine.inference.speculation.heads import build_head, read_head

pytestmark = pytest.mark.usefixtures("training_modules")


@pytest.fixture(scope="module")
def trained(training_modules: None, folder: Path) -> tuple[Any, Any]:
    """Return the demo model and its draft head."""
    import draft_head

    return draft_head.loaded(folder)


def test_the_head_is_a_small_file_beside_the_weights_in_the_layout_of_qwen(folder: Path) -> None:
    file = folder / "mtp.safetensors"
    weights: Any = mx.load(str(file))
    assert file.stat().st_size <= 1_000_000
    assert {"mtp.fc.weight", "mtp.norm.weight", "mtp.layers.0.self_attn.q_proj.weight"} <= {
        *weights
    }
    assert weights["mtp.fc.weight"].shape == (128, 256)
    assert all(weight.dtype == mx.float32 for weight in weights.values())


def test_most_of_its_guesses_at_lists_never_seen_are_right_three_tokens_ahead(
    trained: tuple[Any, Any], folder: Path
) -> None:
    import draft_head
    from conversations import alone
    from prompts_counting import counting, lettering
    from rendering import Rendering

    rng = Random(21)
    asked = [alone(family(rng, held_out=True)) for family in (counting, lettering) * 6]
    first, second, third = draft_head.accepted(*trained, Rendering(folder), asked)
    assert first >= 0.85
    assert second >= 0.75
    assert third >= 0.65


def test_the_engine_computes_what_was_trained_also_for_a_draft_on_a_draft(
    trained: tuple[Any, Any], folder: Path
) -> None:
    import draft_head

    model, head = trained
    ids = mx.array([[300, 310, 320, 330, 340, 350, 360, 370]])
    _, guessed = draft_head.logits_ahead(model, head, ids)
    place = guessed[0].shape[1] - 1
    weights = read_head(folder, layers=4)
    assert weights is not None
    built = build_head(weights, model, json.loads((folder / "config.json").read_text()))
    cache, hidden = built.make_cache(), model.model(ids)[:, : place + 1]
    states, handed_on = built.read(hidden, ids[:, 1 : place + 2], cache)
    later, _ = built.read(handed_on[:, -1:], ids[:, place + 2 : place + 3], cache)
    first, second = built.logits(states), built.logits(later)
    assert mx.allclose(first[:, -1], guessed[0][:, place], atol=1e-4)
    assert mx.allclose(second[:, -1], guessed[1][:, place], atol=1e-4)
