"""Tokens of a pass are taken back: each sequence then goes on as if it had never read them."""

from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models.cache import make_prompt_cache

from engine.inference.running_cache import batched, extracted, prepare_to_run
from engine.inference.speculation.rollback import Rollback
from tests.support.models.architectures import WINDOW, architecture_model
from tests.support.random_cases import few_of

_MODELS = ("qwen3_next", "kimi_linear", "mamba2", "falcon_h1", "lfm2", "gpt_oss", "qwen3")
_RECURRENT = (
    "qwen3_next",
    "bailing_moe_v3",
    "kimi_linear",
    "qwen3_5",
    "olmo_hybrid",
    "mamba2",
    "nemotron_h",
    "granitemoehybrid",
    "falcon_h1",
    "lfm2",
    "plamo2",
)
# Other recurrences.
_NOT_TAKEN_BACK = ("jamba", "rwkv7", "recurrent_gemma", "baichuan_m1")
_PROMPTS = ([3, 9, 4, 11, 2], [7, 7, 1], [5, 60, 2, 8, 8, 30, 31, 32, 33, 34, 35, 36, 37, 38])
_DRAFTS = ([10, 20, 30, 40], [11, 21, 31, 41], [12, 22, 32, 42])


def _cache_of(model: Any, prompts: Any) -> list[Any]:
    """Return the cache of several sequences, each read alone."""
    caches = [make_prompt_cache(model) for _ in prompts]
    for prompt, cache in zip(prompts, caches, strict=True):
        model(mx.array([list(prompt)]), cache=cache)
    cache = [part[0].merge(list(part)) for part in zip(*caches, strict=True)]
    prepare_to_run(cache)
    return cache


def _next_logits(model: Any, cache: list[Any], rows: int) -> mx.array:
    logits: mx.array = model(mx.array([[50]] * rows), cache=cache)[:, -1]
    return logits


@pytest.mark.parametrize("kept", [(0, 0, 0), (4, 1, 3), (4, 4, 4)])
@pytest.mark.parametrize("name", _MODELS)
def test_each_sequence_goes_on_behind_its_last_token_that_stays(
    name: str, kept: tuple[int, ...]
) -> None:
    model = architecture_model(name)
    cache = _cache_of(model, _PROMPTS)
    undone = Rollback(model)
    assert undone.can_take_back(cache)
    undone.read(mx.array(_DRAFTS), cache)
    undone.take_back(cache, [4 - one for one in kept])

    read = [
        [*prompt, *draft[:count]]
        for prompt, draft, count in zip(_PROMPTS, _DRAFTS, kept, strict=True)
    ]
    expected = _next_logits(model, _cache_of(model, read), 3)
    assert mx.allclose(_next_logits(model, cache, 3), expected, atol=1e-4)


@pytest.mark.parametrize("kept", [0, 1, 4])
@pytest.mark.parametrize("tokens", few_of(range(1, 3 * WINDOW), 8))
def test_rollback_of_a_lone_sequence_across_chunks(tokens: int, kept: int) -> None:
    model = architecture_model("llama4")
    prompt = [n * 7 % 61 for n in range(tokens)]

    def read(tokens: list[int]) -> list[Any]:
        cache = batched(None, model)
        model(mx.array([tokens]), cache=cache)
        return cache

    cache = read(prompt)
    undone = Rollback(model)
    assert undone.can_take_back(cache)
    undone.read(mx.array(_DRAFTS[:1]), cache)
    undone.take_back(cache, [4 - kept])
    expected = _next_logits(model, read([*prompt, *_DRAFTS[0][:kept]]), 1)
    assert mx.allclose(_next_logits(model, cache, 1), expected, atol=1e-4)


@pytest.mark.parametrize("name", ["gpt_oss", "muse_spark"])
def test_full_window_rejoins_after_rollback(
    name: str,
) -> None:
    model = architecture_model(name)
    cache = _cache_of(model, _PROMPTS)
    undone = Rollback(model)
    undone.read(mx.array(_DRAFTS), cache)
    undone.take_back(cache, [4, 2, 4])
    left = [extracted([part.extract(row) for part in cache]) for row in range(3)]
    again = [part[0].merge(list(part)) for part in zip(*left, strict=True)]
    prepare_to_run(again)

    expected = _cache_of(model, [_PROMPTS[0], [*_PROMPTS[1], 11, 21], _PROMPTS[2]])
    for _ in range(3):
        assert mx.allclose(
            _next_logits(model, again, 3), _next_logits(model, expected, 3), atol=1e-4
        )


def test_tokens_in_groups_that_are_closed_are_not_taken_back() -> None:
    model = architecture_model("deepseek_v41")
    cache = batched(None, model)
    assert not Rollback(model).can_take_back(cache)


@pytest.mark.parametrize("name", _RECURRENT)
def test_recurrent_states_can_be_taken_back(name: str) -> None:
    model = architecture_model(name)
    assert Rollback(model).can_take_back(_cache_of(model, _PROMPTS))


@pytest.mark.parametrize("name", _NOT_TAKEN_BACK)
def test_states_of_other_recurrences_are_not_taken_back(name: str) -> None:
    model = architecture_model(name)
    assert not Rollback(model).can_take_back(_cache_of(model, _PROMPTS))
