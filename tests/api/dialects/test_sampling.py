"""Sampling parameters: all of the engine's are read, under the vendors' names."""

import dataclasses

import pytest

from api.dialects.ollama.wire import OllamaOptions
from api.dialects.shared.parameters import sampling_of
from api.dialects.shared.unknown_parameters import DEFAULTS, NEUTRAL, REFUSED
from engine import Sampling
from tests.api.dialects.asking import request

VALUES = {
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 7,
    "min_p": 0.1,
    "repetition_penalty": 1.5,
    "presence_penalty": -0.5,
    "frequency_penalty": 0.25,
    "logit_bias": {"5": 1.0, "7": -100.0},
    "xtc_probability": 0.5,
    "xtc_threshold": 0.2,
    "seed": 2**62,
}
EXPECTED = Sampling(**{**VALUES, "logit_bias": ((5, 1.0), (7, -100.0))})  # type: ignore[arg-type]
MISSING = {
    "messages": {"logit_bias", "xtc_probability", "xtc_threshold"},
    "ollama_chat": {"logit_bias"},
}


@pytest.mark.parametrize("api", ["messages", "chat", "completions", "generate", "ollama_chat"])
def test_sampling_parameters_are_read(api: str) -> None:
    given = {name: value for name, value in VALUES.items() if name not in MISSING.get(api, set())}
    body = {"generate": {"sampling_params": given}, "ollama_chat": {"options": given}}
    found = request(api, **body.get(api, given)).sampling
    for field in dataclasses.fields(Sampling):
        expected = EXPECTED if field.name in given else Sampling()
        assert getattr(found, field.name) == getattr(expected, field.name), field.name


def test_every_sampling_parameter_of_the_engine_is_tested() -> None:
    assert set(VALUES) == {field.name for field in dataclasses.fields(Sampling)}


def test_ollama_seed_minus_one_is_random() -> None:
    assert request("ollama_chat", options={"seed": -1}).sampling.seed is None
    assert sampling_of(OllamaOptions(temperature=5000.0)).temperature == 1000


def test_unknown_parameter_is_in_one_table_only() -> None:
    assert not REFUSED.keys() & NEUTRAL
    assert not DEFAULTS.keys() & NEUTRAL
