"""The weights that a decode step reads: of a mixture of experts, those of the chosen ones."""

import pytest

from engine.inference.weights import size_of, step_reads
from engine.library.memory_need import CacheSize
from tests.support.models.architectures import architecture_config, architecture_model


@pytest.mark.parametrize("name", ["qwen3_moe", "gpt_oss", "deepseek_v3", "qwen3"])
def test_step_reads_chosen_experts_alone(name: str) -> None:
    model, config = architecture_model(name), architecture_config(name)
    reads = step_reads(model, config, CacheSize(8))
    whole = size_of(model)
    assert reads.weights + reads.experts == whole
    if name == "qwen3":
        assert reads.weights_for(1) == whole
        return
    assert reads.expert_share == 0.5
    assert reads.weights_for(1) == reads.weights + reads.experts / 2
    assert reads.weights_for(1) < reads.weights_for(2) < reads.weights_for(40) <= whole
