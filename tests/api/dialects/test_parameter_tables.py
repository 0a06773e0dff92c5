"""A parameter stands in one table alone; two tables that contradict each other are an error."""

from typing import get_args

import pytest

from api.dialects.shared.body import WireModel
from api.dialects.shared.parameters import (
    RefusedParameter,
    Spelled,
    Vendor,
    check_spellings,
    refusals,
    spellings,
    with_fields,
    with_refused,
    with_sampling,
)


@pytest.mark.parametrize("vendor", get_args(Vendor))
def test_what_a_vendors_requests_honour_cannot_be_refused_too(vendor: Vendor) -> None:
    honoured = spellings(vendor)
    assert honoured
    for name in honoured:
        with pytest.raises(ValueError, match=rf"{vendor}.* {name}\b"):
            refusals(vendor, {name: RefusedParameter("x"), "of_nobody": RefusedParameter("y")})
    assert refusals(vendor, {"of_nobody": RefusedParameter("y")})


def test_a_field_cannot_be_added_to_a_request_twice() -> None:
    class Params(WireModel):
        model: str = ""

    refused = with_refused({"top_k": RefusedParameter("x")})(Params)
    with pytest.raises(ValueError, match="top_k"):
        with_sampling("OpenAI")(refused)
    with pytest.raises(ValueError, match="model"):
        with_fields({"model": str})(Params)


def test_two_parameters_of_a_vendor_cannot_share_a_name() -> None:
    one = Spelled(float, ("a", "b"))
    with pytest.raises(ValueError, match=r"Ollama.* b\b"):
        check_spellings({"first": {"Ollama": one}, "b": {"Ollama": Spelled(float)}}, {})
    with pytest.raises(ValueError, match=r"SGLang.* a\b"):
        check_spellings({"first": {"SGLang": one}}, {"second": {"SGLang": "a"}})
    check_spellings({"first": {"SGLang": one}}, {"second": {"Ollama": "a"}})
