"""The draft head of the demo model, and how it is trained."""

from __future__ import annotations

import json
from pathlib import Path
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
