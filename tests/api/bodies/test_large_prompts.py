"""Large bodies with a prompt beyond the context, or with too many values, are refused in words."""

import gzip
import json
import threading
from typing import Any

import pytest

from api.dialects.anthropic.wire import MessageCreateParams
from api.dialects.completions import CompletionParams
from api.dialects.shared import body_reader
from api.dialects.shared.body import parsed
from api.dialects.shared.body_reader import read_body
from api.transport.bodies import SentBody
from api.transport.errors import ApiError, ErrorKind
from tests.api.bodies.large import ASK, PADDING, overflow_words


@pytest.mark.parametrize(
    ("path", "field", "packing", "is_list"),
    [
        ("/v1/completions", "prompt", None, True),
        ("/generate", "input_ids", "gzip", False),
    ],
)
def test_token_ids_beyond_the_context_are_refused_alike_in_bodies_of_any_size(
    site: Any, path: str, field: str, packing: str | None, is_list: bool
) -> None:
    def refusal(count: int) -> str:
        ids = [1] * count
        body = {"model": "m", field: [[1], ids] if is_list else ids}
        raw = json.dumps(body).encode()
        packed = gzip.compress(raw, 1) if packing else raw
        headers = {"Content-Encoding": packing} if packing else {}
        return overflow_words(site.send("POST", path, packed, headers), path)

    assert refusal(900_001).replace("900001", "40000") == refusal(40_000)


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/messages", "messages"),
        ("/v1/responses", "input"),
        ("/api/chat", "messages"),
    ],
)
def test_a_prompt_of_sixty_thousand_messages_is_too_long(site: Any, path: str, field: str) -> None:
    many = [{"role": "user", "content": "Hi"}] * 60_001
    reply = site.send("POST", path, {"model": "m", "max_tokens": 3, field: many})

    assert reply.status == 400
    assert "32768" in overflow_words(reply, path) or path == "/api/chat"


def test_commas_and_braces_inside_texts_do_not_count_as_values() -> None:
    text = '{[,"\\' * 300_000
    assert parsed(json.dumps({"model": "m", "prompt": text}).encode(), CompletionParams)[
        0
    ].prompt == [text]


@pytest.mark.parametrize(
    ("field", "items"),
    [
        ("prompt", [1] * 1_000_001),
        ("unknown", [{}] * 400_001),
        ("unknown", {str(number): 1 for number in range(400_001)}),
    ],
    ids=["numbers", "objects", "keys"],
)
def test_more_values_than_any_request_needs_are_refused(field: str, items: Any) -> None:
    with pytest.raises(ApiError) as caught:
        parsed(json.dumps({"model": "m", "prompt": "a", field: items}).encode(), CompletionParams)
    assert caught.value.kind is ErrorKind.TOO_LARGE
    assert "send fewer" in caught.value.message


@pytest.mark.parametrize(
    ("more", "is_apart"),
    [({}, False), ({"x": PADDING}, True), ({"x": [0] * 30_000}, True)],
    ids=["small", "long text", "many values"],
)
async def test_only_large_bodies_are_parsed_on_a_thread(
    monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], is_apart: bool
) -> None:
    threads = []

    def parse(raw: bytes, model: Any) -> Any:
        threads.append(threading.get_ident())
        return parsed(raw, model)

    monkeypatch.setattr(body_reader, "parsed", parse)
    body = SentBody(None, 1 << 25)
    body.add(json.dumps(ASK | more).encode())
    assert (await read_body(body, MessageCreateParams))[0].model == "m"
    assert (threads != [threading.get_ident()]) is is_apart
