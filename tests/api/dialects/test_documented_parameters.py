"""No documented parameter is silently without effect, on any route."""

from typing import Any

import pytest

from api.dialects.lmstudio import LoadParams
from api.dialects.ollama.wire import EmbedParams, OldEmbedParams
from api.dialects.openai.chat_wire import TokenizeParams
from api.dialects.openai.wire import EmbeddingParams
from api.dialects.rerank import RerankParams, ScoreParams
from api.dialects.shared.encoding import json_text
from api.dialects.shared.parameters import ReadContext
from api.dialects.shared.parsing import WireModel, parse_body
from api.service.errors import ApiError, path_text
from engine.errors import InvalidRequest
from tests.api.dialects.asking import ROUTES, SMALLEST
from tests.support.documented_parameters import (
    Beside,
    Documented,
    Treatment,
    messages,
    ollama,
    openai,
    ranking,
    responses,
    sglang,
)
from tests.support.documented_parameters.open_servers import FOREIGN

OWN: dict[str, Documented] = {
    "messages": messages.DOCUMENTED,
    "responses": responses.DOCUMENTED,
    "chat": openai.CHAT,
    "completions": openai.COMPLETIONS,
    "embeddings": openai.EMBEDDINGS,
    "generate": sglang.GENERATE,
    "ollama_chat": ollama.CHAT,
    "ollama_generate": ollama.GENERATE,
    "embed": ollama.EMBED,
    "rerank": ranking.RERANK,
    "score": ranking.SCORE,
    "load": ranking.LOAD,
}
# Routes whose requests are not read as generations: a request, and the type of its body.
OTHER_ROUTES: dict[str, tuple[dict[str, Any], type[WireModel]]] = {
    "embeddings": ({"input": "Hi"}, EmbeddingParams),
    "embed": ({"input": "Hi"}, EmbedParams),
    "old_embed": ({"prompt": "Hi"}, OldEmbedParams),
    "tokenize": ({"prompt": "Hi"}, TokenizeParams),
    "rerank": ({"query": "a", "documents": ["b"]}, RerankParams),
    "score": ({"text_1": "a", "text_2": "b"}, ScoreParams),
    "load": ({"model": "x"}, LoadParams),
}
# Honoured in how the answer is made of what the engine generates: read by the dialect's writer,
# or before by the server, which chooses the model.
IN_THE_ANSWER = {
    "adapters",
    "echo",
    "include_reasoning",
    "keep_alive",
    "lora_path",
    "model",
    "parallel_tool_calls",
    "return_text_in_logprobs",
    "rid",
    "stream",
    "store",
    "stream_options.include_usage",
    "thinking.display",
}


def merged(body: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    name, dot, rest = path.partition(".")
    if not dot:
        return body | {name: value}
    return body | {name: merged(body.get(name) or {}, rest, value)}


def read(api: str, body: dict[str, Any]) -> tuple[Any, Any, tuple[str, ...]]:
    raw = json_text(body).encode()
    if api in OTHER_ROUTES:
        params, named = parse_body(raw, OTHER_ROUTES[api][1])
        return params, params, named
    route = ROUTES[api]
    params, named = parse_body(raw, route.request)
    wanted = route.read(params, ReadContext())
    return params, wanted, (*named, *(name for one in wanted for name in one.not_applied))


def treatment(api: str, name: str, example: Any) -> Treatment | str:
    """Return what becomes of a parameter, or ``silent``."""
    smallest = OTHER_ROUTES[api][0] if api in OTHER_ROUTES else SMALLEST[api][1]
    value = example
    if isinstance(example, Beside):
        value = example.value
        smallest = smallest | example.fields
    body = merged(smallest, name, value)
    try:
        params, wanted, named = read(api, body)
    except (ApiError, InvalidRequest) as error:
        field = error.field if isinstance(error.field, str) else path_text(error.field)
        is_named = name.split(".")[0] in field or name in str(error)
        return "refused" if is_named else f"refused for {field}"
    if any(one == name or name.startswith(f"{one}.") for one in named):
        return "named"
    try:
        before, usual, _ = read(api, smallest)
    except (ApiError, InvalidRequest):
        return "honoured"
    if wanted != usual or (name in IN_THE_ANSWER and params != before):
        return "honoured"
    return "silent"


@pytest.mark.parametrize(
    ("api", "name"), [(api, name) for api, table in OWN.items() for name in table]
)
def test_a_documented_parameter_has_its_treatment(api: str, name: str) -> None:
    value, expected = OWN[api][name]
    assert treatment(api, name, value) == ("silent" if expected == "neutral" else expected)


@pytest.mark.parametrize("api", [*SMALLEST, *OTHER_ROUTES])
@pytest.mark.parametrize("vendor", FOREIGN)
def test_no_parameter_of_another_server_is_silently_without_effect(vendor: str, api: str) -> None:
    found = {
        name: treatment(api, name, value)
        for name, (value, expected) in FOREIGN[vendor].items()
        if expected != "neutral"
    }
    assert set(found.values()) <= {"honoured", "named", "refused"}, found
