"""A parameter stands in one table alone; two tables that contradict each other are an error."""

import pytest

from api.dialects.shared.body import WireModel
from api.dialects.shared.foreign_parameters import DEFAULTS, NEUTRAL, REFUSED
from api.dialects.shared.parameters import Spelled, check_spellings, with_fields, with_sampling


def test_a_foreign_parameter_has_one_fate() -> None:
    assert not REFUSED.keys() & NEUTRAL
    assert not DEFAULTS.keys() & (REFUSED.keys() | NEUTRAL)


def test_a_field_cannot_be_added_to_a_request_twice() -> None:
    class Params(WireModel):
        model: str = ""

    with pytest.raises(ValueError, match="top_k"):
        with_sampling("OpenAI")(with_fields({"top_k": int})(Params))
    with pytest.raises(ValueError, match="model"):
        with_fields({"model": str})(Params)


def test_two_parameters_of_a_vendor_cannot_share_a_name() -> None:
    one = Spelled(float, ("a", "b"))
    with pytest.raises(ValueError, match=r"Ollama.* b\b"):
        check_spellings({"first": {"Ollama": one}, "b": {"Ollama": Spelled(float)}}, {})
    with pytest.raises(ValueError, match=r"SGLang.* a\b"):
        check_spellings({"first": {"SGLang": one}}, {"second": {"SGLang": "a"}})
    check_spellings({"first": {"SGLang": one}}, {"second": {"Ollama": "a"}})
