"""A request that cannot fit into memory is refused with the vendor's name of the field."""

from collections.abc import Callable
from typing import Any

import pytest

from engine.values.limits import Limits

MESSAGE = {"role": "user", "content": "Hi"}
CHAT = {"model": "m", "messages": [MESSAGE]}
# The scripted model's cache takes 8 bytes a token.
CONTEXT_BYTES = 1024 * 8


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/chat/completions", CHAT | {"n": 4, "max_tokens": 500}, "n"),
        ("/v1/chat/completions", CHAT | {"max_tokens": 5000}, "max_tokens"),
        (
            "/v1/completions",
            {"model": "m", "prompt": ["Hi", "Ho", "Ha"], "max_tokens": 500},
            "prompt",
        ),
        ("/v1/responses", {"model": "m", "input": "Hi", "max_output_tokens": 5000},
         "max_output_tokens"),
        (
            "/generate",
            {"text": "Hi", "sampling_params": {"n": 4, "max_new_tokens": 500}},
            "sampling_params.n",
        ),
        ("/api/chat", CHAT | {"options": {"num_predict": 5000}}, "options.num_predict"),
        ("/v1/messages", CHAT | {"messages": [MESSAGE | {"content": "x" * 2000}],
                                 "max_tokens": 5}, "messages"),
    ],
)  # fmt: skip
def test_memory_refusal_names_field_and_figures(
    staged: Callable[..., Any],
    path: str,
    body: dict[str, Any],
    field: str,
) -> None:
    stage = staged(Limits(context_bytes=CONTEXT_BYTES))
    site = stage.site

    reply = site.send("POST", path, body)
    assert reply.status == 400
    error = reply.json["error"]
    if isinstance(error, dict):
        assert f"{field}: " in error["message"] or error.get("param") == field
    text = error if isinstance(error, str) else error["message"]
    assert f"{field}: " in text
    assert "8.2 kB available" in text
    assert stage.stage.model.calls == []
    # The next one is answered.
    assert site.send("POST", "/v1/chat/completions", CHAT | {"max_tokens": 5}).status == 200
