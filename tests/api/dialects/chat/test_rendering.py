"""The prompt of a Chat request by itself, as vLLM and llama.cpp give it."""

from typing import Any

import pytest

from tests.api.conftest import Site

RENDER = "/v1/chat/completions/render"
APPLY = "/apply-template"
TURNS = [{"role": "user", "content": "Count from 1 to 3"}]
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "look", "arguments": '{"place": "here"}'},
}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
AGENT = [
    {"role": "system", "content": "Be\n  brief."},
    *TURNS,
    {"role": "assistant", "content": "One", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": '{"seen": "a \\"cat\\""}'},
]
# Writes neither system messages, earlier reasoning, calls nor tools.
FORGETFUL = (
    "{% for m in messages if m.role != 'system' %}<|start|>{{ m.role }}:"
    "{{ m.content.split('</think>')[-1] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|go|>{% endif %}"
)


def test_rendered_chat_is_vllms_object_with_the_tokens_that_chat_reads(site: Site) -> None:
    body = {
        "model": "m", "messages": TURNS, "stop": ["END"], "temperature": 0.5, "max_tokens": 9,
        "seed": 3, "stream": True,
    }  # fmt: skip
    found = site.send("POST", RENDER, body).json
    tokens = site.send("POST", "/tokenize", {"model": "m", "messages": TURNS}).json["tokens"]
    text = site.send("POST", "/detokenize", {"tokens": tokens}).json["prompt"]
    assert found == {
        "request_id": found["request_id"],
        "token_ids": tokens,
        "features": None,
        "sampling_params": {"stop": ["END"], "temperature": 0.5, "seed": 3, "max_tokens": 9},
        "model": found["model"],
        "stream": True,
        "cache_salt": None,
        "priority": 0,
        "fullstop": {
            "prompt": text,
            "not_in_prompt": [],
            "parts": found["fullstop"]["parts"],
            "no_effect": [],
        },
    }
    answered = {"model": "m", "prompt": found["token_ids"], "max_tokens": 1}
    usage = site.send("POST", "/v1/completions", answered).json["usage"]
    assert usage["prompt_tokens"] == len(tokens)


def test_applied_template_is_llama_cpps_object(site: Site) -> None:
    reply = site.send("POST", APPLY, {"messages": TURNS})
    turns = "<|im_start|>user\nCount from 1 to 3<|im_end|>\n<|im_start|>assistant\n"
    assert turns in reply.json["prompt"]
    assert reply.json["fullstop"]["not_in_prompt"] == reply.json["fullstop"]["no_effect"] == []
    parts = reply.json["fullstop"]["parts"]
    assert [(each["part"], each["field"]) for each in parts] == [
        ("message", "messages.0.content"),
        ("answer_opening", "answer_opening"),
    ]
    assert reply.json["prompt"][parts[0]["start"] : parts[0]["end"]] == TURNS[0]["content"]
    assert "x-fullstop-not-applied" not in reply.headers
    begun = [*TURNS, {"role": "assistant", "content": "1, 2"}]
    body = {"messages": begun, "add_generation_prompt": False, "continue_final_message": True}
    assert site.send("POST", APPLY, body).json["prompt"].endswith("1, 2")


def test_nothing_is_missing_of_an_agents_turns(site: Site) -> None:
    for tools in ([TOOL], []):
        for choice in ("auto", "required") if tools else ("auto",):
            body = {"messages": AGENT, "tools": tools, "tool_choice": choice}
            body = body if tools else {"messages": AGENT}
            found = site.send("POST", APPLY, body).json
            assert found["fullstop"]["not_in_prompt"] == [], found["prompt"]


def test_parts_that_the_template_drops_are_listed_and_named_in_the_header(staged: Any) -> None:
    site = staged(template=FORGETFUL).site
    answer = {"role": "assistant", "content": "One", "reasoning_content": "Hm"}
    body = {"messages": [AGENT[0], *TURNS, answer, *TURNS], "tools": [TOOL]}
    body["chat_template_kwargs"] = {"no_such_option": True}
    for path in (RENDER, APPLY):
        reply = site.send("POST", path, body)
        missing = ["messages.2.reasoning_content", "tools.look"]
        found = reply.json["fullstop"]["not_in_prompt"]
        assert [part for part in found if "messages.0" not in part] == missing
        header = reply.headers["x-fullstop-not-applied"].split(", ")
        unused = ["chat_template_kwargs.no_such_option"]
        assert reply.json["fullstop"]["no_effect"] == unused
        assert header == [*unused, *found]


@pytest.mark.parametrize("path", [RENDER, APPLY])
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": TURNS, "temperature": 9}, "temperature"),
        ({"messages": TURNS, "stop": [""]}, "stop[0]"),
        ({"messages": TURNS, "stop_token_ids": [1 << 30]}, "stop_token_ids[0]"),
        ({"messages": TURNS, "chat_template": "x"}, "chat_template"),
        ({"messages": [{"role": "user", "content": "x " * 40_000}]}, "messages"),
        (
            {
                "messages": TURNS,
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": {"type": "no such type"}},
                },
            },
            "response_format.json_schema.schema",
        ),
    ],
)
def test_request_is_refused_as_chat_refuses_it(
    site: Site, path: str, body: dict[str, Any], field: str
) -> None:
    refused = site.send("POST", path, {"model": "m", **body})
    chat = site.send("POST", "/v1/chat/completions", {"model": "m", "max_tokens": 1, **body})
    assert refused.status == chat.status == 400
    assert refused.json["error"] == chat.json["error"]
    assert refused.json["error"]["param"] == field
