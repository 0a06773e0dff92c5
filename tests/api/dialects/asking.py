"""Each route whose answers the model writes: its smallest request, and what becomes of it."""

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pytest

from api.dialects.shared.answers import AnswerEncoder
from api.dialects.shared.dialect import AnswerRoute, Collected, Head
from api.dialects.shared.encoding import json_text
from api.dialects.shared.parameters import ReadContext
from api.dialects.shared.parsing import WireModel, parse_body
from api.server.routes import DIALECTS
from api.service.errors import ApiError
from engine.errors import InvalidRequest
from engine.values.events import Event
from engine.values.request import GenerationRequest, Message

HI = [{"role": "user", "content": "Hi"}]
# Under the names of their golden conversations.
SMALLEST: dict[str, tuple[str, dict[str, Any]]] = {
    "messages": ("/v1/messages", {"model": "m", "max_tokens": 64, "messages": HI}),
    "chat": ("/v1/chat/completions", {"model": "m", "messages": HI}),
    "completions": ("/v1/completions", {"model": "m", "prompt": "Once"}),
    "responses": ("/v1/responses", {"model": "m", "input": "Hi"}),
    "generate": ("/generate", {"text": "Hi", "rid": "answer-1"}),
    "ollama_chat": ("/api/chat", {"model": "demo-model:latest", "messages": HI}),
    "ollama_generate": ("/api/generate", {"model": "demo-model:latest", "prompt": "Hi"}),
}
ROUTES: dict[str, AnswerRoute[Any]] = {
    name: route
    for name, (path, _) in SMALLEST.items()
    for dialect in DIALECTS
    for route in dialect.answers
    if route.path == path
}
OPENAI = pytest.mark.parametrize("api", ["chat", "completions", "responses"])


class SentEvent(NamedTuple):
    name: str | None
    data: str


def params(api: str, **fields: Any) -> Any:
    body = json_text(SMALLEST[api][1] | fields).encode()
    request: type[WireModel] = ROUTES[api].request
    return parse_body(body, request)[0]


def requests(api: str, *, strict: bool = False, **fields: Any) -> Sequence[GenerationRequest]:
    return ROUTES[api].read(params(api, **fields), ReadContext(strict))


def request(api: str, **fields: Any) -> GenerationRequest:
    return requests(api, **fields)[0]


def turns(api: str, *items: dict[str, Any], **fields: Any) -> tuple[Message, ...]:
    """Return the turns that the model reads of a conversation."""
    name = "input" if api == "responses" else "messages"
    return request(api, **{name: list(items)}, **fields).messages


def refusal(api: str, **fields: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        requests(api, **fields)
    return caught.value


def refused_field(api: str, **fields: Any) -> str | tuple[str | int, ...]:
    with pytest.raises((ApiError, InvalidRequest)) as caught:
        requests(api, **fields)
    return caught.value.field


def head_of(api: str) -> Head:
    created_s = 1_795_219_200 if api.startswith("ollama") else 1_795_000_000
    answer_id = f"{ROUTES[api].id_prefix}1"
    return Head(
        "1",
        created_s,
        "demo-model",
        "req_1",
        store=lambda *_: None,
        answer_id=answer_id,
        clock=lambda: created_s,
    )


def encoder(api: str, **fields: Any) -> AnswerEncoder:
    return ROUTES[api].encoder(params(api, **fields), head_of(api))


def events(api: str, batches: Iterable[Sequence[Event]], **fields: Any) -> list[SentEvent]:
    writer = encoder(api, **fields)
    sent = itertools.chain.from_iterable(writer.encode(batch) for batch in batches)
    return [event_of(frame) for frame in sent]


def event_of(frame: str) -> SentEvent:
    # Some clients split lines at other separators than line breaks.
    assert frame.isascii()
    name, _, data = frame.rpartition("data: ")
    return SentEvent(name.partition(": ")[2].strip() or None, data.strip())


def data_of(sent: Iterable[SentEvent]) -> list[dict[str, Any]]:
    return [json.loads(one.data) for one in sent if one.data != "[DONE]"]


def whole(api: str, *answers: Collected, **fields: Any) -> Any:
    return ROUTES[api].write_whole(answers, params(api, **fields), head_of(api))
