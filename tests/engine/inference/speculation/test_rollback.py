"""Tokens of a pass are taken back: each sequence then goes on as if it had never read them."""

from typing import Any

import mlx.core as mx
import pytest
from mlx import nn
from mlx_lm.models.cache import ArraysCache, make_prompt_cache

from engine.inference.running_cache import joining, prepare_to_run, taken_out
from engine.inference.speculation import rollback
from engine.inference.speculation.rollback import Rollback
from tests.support.models.architectures import WINDOW, architecture_model
from tests.support.random_cases import few_of

# A state with short convolutions, other recurrences, a state beside keys and values, and windows.
_MODELS = (
    "qwen3_next",
    "kimi_linear",
    "mamba2",
    "jamba",
    "rwkv7",
    "recurrent_gemma",
    "falcon_h1",
    "baichuan_m1",
    "lfm2",
    "gpt_oss",
    "qwen3",
)
# Those of whose layers only the recurrences run again.
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
# Others with states.
_STATES = ("jamba", "rwkv7", "recurrent_gemma", "baichuan_m1")
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


@pytest.mark.parametrize("kept", [(2, 2, 2), (0, 0, 0), (4, 1, 3), (0, 4, 2), (4, 4, 4)])
@pytest.mark.parametrize("name", _MODELS)
def test_each_sequence_goes_on_behind_its_last_token_that_stays(
    name: str, kept: tuple[int, ...]
) -> None:
    model = architecture_model(name)
    cache = _cache_of(model, _PROMPTS)
    undone = Rollback(model)
    assert undone.most_tokens(cache) > 4
    undone.read(mx.array(_DRAFTS), cache)
    undone.take_back(cache, [4 - one for one in kept])

    read = [
        [*prompt, *draft[:count]]
        for prompt, draft, count in zip(_PROMPTS, _DRAFTS, kept, strict=True)
    ]
    expected = _next_logits(model, _cache_of(model, read), 3)
    assert mx.allclose(_next_logits(model, cache, 3), expected, atol=1e-4)


@pytest.mark.parametrize("kept", range(5))
@pytest.mark.parametrize("tokens", few_of(range(1, 3 * WINDOW), 8))
def test_a_lone_sequence_goes_on_behind_its_last_token_across_the_borders_of_its_chunks(
    tokens: int, kept: int
) -> None:
    model = architecture_model("llama4")
    prompt = [n * 7 % 61 for n in range(tokens)]

    def read(tokens: list[int]) -> list[Any]:
        cache = joining(None, model)
        assert cache is not None
        model(mx.array([tokens]), cache=cache)
        return cache

    cache = read(prompt)
    undone = Rollback(model)
    assert undone.most_tokens(cache) > 4
    undone.read(mx.array(_DRAFTS[:1]), cache)
    undone.take_back(cache, [4 - kept])
    expected = _next_logits(model, read([*prompt, *_DRAFTS[0][:kept]]), 1)
    assert mx.allclose(_next_logits(model, cache, 1), expected, atol=1e-4)


@pytest.mark.parametrize("name", ["gpt_oss", "muse_spark"])
def test_a_full_window_that_leaves_after_all_tokens_were_taken_back_can_join_again(
    name: str,
) -> None:
    model = architecture_model(name)
    cache = _cache_of(model, _PROMPTS)
    undone = Rollback(model)
    undone.read(mx.array(_DRAFTS), cache)
    undone.take_back(cache, [4, 2, 4])
    left = [taken_out([part.extract(row) for part in cache]) for row in range(3)]
    again = [part[0].merge(list(part)) for part in zip(*left, strict=True)]
    prepare_to_run(again)

    expected = _cache_of(model, [_PROMPTS[0], [*_PROMPTS[1], 11, 21], _PROMPTS[2]])
    for _ in range(3):
        assert mx.allclose(
            _next_logits(model, again, 3), _next_logits(model, expected, 3), atol=1e-4
        )


def test_tokens_in_groups_that_are_closed_are_not_taken_back() -> None:
    model = architecture_model("deepseek_v41")
    cache = joining(None, model)
    assert cache is not None
    assert Rollback(model).most_tokens(cache) == 0


def test_what_leaves_the_batch_is_in_the_order_of_its_tokens() -> None:
    model = architecture_model("qwen3")
    cache = _cache_of(model, _PROMPTS)
    undone = Rollback(model)
    read = [[*prompt] for prompt in _PROMPTS]
    for kept in ((2, 4, 1), (4, 0, 4), (1, 3, 2), (4, 4, 0)):
        undone.read(mx.array(_DRAFTS), cache)
        undone.take_back(cache, [4 - one for one in kept])
        for tokens, draft, count in zip(read, _DRAFTS, kept, strict=True):
            tokens += draft[:count]
    for part in cache:
        part.filter([0, 1])
        part.extend(type(part).merge([part.extract(1)]))
    for place, tokens in enumerate([read[0], read[1], read[1]]):
        alone = make_prompt_cache(model)
        model(mx.array([tokens]), cache=alone)
        for part, fresh in zip(cache, alone, strict=True):
            found, expected = part.extract(place), fresh.keys[:, :, : fresh.offset]
            assert found.offset == len(tokens)
            assert mx.allclose(found.keys, expected, atol=1e-4)


