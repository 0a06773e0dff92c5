"""Requests that are damaged at random are answered or refused, and never fail or end the server."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.conftest import SCRIPTS, Site, acting
from tests.support.attacks.damage import damaged
from tests.support.random_cases import cases
from tests.support.scripted import GO, Stage

_TURNS = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hel"}]
_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
_BODIES: dict[str, dict[str, Any]] = {
    "/v1/messages": {
        "model": "m",
        "max_tokens": 4,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t", "content": "1"}],
            },
        ],
        "system": [{"type": "text", "text": "Be brief."}],
        "stop_sequences": ["END"],
        "stream": True,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 5,
        "tools": [{"name": "f", "input_schema": _SCHEMA}],
        "tool_choice": {"type": "auto"},
        "thinking": {"type": "disabled"},
        "fullstop": {"stop_scope": "text", "report": True},
    },
    "/v1/messages/count_tokens": {"model": "m", "messages": _TURNS, "system": "Be brief."},
    "/v1/chat/completions": {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief.", "name": "ann"},
            {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {
                "role": "assistant",
                "content": "Hel",
                "reasoning": "Why",
                "reasoning_details": [{"type": "reasoning.text", "text": "Why"}],
            },
        ],
        "max_completion_tokens": 4,
        "response_format": {"type": "json_object", "schema": _SCHEMA},
        "xtc_probability": 0.5,
        "xtc_threshold": 0.1,
        "samplers": ["top_k"],
        "mirostat": 0,
        "n": 2,
        "stop": ["END", "\n"],
        "stop_token_ids": [5],
        "stream": False,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "seed": 5,
        "logit_bias": {"5": 1.5},
        "logprobs": True,
        "presence_penalty": 0.5,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": _SCHEMA}}],
        "tool_choice": "auto",
        "reasoning_effort": "none",
        "thinking_token_budget": 3,
        "chat_template_kwargs": {"enable_thinking": False},
    },
    "/v1/completions": {
        "model": "m",
        "prompt": [f"user:Hi{GO}", "x"],
        "max_tokens": 4,
        "n": 1,
        "best_of": 1,
        "echo": True,
        "logprobs": 1,
        "stop": "END",
        "stream": True,
        "suffix": None,
    },
    "/v1/responses/input_tokens": {
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "f", "parameters": _SCHEMA}],
    },
    "/v1/responses/compact": {
        "model": "m",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "compaction", "encrypted_content": "fullstop-summary-1:SGk="},
            {"type": "message", "role": "user", "content": "Go on"},
        ],
        "instructions": "Be brief.",
        "max_output_tokens": 8,
    },
    "/v1/responses": {
        "model": "m",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "1"},
        ],
        "instructions": "Be brief.",
        "max_output_tokens": 16,
        "stream": True,
        "stop": ["END"],
        "tools": [{"type": "function", "name": "f", "parameters": _SCHEMA}],
        "text": {"format": {"type": "text"}},
        "reasoning": {"effort": "low", "summary": "auto"},
        "thinking_budget": 3,
    },
    "/generate": {
        "text": [f"user:Hi{GO}", "x"],
        "sampling_params": {
            "max_new_tokens": 4,
            "stop": ["END"],
            "stop_token_ids": [5],
            "temperature": 0.5,
            "n": 1,
            "min_new_tokens": 1,
            "ignore_eos": False,
            "logit_bias": {"5": 1.5},
        },
        "return_logprob": True,
        "top_logprobs_num": 2,
        "logprob_start_len": 0,
        "stream": True,
        "rid": "r",
    },
    "/api/chat": {
        "model": "m",
        "messages": [
            *_TURNS,
            {
                "role": "assistant",
                "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}],
            },
            {"role": "tool", "tool_name": "f", "content": "1"},
        ],
        "stream": True,
        "think": False,
        "format": "",
        "options": {"stop": ["END"], "num_predict": 4, "temperature": 0.5, "seed": 3},
        "tools": [{"type": "function", "function": {"name": "f", "parameters": _SCHEMA}}],
    },
    "/api/generate": {
        "model": "m",
        "prompt": "Hi",
        "system": "Be brief.",
        "raw": False,
        "stream": False,
        "options": {"num_predict": 4},
    },
    "/api/show": {"model": "scripted"},
    "/api/pull": {"model": "scripted", "stream": True, "insecure": False},
    "/tokenize": {
        "model": "m",
        "messages": _TURNS,
        "add_generation_prompt": True,
        "return_token_strs": True,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": _SCHEMA}}],
        "chat_template_kwargs": {"enable_thinking": False},
    },
    "/v1/chat/completions/render": {"model": "m", "messages": _TURNS, "max_tokens": 4},
    "/apply-template": {"model": "m", "messages": _TURNS},
    "/detokenize": {"model": "m", "tokens": [5, 6]},
    "/v1/embeddings": {"model": "m", "input": ["Hi", "Ho"], "dimensions": 4},
    "/api/embed": {"model": "m", "input": ["Hi", "Ho"], "truncate": True, "keep_alive": "5m"},
    "/api/embeddings": {"model": "m", "prompt": "Hi"},
}


@pytest.fixture(scope="module")
def small_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with acting(Stage(tmp_path_factory.mktemp("scripted"), SCRIPTS, context=500)) as (site, _):
        yield site


@pytest.mark.parametrize("path", _BODIES)
def test_damaged_request_is_answered_or_refused(small_site: Site, path: str) -> None:
    draws, sound = random.Random(path), json.dumps(_BODIES[path])
    assert small_site.send("POST", path, sound.encode()).status == 200
    for _ in range(cases(25)):
        body = damaged(draws, sound)
        assert small_site.send("POST", path, body).status < 500, body[:500]
