"""Valid bodies for every route that takes one, with many fields that can be damaged."""

from typing import Any

from tests.support.scripted import GO

TURNS = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hel"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
BODIES: dict[str, dict[str, Any]] = {
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
        "tools": [{"name": "f", "input_schema": SCHEMA}],
        "tool_choice": {"type": "auto"},
        "thinking": {"type": "disabled"},
        "fullstop": {"stop_scope": "text", "report": True},
    },
    "/v1/messages/count_tokens": {"model": "m", "messages": TURNS, "system": "Be brief."},
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
        "response_format": {"type": "json_object", "schema": SCHEMA},
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
        "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
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
        "tools": [{"type": "function", "name": "f", "parameters": SCHEMA}],
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
        "tools": [{"type": "function", "name": "f", "parameters": SCHEMA}],
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
            *TURNS,
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
        "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
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
        "messages": TURNS,
        "add_generation_prompt": True,
        "return_token_strs": True,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
        "chat_template_kwargs": {"enable_thinking": False},
    },
    "/detokenize": {"model": "m", "tokens": [5, 6]},
    "/v1/embeddings": {"model": "m", "input": ["Hi", "Ho"], "dimensions": 4},
    "/api/embed": {"model": "m", "input": ["Hi", "Ho"], "truncate": True, "keep_alive": "5m"},
    "/api/embeddings": {"model": "m", "prompt": "Hi"},
}

_SCHEMA_FORMAT = {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}
_CHAT = {"model": "m", "messages": TURNS[:1], "max_completion_tokens": 3}
_COMPLETION = {"model": "m", "prompt": "Hi", "max_tokens": 3}
_GENERATE = {"text": "Hi"}
_LIMIT = {"max_new_tokens": 3}
_LARK = 'start: "a" b\nb: /[0-9]+/ | "(" b ")"'
# Fields that exclude those of the first body of a route.
MORE_BODIES: list[tuple[str, dict[str, Any]]] = [
    (
        "/v1/messages",
        {
            "model": "m",
            "max_tokens": 3,
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "document",
                            "source": {"type": "text", "media_type": "text/plain", "data": "Hi"},
                            "title": "T",
                            "context": "C",
                            "citations": {"enabled": False},
                        },
                        {
                            "type": "document",
                            "source": {
                                "type": "content",
                                "content": [{"type": "text", "text": "Hi"}],
                            },
                        },
                        {
                            "type": "search_result",
                            "source": "https://example.org",
                            "title": "T",
                            "content": [{"type": "text", "text": "Hi"}],
                        },
                        {"type": "text", "text": "Hi"},
                    ],
                }
            ],
            "tools": [
                {"type": "bash_20250124", "name": "bash"},
                {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
                {"type": "memory_20250818", "name": "memory"},
            ],
        },
    ),
    ("/v1/chat/completions", _CHAT | {"prompt_logprobs": 2}),
    ("/v1/chat/completions", _CHAT | {"guided_regex": "(a|aa)*b"}),
    ("/v1/chat/completions", _CHAT | {"guided_choice": ["yes", "no"]}),
    ("/v1/chat/completions", _CHAT | {"guided_grammar": _LARK}),
    ("/v1/chat/completions", _CHAT | {"grammar": 'root ::= "a" [0-9]+'}),
    ("/v1/chat/completions", _CHAT | {"structured_outputs": {"json": SCHEMA}}),
    ("/v1/chat/completions", _CHAT | {"response_format": _SCHEMA_FORMAT, "stream": True}),
    ("/v1/completions", _COMPLETION | {"prompt_logprobs": 2, "n": 2}),
    (
        "/v1/completions",
        _COMPLETION | {"max_tokens": 0, "echo": True, "logprobs": 3, "prompt": [[5, 6], [7]]},
    ),
    ("/v1/completions", _COMPLETION | {"structured_outputs": {"regex": "a+"}}),
    (
        "/v1/responses",
        {
            "model": "m",
            "input": "Hi",
            "store": False,
            "max_output_tokens": 16,
            "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
            "top_logprobs": 3,
            "text": {"format": {"type": "json_schema", "name": "s", "schema": SCHEMA}},
        },
    ),
    ("/generate", _GENERATE | {"sampling_params": {**_LIMIT, "regex": "(a|b)+", "n": 2}}),
    ("/generate", _GENERATE | {"sampling_params": {**_LIMIT, "ebnf": 'root ::= "a" | "b"'}}),
    (
        "/generate",
        {"input_ids": [[5, 6], [7]], "sampling_params": _LIMIT, "return_logprob": True},
    ),
    (
        "/api/chat",
        {
            "model": "m",
            "messages": TURNS[:1],
            "format": SCHEMA,
            "logprobs": True,
            "top_logprobs": 3,
            "keep_alive": "5m",
            "options": {"num_predict": 3},
        },
    ),
    ("/tokenize", {"model": "m", "prompt": "Hi", "add_special_tokens": False}),
]