@pytest.mark.parametrize("keeps_steps", [True, False])
@pytest.mark.parametrize("name", few_of(_RECURRENT, 5))
def test_no_layer_is_called_again_where_only_its_recurrence_has_to_run(
    name: str, keeps_steps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = architecture_model(name)
    undone = Rollback(model)
    cache = _cache_of(model, _PROMPTS)
    undone.most_tokens(cache)
    if not keeps_steps:
        monkeypatch.setattr(rollback, "_MOST_REMEMBERED_BYTES", 0)
    undone.read(mx.array(_DRAFTS), cache)

    def called(*_: object, **__: object) -> None:
        raise AssertionError("a layer was called again")

    for kind in {type(module) for module in model.modules()}:
        monkeypatch.setattr(kind, "__call__", called)
    undone.take_back(cache, [3, 0, 2])
    undone.shorten([part.extract(1) for part in cache], 1, 2, 2)


@pytest.mark.parametrize("name", ["qwen3_next", "kimi_linear"])
def test_a_state_that_was_kept_is_the_state_that_is_computed_again(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = architecture_model(name)

    def states() -> list[mx.array]:
        undone, cache = Rollback(model), _cache_of(model, _PROMPTS)
        undone.most_tokens(cache)
        undone.read(mx.array(_DRAFTS), cache)
        undone.take_back(cache, [3, 0, 2])
        return [state for part in cache if isinstance(part, ArraysCache) for state in part.cache]

    kept = states()
    monkeypatch.setattr(rollback, "_MOST_REMEMBERED_BYTES", 0)
    assert all(mx.array_equal(*both) for both in zip(kept, states(), strict=True))


def test_a_convolution_that_keeps_something_else_is_called_again() -> None:
    class Louder(nn.Module):
        """A layer that keeps the end of what its convolution was given, but twice as large."""

        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv1d(8, 8, 3, groups=8, bias=False)

        def __call__(self, inputs: mx.array, cache: Any) -> mx.array:
            before = mx.zeros((inputs.shape[0], 2, 8)) if cache[0] is None else cache[0]
            given = mx.concatenate([before / 2, inputs], axis=1)
            cache[0] = given[:, -2:] * 2
            return inputs + self.conv(given)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(64, 8)
            self.layers = [Louder(), Louder()]

        def make_cache(self) -> Any:
            return [ArraysCache(1) for _ in self.layers]

        def __call__(self, tokens: mx.array, cache: Any) -> mx.array:
            hidden = self.embed(tokens)
            for layer, part in zip(self.layers, cache, strict=True):
                hidden = layer(hidden, cache=part)
            return hidden

    model = Model()
    cache = _cache_of(model, _PROMPTS)
    undone = Rollback(model)
    assert undone.most_tokens(cache) > 4
    undone.read(mx.array(_DRAFTS), cache)
    undone.take_back(cache, [3, 0, 2])
    read = [[*p, *d[:n]] for p, d, n in zip(_PROMPTS, _DRAFTS, (1, 4, 2), strict=True)]
    expected = _next_logits(model, _cache_of(model, read), 3)
    assert mx.allclose(_next_logits(model, cache, 3), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["qwen3_next", "mamba2", "rwkv7"])
def test_what_is_remembered_is_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = architecture_model(name)
    undone = Rollback(model)
    states = sum(part.nbytes for part in _cache_of(model, [[1]]) if not hasattr(part, "keys"))
    counted = undone.pass_bytes(8)
    assert undone.token_bytes > 0
    assert counted == states + 8 * max(undone.token_bytes, undone.step_bytes)
    monkeypatch.setattr(rollback, "_MOST_REMEMBERED_BYTES", 5 * undone.token_bytes)
    assert undone.most_tokens(_cache_of(model, [[1]])) == 5
    assert undone.pass_bytes(80) == states + 5 * undone.token_bytes
    assert Rollback(architecture_model("qwen3")).pass_bytes(8) == 0


def test_modules_are_themselves_again_after_a_pass_that_failed() -> None:
    model = architecture_model("qwen3_next")
    kinds = [type(module) for module in model.modules()]
    cache = _cache_of(model, _PROMPTS)
    undone = Rollback(model)
    undone.most_tokens(cache)
    with pytest.raises(ValueError, match="shape"):
        undone.read(mx.array([[1, 2]]), cache)  # one sequence, where the cache has three
    assert [type(module) for module in model.modules()] == kinds


def test_a_model_whose_states_nobody_is_given_takes_nothing_back() -> None:
    class Hidden(nn.Module):
        """A model whose layers do not take a cache under its name."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = architecture_model("mamba2")
            self.layers = self.inner.layers

        def make_cache(self) -> Any:
            return self.inner.make_cache()

        def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
            for part in cache:
                part[0] = tokens
            return tokens

    model = Hidden()
    assert Rollback(model).most_tokens([ArraysCache(2)]) == 0


@pytest.mark.parametrize("keeps_steps", [True, False])
@pytest.mark.parametrize("name", few_of([*_STATES, *_RECURRENT], 7))
def test_a_pass_holds_no_more_than_is_counted_for_its_sequences(
    name: str, keeps_steps: bool
) -> None:
    model = architecture_model(name)
    mx.eval(model.parameters())
    drafts = mx.array([[*range(10, 26)]] * 3)
    undone = Rollback(model)
    undone.most_tokens(_cache_of(model, _PROMPTS))
    if not keeps_steps:
        undone.step_bytes = 0
    counted = 3 * undone.pass_bytes(drafts.shape[1])

    def taken(reads: Any) -> int:
        """Return the memory that stays taken once some tokens were read."""
        cache = _cache_of(model, _PROMPTS)
        mx.eval([part.state for part in cache])
        before = mx.get_active_memory()
        logits = reads(drafts, cache)
        mx.eval(logits, [part.state for part in cache])
        del logits
        return mx.get_active_memory() - before

    plain = taken(lambda inputs, cache: model(inputs, cache=cache))
    held = taken(undone.read) - plain
    assert 0 < held <= counted
    undone.forget()
    assert undone._pass is None
