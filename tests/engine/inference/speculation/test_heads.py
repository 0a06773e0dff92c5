"""Draft heads: found in checkpoints of every family, built, and run as the model's layers are."""

from typing import Any

import mlx.core as mx
import pytest

from engine.inference.speculation.heads import (
    DrafterUnusable,
    DraftHead,
    build_head,
    take_head,
)
from tests.support.models.architectures import architecture_config, architecture_model
from tests.support.models.draft_heads import LAYERS, PUBLISHED, published, random_head

TOKENS = mx.array([[5, 9, 2, 40, 7]])


def logits_of(head: DraftHead, *read: Any) -> tuple[mx.array, mx.array]:
    states, handed_on = head.read(*read)
    return head.logits(states), handed_on


def _found(weights: dict[str, mx.array]) -> Any:
    head = take_head(weights, LAYERS)
    assert head is not None
    return head


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_head_is_found_by_the_names_of_its_family_and_computes_the_same(name: str) -> None:
    model = architecture_model(name)
    config = architecture_config(name)
    checkpoint = {"model.norm.weight": mx.ones(32)}
    weights = published(name, random_head(name, model))
    found = _found(weights | checkpoint)
    expected = random_head(name, model, layout=found.layout)
    head = build_head(found, model, config)
    hidden = model.model(TOKENS)
    logits, handed_on = logits_of(head, hidden[:, :-1], TOKENS[:, 1:], head.make_cache())
    same, same_handed_on = logits_of(expected, hidden[:, :-1], TOKENS[:, 1:], expected.make_cache())
    assert logits.shape == (1, 4, 64)
    assert mx.array_equal(logits, same)
    assert mx.array_equal(handed_on, same_handed_on)


@pytest.mark.parametrize("name", ["qwen3", "mimo", "glm4_moe"])
def test_a_head_is_quantized_where_its_weights_are(name: str) -> None:
    model = architecture_model(name)
    head = random_head(name, model)
    found = _found(published(name, head, quantized=True))
    small = build_head(found, model, architecture_config(name))
    assert "scales" in small.fc
    assert "scales" not in small.norm
    hidden = model.model(TOKENS)[:, :-1]
    exact = logits_of(random_head(name, model, layout=found.layout), hidden, TOKENS[:, 1:])[0]
    assert (
        mx.abs(logits_of(small, hidden, TOKENS[:, 1:])[0] - exact).max() < 0.2 * mx.abs(exact).max()
    )


def test_a_head_shares_what_it_repeats_of_the_model() -> None:
    model = architecture_model("deepseek_v3")
    weights = published("deepseek_v3", random_head("deepseek_v3", model))
    words, output = model.model.embed_tokens.weight, model.lm_head.weight
    shared = {"model.embed_tokens.weight": words, "lm_head.weight": output}
    repeated = {
        "model.layers.4.embed_tokens.weight": mx.array(words),
        "model.layers.4.shared_head.head.weight": mx.array(output),
    }
    head = build_head(
        _found(weights | shared | repeated), model, architecture_config("deepseek_v3")
    )
    assert "embedding" not in head
    assert "output" not in head
    other = repeated | {"model.layers.4.shared_head.head.weight": output + 1}
    own = build_head(_found(weights | shared | other), model, architecture_config("deepseek_v3"))
    assert "embedding" not in own
    assert mx.array_equal(own.output.weight, output + 1)


def test_norms_that_are_stored_as_their_difference_from_one_are_made_whole() -> None:
    model = architecture_model("qwen3_5")
    head = random_head("qwen3_5", model)
    weights = published("qwen3_5", head)
    stored = {key: one - 1 if one.ndim == 1 else one for key, one in weights.items()}
    hidden = model.model(TOKENS)[:, :-1]
    exact = logits_of(head, hidden, TOKENS[:, 1:])[0]
    built = build_head(_found(stored), model, architecture_config("qwen3_5"))
    assert mx.allclose(logits_of(built, hidden, TOKENS[:, 1:])[0], exact, atol=1e-4)


def test_a_head_that_does_not_fit_is_refused_with_the_reason() -> None:
    model = architecture_model("qwen3")
    config = architecture_config("qwen3")
    weights = published("qwen3", random_head("qwen3", model))
    narrow = weights | {"mtp.fc.weight": mx.ones((32, 32))}
    with pytest.raises(DrafterUnusable, match="does not fit the model"):
        build_head(_found(narrow), model, config)
    missing = {key: one for key, one in weights.items() if "v_proj" not in key}
    with pytest.raises(DrafterUnusable, match="v_proj"):
        build_head(_found(missing), model, config)
    other = architecture_model("gpt_oss")
    with pytest.raises(DrafterUnusable):
        build_head(_found(weights), other, architecture_config("gpt_oss"))
