"""The same question in the words of each route that answers."""

from collections.abc import Sequence
from typing import Any

from tests.support.scripted import END, GO, START

INNER = {"/generate": "sampling_params", "/api/chat": "options", "/api/generate": "options"}
_LIMITS = {
    "/v1/messages": "max_tokens",
    "/v1/chat/completions": "max_tokens",
    "/v1/completions": "max_tokens",
    "/v1/responses": "max_output_tokens",
    "/generate": "max_new_tokens",
    "/api/chat": "num_predict",
    "/api/generate": "num_predict",
}
PATHS = tuple(_LIMITS)
RAW_PATHS = ("/v1/completions", "/generate")


def question(
    path: str,
    text: str,
    tokens: int | None,
    *,
    raw: str = "",
    stop: Sequence[str] = (),
    **sampling: Any,
) -> dict[str, Any]:
    """Return a request; raw prompts are those of a scripted model, unless ``raw`` is given."""
    settings = sampling if tokens is None else {_LIMITS[path]: tokens, **sampling}
    if stop:
        settings["stop_sequences" if path == "/v1/messages" else "stop"] = stop
    body = {INNER[path]: settings} if path in INNER else settings
    if path != "/generate":
        body["model"] = "m"
    if path in RAW_PATHS:
        text = raw or f"{START}user:{text}{END}{GO}"
    names = {"/v1/responses": "input", "/generate": "text"}
    is_conversation = path in ("/v1/messages", "/v1/chat/completions", "/api/chat")
    given = {"messages": [{"role": "user", "content": text}]}
    return body | (given if is_conversation else {names.get(path, "prompt"): text})
