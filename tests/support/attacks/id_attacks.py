"""Sends token ids around every boundary to a model with fewer logits than its tokenizer has ids.

Run as a program, because an id that reaches MLX unchecked ends the process:
``python -m tests.support.attacks.id_attacks FOLDER`` prints what was answered, one JSON list
``[path, field, value, status, message]`` a line.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.api.conftest import Site, acting
from tests.support.scripted import END, GO, START, Stage

SIZE, FAR = 300, 400
"""The width of the logits, and the tokenizer's last id."""
BEYOND = {"<|next|>": SIZE, "<|far|>": FAR}
IDS = (-1, 0, SIZE - 1, SIZE, SIZE + 1, FAR, FAR + 1, 2**31, 2**63)

_USER = [{"role": "user", "content": "go"}]
_RAW = f"{START}user:go{END}{GO}"
_BASE: dict[str, dict[str, Any]] = {
    "/v1/messages": {"max_tokens": 4, "messages": _USER},
    "/v1/chat/completions": {"max_tokens": 4, "messages": _USER, "logprobs": True},
    "/v1/completions": {"max_tokens": 4, "prompt": _RAW, "logprobs": 2},
    "/v1/responses": {"max_output_tokens": 4, "input": "go"},
    "/generate": {"text": _RAW, "sampling_params": {"max_new_tokens": 4}, "return_logprob": True},
    "/api/chat": {"messages": _USER, "stream": False, "options": {"num_predict": 4}},
    "/api/generate": {"prompt": "go", "stream": False, "options": {"num_predict": 4}},
    "/v1/embeddings": {"input": "go"},
    "/api/embed": {"input": "go"},
    "/tokenize": {"prompt": "go"},
    "/v1/chat/completions/render": {"messages": _USER},
    "/detokenize": {"tokens": [1]},
}
_FIELDS = (
    *(
        (path, "stop_token_ids", lambda i: [i])
        for path in (
            "/v1/messages",
            "/v1/chat/completions",
            "/v1/chat/completions/render",
            "/v1/completions",
            "/v1/responses",
        )
    ),
    ("/generate", "sampling_params.stop_token_ids", lambda i: [i]),
    *(
        (path, "logit_bias", lambda i: {str(i): -3.0})
        for path in ("/v1/chat/completions", "/v1/completions")
    ),
    ("/generate", "sampling_params.logit_bias", lambda i: {str(i): -3.0}),
    ("/v1/completions", "prompt", lambda i: [1, i]),
    ("/v1/completions", "prompt", lambda i: [[1, 2], [i]]),
    ("/generate", "input_ids", lambda i: [1, i]),
    ("/v1/embeddings", "input", lambda i: [1, i]),
    ("/api/generate", "context", lambda i: [1, i]),
    ("/detokenize", "tokens", lambda i: [1, i]),
)
_TEXTS = {
    "/v1/messages": "messages",
    "/v1/chat/completions": "messages",
    "/v1/completions": "prompt",
    "/v1/responses": "input",
    "/generate": "text",
    "/api/chat": "messages",
    "/api/generate": "prompt",
    "/v1/embeddings": "input",
    "/api/embed": "input",
    "/tokenize": "prompt",
}
_OPTIONS: dict[str, Any] = {
    "repeat_penalty": 1.5,
    "repetition_penalty": 1.5,
    "presence_penalty": 1.5,
    "frequency_penalty": 1.5,
    "temperature": 0.7,
    "top_k": 3,
    "top_p": 0.5,
    "min_p": 0.2,
    "seed": 7,
    "logprobs": 2,
    "prompt_logprobs": 2,
    "logprob_start_len": 0,
    "response_format": {"type": "json_object"},
    "prediction": {"type": "content", "content": "<|far|>"},
}
_INNER = {"/generate": "sampling_params", "/api/chat": "options", "/api/generate": "options"}


def attacks() -> Iterator[tuple[str, str, Any, dict[str, Any]]]:
    """Yield path, field, value and body of each request."""
    for path, field, made in _FIELDS:
        for token_id in IDS:
            yield path, field, token_id, _filled(path, field, made(token_id))
    for path, field in _TEXTS.items():
        text = "".join(BEYOND)
        value = [{"role": "user", "content": text}] if field == "messages" else text
        body = _filled(path, field, value)
        yield path, "text", text, body
        if "embed" in path or path == "/tokenize":
            continue
        for option, setting in _OPTIONS.items():
            inner = body.get(_INNER.get(path, ""), {})
            if inner:
                changed = {**body, _INNER[path]: {**inner, option: setting}}
            else:
                changed = {**body, option: setting}
            yield path, option, text, changed


def _filled(path: str, field: str, value: Any) -> dict[str, Any]:
    body = {"model": "m", **_BASE[path]}
    outer, _, inner = field.rpartition(".")
    if outer:
        return {**body, outer: {**body[outer], inner: value}}
    if field == "input_ids":
        del body["text"]
    return {**body, field: value}


def stage_with_fewer_logits(folder: Path) -> Stage:
    """Return a stage whose tokenizer has ids, an EOS among them, beyond the logits."""
    stage = Stage(folder, {"go": ["a", "b"]}, far=BEYOND, logits=SIZE)
    stage.wrapper.add_eos_token(str(FAR))
    return stage


def _play(site: Site) -> None:
    for path, field, value, body in attacks():
        reply = site.send("POST", path, body)
        print(json.dumps([path, field, value, reply.status, reply.body.decode()]), flush=True)


if __name__ == "__main__":
    with acting(stage_with_fewer_logits(Path(sys.argv[1]))) as (site, _):
        _play(site)
