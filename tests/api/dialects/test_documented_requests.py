"""The OpenAPI document allows the forms of a request that the server accepts, and no others."""

from typing import Any

import pytest

from tests.api.dialects.documented import ASKED, TURNS, answer_schema, check, check_request

# The forms that a field can have; each is documented and accepted.
BLOCKS = [{"type": "text", "text": "Hi"}]
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
FORMS: dict[str, list[dict[str, Any]]] = {
    "/v1/messages": [
        {"max_tokens": 2, "messages": [{"role": "user", "content": BLOCKS}], "system": "Be brief."},
        {"max_tokens": 2, "messages": TURNS, "system": BLOCKS, "stop_sequences": None},
        {"max_tokens": 2, "messages": TURNS, "stop_sequences": [], "tools": []},
    ],
    "/v1/chat/completions": [
        {"messages": TURNS, "max_tokens": 2, "stop": stop} for stop in (None, "x", ["x"], [])
    ]
    + [
        {"messages": [*TURNS, turn, *TURNS], "max_tokens": 2}
        for turn in (
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "assistant", "content": ""},
            {"role": "assistant"},
            {"role": "developer", "content": BLOCKS},
            {"role": "tool", "tool_call_id": "c", "content": BLOCKS},
        )
    ],
    "/v1/completions": [
        {"prompt": prompt, "max_tokens": 2, "best_of": None, "suffix": None, "logprobs": None}
        for prompt in ("Hi", ["Hi", "Ho"], [1, 2], [[1], [2, 3]])
    ],
    "/v1/responses": [
        {"input": sent, "max_output_tokens": 2}
        for sent in (
            "Hi",
            [{"role": "user", "content": "Hi"}],
            [{"type": "message", "role": "developer", "content": "Hi"}],
            [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
            [
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "1"},
            ],
        )
    ],
    "/generate": [
        {**prompt, "sampling_params": {"max_new_tokens": 2}}
        for prompt in (
            {"text": "Hi"},
            {"text": ["Hi", "Ho"]},
            {"input_ids": [1, 2]},
            {"input_ids": [[1], [2, 3]]},
        )
    ],
    "/api/chat": [
        {"messages": TURNS, "options": {"num_predict": 2, "stop": stop}, "format": form}
        for stop, form in (("x", ""), (["x"], None), (None, "json"), ([], {"type": "object"}))
    ],
}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param(path, body, id=f"{path}-{number}")
        for path, bodies in FORMS.items()
        for number, body in enumerate(bodies)
    ],
)
def test_every_form_of_a_field_is_accepted_and_documented(
    site: Any, path: str, body: dict[str, Any]
) -> None:
    sent = {"model": "demo-model", "stream": False, **body}
    check_request(path, sent)
    reply = site.send("POST", path, sent)

    assert reply.status == 200, reply.body
    check(answer_schema(path), reply.json)


@pytest.mark.parametrize("path", [path for path in ASKED if path not in ("/api/show", "/api/pull")])
@pytest.mark.parametrize("named", [{}, {"model": None}], ids=["absent", "null"])
def test_a_request_need_not_name_a_model(site: Any, path: str, named: dict[str, Any]) -> None:
    sent = {**ASKED[path][0], "stream": False, **named}
    check_request(path, sent)
    reply = site.send("POST", path, sent)

    assert reply.status == 200, reply.body
    assert reply.json.get("model", "demo-model") in ("demo-model", "demo-model:latest")
