"""Answers of every architecture of mlx-lm are those of the bare model.

Alone and in batches that join and leave, over later turns, edits, caches on disk and cancels, with
drafts that are right or wrong at random places.
"""

import pkgutil
from pathlib import Path

import mlx.core as mx
import mlx_lm.models
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import make_prompt_cache

from engine.inference import batch
from engine.inference.backend import BatchLimits
from engine.inference.sequence import Sequence
from engine.values.request import LOCAL_OWNER
from tests.support.models.architectures import (
    ARCHITECTURES,
    architecture_model,
)
from tests.support.models.random_batches import RandomBatches
from tests.support.random_cases import cases, few_of

# One or two of each family: keys and values, latent attention, windows, states, convolutions.
_FAMILIES = (
    "qwen3",
    "deepseek_v3",
    "gpt_oss",
    "gemma4_text",
    "mistral3",
    "qwen3_next",
    "kimi_linear",
    "lfm2",
    "falcon_h1",
    "nemotron_h",
    "recurrent_gemma",
    "llama4",
)
# Modules beside mlx-lm's models.
_PARTS = {
    "activations",
    "base",
    "bitlinear_layers",
    "cache",
    "gated_delta",
    "mla",
    "pipeline",
    "rope_utils",
    "ssm",
    "switch_layers",
}


@pytest.mark.parametrize("name", few_of(_FAMILIES, 6))
def test_answers_of_a_family_are_those_of_the_bare_model(name: str, tmp_path: Path) -> None:
    batches = RandomBatches(architecture_model(name), 1, disk=tmp_path)
    for _ in range(2):  # the second finds what the first has left on disk
        outcome = batches.run(cases(4))
    assert outcome.faults == []
    assert outcome.accepted == outcome.foreseen
    assert outcome.foreseen > 0 or name == "recurrent_gemma"


@pytest.mark.parametrize("name", ["llama4", "deepseek_v41"])
@pytest.mark.parametrize("chunk", [3, 100])
def test_a_lone_sequence_is_answered_as_by_mlx_lms_own_loop_however_it_is_read(
    name: str, chunk: int
) -> None:
    """While it is answered, others wait; their turn comes."""
    model = architecture_model(name)
    prompts = [[n * (7 + row) % 61 for n in range(71)] for row in range(3)]
    running = batch.RunningBatch(model, BatchLimits(chunk, 0, 8))
    answers: dict[int, list[int]] = {
        running.insert(Sequence(list(prompt))): [] for prompt in prompts
    }
    for number, answer in answers.items():
        while len(answer) < 20:
            for sampled, row in running.step().items():
                assert sampled == number
                answer += [token for token, _ in row.sampled]
        running.remove({number: 0})
    running.close()
    for prompt, answer in zip(prompts, answers.values(), strict=True):
        whole = generate_step(mx.array(prompt), model, max_tokens=20, prefill_step_size=100)
        assert answer == [token for token, _ in whole]


@pytest.mark.parametrize("name", ["llama4", "deepseek_v41"])
def test_a_sequence_that_leaves_before_its_turn_leaves_a_cache_as_others_do(name: str) -> None:
    model = architecture_model(name)
    running = batch.RunningBatch(model, BatchLimits(16, 1 << 26, 8))
    prompt = [n * 7 % 61 for n in range(40)]

    def inserted() -> int:
        sequence = Sequence([*prompt, 1, 2])
        number = running.insert(sequence)
        assert sequence.cached >= 39
        return number

    def stepped() -> None:
        while not any(row.sampled for row in running.step().values()):
            pass

    first = running.insert(Sequence(list(prompt)))
    stepped()
    running.remove({first: 0})
    second, waiting = inserted(), inserted()
    stepped()
    running.evict_prompts(0)
    running.remove({waiting: 0})
    running.remove({second: 0})
    cache, *_ = running.prompt_cache.fetch(LOCAL_OWNER.name, [*prompt, 1, 2])
    assert cache is not None
    assert [type(part) for part in cache] == [type(part) for part in make_prompt_cache(model)]
    running.close()


def test_a_cache_of_a_models_own_kind_is_reused_from_memory_and_not_stored(tmp_path: Path) -> None:
    batches = RandomBatches(architecture_model("deepseek_v41"), 1, disk=tmp_path)
    for _ in range(2):
        outcome = batches.run(cases(5))
    assert outcome.faults == []
    assert outcome.cached > outcome.from_disk == 0
    assert outcome.drafts == 0  # its groups of tokens cannot be opened again


def test_a_prompt_is_read_token_by_token_where_several_would_see_each_other() -> None:
    outcome = RandomBatches(architecture_model("phi3small"), 1).run(cases(6))
    assert outcome.faults == []


def test_every_architecture_of_mlx_lm_is_built() -> None:
    modules = {one.name for one in pkgutil.iter_modules(mlx_lm.models.__path__)} - _PARTS
    assert modules == set(ARCHITECTURES)
