"""Sampling parameters: all of the engine's are read, under the vendors' names."""

import dataclasses

import pytest

from api.dialects.shared.unknown_parameters import DEFAULTS, NEUTRAL, REFUSED
from engine.values.request import Sampling
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


def test_ollama_value_beyond_a_range_means_the_nearest_one() -> None:
    beyond = {
        "temperature": 5000.0,
        "top_p": 1.5,
        "top_k": -5,
        "min_p": -0.5,
        "repeat_penalty": 0,
        "presence_penalty": 2.5,
        "frequency_penalty": -3,
        "xtc_probability": 2,
        "xtc_threshold": -1,
    }

    assert request("ollama_chat", options=beyond).sampling == Sampling(
        temperature=1000,
        top_p=1,
        top_k=0,
        min_p=0,
        repetition_penalty=0.01,
        presence_penalty=2,
        frequency_penalty=-2,
        xtc_probability=1,
        xtc_threshold=0,
    )


def test_unknown_parameter_is_in_one_table_only() -> None:
    assert not REFUSED.keys() & NEUTRAL
    assert not DEFAULTS.keys() & NEUTRAL
