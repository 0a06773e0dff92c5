"""Predicted outputs in requests of Chat Completions."""

from typing import Any

import pytest

from api.dialects.chat.read import requests_from_wire
from api.transport.errors import ApiError
from tests.api.dialects.chat.asking_chat import params, request


@pytest.mark.parametrize(
    "content", ["ab", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]]
)
def test_a_prediction_is_one_text_in_every_form(content: object) -> None:
    assert request(prediction={"type": "content", "content": content}).prediction == "ab"


@pytest.mark.parametrize("prediction", [None, {"type": "content", "content": ""}])
def test_an_empty_prediction_predicts_nothing(prediction: object) -> None:
    assert request(prediction=prediction).prediction is None


@pytest.mark.parametrize(
    "prediction",
    ["text", {"type": "content"}, {"type": "other", "content": "a"}, {"content": "a"},
     {"type": "content", "content": 1}, {"type": "content", "content": [{"type": "image"}]}],
)  # fmt: skip
def test_a_prediction_in_another_form_is_refused(prediction: object) -> None:
    with pytest.raises(ApiError) as raised:
        params(prediction=prediction)
    assert raised.value.field[0] == "prediction"


@pytest.mark.parametrize(
    "other",
    [{"n": 2}, {"logprobs": True}, {"presence_penalty": 0.5}, {"frequency_penalty": 0.5},
     {"max_completion_tokens": 9},
     {"tools": [{"type": "function", "function": {"name": "f"}}]}],
)  # fmt: skip
def test_only_a_strict_server_refuses_what_the_hosted_one_refuses_beside_a_prediction(
    other: dict[str, Any],
) -> None:
    asked = params(prediction={"type": "content", "content": "a"}, **other)
    assert requests_from_wire(asked)[0].prediction == "a"
    with pytest.raises(ApiError) as raised:
        requests_from_wire(asked, strict=True)
    assert raised.value.field == (next(iter(other)),)
