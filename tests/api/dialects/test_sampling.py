"""The table of sampling parameters matches the engine's list, and its rows read what they write."""

import dataclasses
from typing import get_args

import pytest

from api.dialects.anthropic.wire import MessageCreateParams
from api.dialects.chat.wire import ChatCompletionParams
from api.dialects.ollama.wire import OllamaOptions
from api.dialects.sglang.wire import SamplingParams
from api.dialects.shared.body import WireModel
from api.dialects.shared.parameters import PARAMETERS, Vendor, sampling_of, sampling_to_wire
from engine import Sampling

TURNS = [{"role": "user", "content": "Hi"}]
MODELS: dict[Vendor, tuple[type[WireModel], dict[str, object]]] = {
    "OpenAI": (ChatCompletionParams, {"model": "m", "messages": TURNS}),
    "Anthropic": (MessageCreateParams, {"model": "m", "messages": TURNS, "max_tokens": 5}),
    "SGLang": (SamplingParams, {}),
    "Ollama": (OllamaOptions, {}),
}
EACH = Sampling(
    temperature=0.5,
    top_p=0.9,
    top_k=7,
    min_p=0.1,
    repetition_penalty=1.5,
    presence_penalty=-0.5,
    frequency_penalty=0.25,
    logit_bias=((5, 1.0), (7, -100.0)),
    xtc_probability=0.5,
    xtc_threshold=0.2,
    seed=2**64 - 3,
)


def test_only_the_parameters_of_the_engine_have_rows_and_all_have_one() -> None:
    assert set(PARAMETERS) == {field.name for field in dataclasses.fields(Sampling)}


def test_every_vendor_has_a_request_type() -> None:
    assert set(MODELS) == set(get_args(Vendor))


@pytest.mark.parametrize("vendor", MODELS)
def test_a_written_parameter_is_read_back(vendor: Vendor) -> None:
    model, rest = MODELS[vendor]
    fields = sampling_to_wire(EACH, vendor)
    read = sampling_of(model.model_validate({**rest, **fields}), vendor)

    known = [
        name
        for name, by_vendor in PARAMETERS.items()
        if vendor in by_vendor and not by_vendor[vendor].is_read_only
    ]
    unknown = Sampling()
    assert len(fields) == len(known)
    for field in dataclasses.fields(Sampling):
        expected = EACH if field.name in known else unknown
        assert getattr(read, field.name) == getattr(expected, field.name), field.name


@pytest.mark.parametrize("vendor", MODELS)
def test_a_missing_parameter_means_the_models_own_default(vendor: Vendor) -> None:
    model, rest = MODELS[vendor]

    assert sampling_of(model.model_validate(rest), vendor) == Sampling()
