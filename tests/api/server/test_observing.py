import asyncio
import base64
import contextlib
import hashlib
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from api.server.server import ServerThread
from api.service.config import Address, ServerConfig
from api.service.record import (
    RecordedBody,
    RequestObserver,
    RequestRecord,
)
from api.service.redaction import HIDDEN, safe_body, safe_headers, safe_path
from engine.engine import Engine
from engine.stopping.record import StopKind
from engine.values.request import TraceLevel
from tests.api.questions import PATHS, question
from tests.support.scripted import Stage

COUNT = "Count from 1 to 10, one number per line"


class Notebook(RequestObserver):
    def __init__(self) -> None:
        self.advanced: list[tuple[str, str, int]] = []
        self.records: list[RequestRecord] = []
        self.ended: list[RequestRecord] = []
        self.threads: set[str] = set()

    trace: tuple[TraceLevel, int] = (TraceLevel.OFF, 0)

    def requested_trace(self) -> tuple[TraceLevel, int]:
        return self.trace

    def request_began(self, record: RequestRecord) -> None:
        self.threads.add(threading.current_thread().name)
        self.records.append(record)

    def request_advanced(self, record: RequestRecord) -> None:
        self.threads.add(threading.current_thread().name)
        self.advanced.append((record.requested_model, record.model, len(record.runs)))

    def request_ended(self, record: RequestRecord) -> None:
        self.threads.add(threading.current_thread().name)
        self.ended.append(record)

    def last(self, count: int = 1, within_s: float = 60) -> RequestRecord:
        deadline_s = time.monotonic() + within_s
        while len(self.ended) < count:
            assert time.monotonic() < deadline_s, "the request has not ended in time"
            time.sleep(0.005)
        return self.ended[-1]


@contextmanager
def watched(
    engine: Engine, trace: tuple[TraceLevel, int] = (TraceLevel.OFF, 0), **settings: Any
) -> Iterator[tuple[Address, Notebook]]:
    notebook = Notebook()
    notebook.trace = trace
    server = ServerThread(engine, ServerConfig(**settings), [notebook])
    address = server.start()
    try:
        yield address, notebook
    finally:
        server.stop()


def post(
    address: Address, path: str, body: dict[str, Any], **headers: str
) -> tuple[int, bytes, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=60)
    sent = {"content-type": "application/json"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("POST", path, json.dumps(body), sent)
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    return response.status, answer, response.headers


def asked(**more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": COUNT}]
    return {"model": "any", "max_tokens": 60, "messages": messages, "stop_sequences": ["4"], **more}


@pytest.mark.parametrize("is_stream", [False, True])
def test_an_observer_gets_the_bodies_the_stop_and_the_model_of_an_answer(
    engine: Engine, is_stream: bool
) -> None:
    body = asked(stream=is_stream)
    with watched(engine) as (address, notebook):
        _, answer, headers = post(address, "/v1/messages", body, user_agent="curl/8")
        record = notebook.last()
    assert record.request_id == headers["request-id"]
    assert (record.dialect, record.status, record.is_stream) == ("Messages", 200, is_stream)
    assert record.client == "127.0.0.1"
    assert dict(record.headers)["User-Agent"] == "curl/8"
    assert json.loads(record.request_body.text) == body
    assert record.response_body.text == answer.decode()
    assert record.model == "demo-model"
    (end,) = record.ends
    assert (end.stop.kind, end.stop.value) == (StopKind.STOP_STRING, "4")
    assert notebook.threads == {"api"}


def test_an_observer_learns_the_model_and_may_end_an_answer_that_is_under_way(slow: Engine) -> None:
    with watched(slow) as (address, notebook):
        connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=60)
        body = json.dumps(asked(stream=True, stop_sequences=[]))
        connection.request("POST", "/v1/messages", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        first = answer.readline()
        [*_, begun] = notebook.records
        assert notebook.advanced == [("any", "", 0), ("any", begun.model, 1)]
        assert begun.model
        begun.runs[0].generation.cancel()
        rest = answer.read()
        record = notebook.last()
        connection.close()
    assert first
    assert rest.count(b"content_block_delta") < 9
    assert record.ends[0].stop.kind is StopKind.CANCELLED
    assert begun.runs[0].generation.written_tokens >= record.ends[0].usage.output_tokens


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Engine]:
    counted = [f"{number} " for number in range(1, 10)]
    raw = dict.fromkeys((COUNT, ""), counted)
    stage = Stage(tmp_path, raw, step_s=0.03)
    engine = Engine(loader=stage.load)
    asyncio.run(engine.load(tmp_path))
    yield engine
    engine.close()


def shapes(raw: bytes) -> set[str]:
    """Return the kinds of objects in an answer, without their numbers."""
    kinds = set()
    for line in raw.decode().splitlines():
        with contextlib.suppress(ValueError):
            kinds.add(json.dumps(_shape(json.loads(line.removeprefix("data: ")))))
    return kinds


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shape(inner) for name, inner in sorted(value.items())}
    if isinstance(value, list):
        return [_shape(value[0])] if value else []
    return type(value).__name__


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("path", PATHS)
def test_recording_tokens_does_not_change_the_answer(
    slow: Engine, path: str, is_stream: bool
) -> None:
    body = question(path, COUNT, 60, stop=["4"]) | {"stream": is_stream}
    with watched(slow) as (address, notebook):
        post(address, path, body)  # the prompt is in the cache for both
        _, plain, _ = post(address, path, body)
        usual = notebook.last()
    with watched(slow, (TraceLevel.FULL, 3)) as (address, notebook):
        status, answer, _ = post(address, path, body)
        record = notebook.last()
    assert status == 200
    assert shapes(answer) == shapes(plain)
    assert record.ends[0].stop == usual.ends[0].stop
    assert record.ends[0].stop.value == "4"
    (run,) = record.runs
    assert len(run.tokens) == record.ends[0].usage.output_tokens
    assert run.generation.request.stops.strings == ("4",)
    assert run.finished == record.ends[0]
    assert "".join(run.texts) == "1 2 3 "


def test_an_observer_learns_of_a_client_that_left_and_the_tokens_it_cost(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["word "] * 3000}, step_s=0.01)
    body = asked(stream=True, max_tokens=3000) | {"stop_sequences": []}
    body["messages"] = [{"role": "user", "content": "go"}]
    with contextlib.closing(Engine(loader=stage.load)) as engine, watched(engine) as it:
        address, notebook = it
        asyncio.run(engine.load(tmp_path))
        connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=60)
        connection.request(
            "POST", "/v1/messages", json.dumps(body), {"content-type": "application/json"}
        )
        connection.getresponse().read(1500)
        connection.close()
        record = notebook.last()
    assert record.status == 499
    (end,) = record.ends
    assert end.stop.kind is StopKind.CANCELLED
    assert end.usage.output_tokens > 0


def test_an_observer_gets_a_request_without_the_key_but_not_its_body(engine: Engine) -> None:
    with watched(engine, api_key="quite-secret") as (address, notebook):
        status, _, _ = post(address, "/v1/messages", asked(), x_api_key="wrong-secret")
        record = notebook.last()
    assert (status, record.status) == (401, 401)
    assert (record.request_body.text, record.ends) == ("", ())
    assert "authentication_error" in record.response_body.text


def test_pictures_of_bodies_are_recorded_by_size_and_digest() -> None:
    data = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
    encoded = base64.b64encode(data).decode()
    broken = base64.encodebytes(data).decode()
    sent = [encoded, f"data:image/png;base64,{encoded}", broken, "iVBORw0KGgo", "x" * 999]
    nested = {"text": json.dumps({"type": "image", "data": encoded}), "images": sent}
    body = RecordedBody(json.dumps(nested).encode())
    named = f"[picture of 1,032 bytes, SHA-256 {hashlib.sha256(data).hexdigest()[:16]}]"
    found = json.loads(body.text)
    assert json.loads(found["text"])["data"] == named
    assert found["images"][:2] == [named, f"data:image/png;base64,{named}"]
    assert found["images"][2].strip() == named
    assert found["images"][3:] == sent[3:]
    assert body.is_whole


def test_keys_are_hidden_in_every_place(engine: Engine) -> None:
    with watched(engine, api_key="quite-secret") as (address, notebook):
        post(
            address,
            "/v1/messages?api_key=quite-secret&beta=true",
            asked(metadata={"user_id": "me", "api_key": "sk-123"}, note="quite-secret"),
            authorization="Bearer quite-secret",
        )
        record = notebook.last()
    assert record.status == 200
    assert "quite-secret" not in repr(record)
    assert "sk-123" not in repr(record)
    assert record.path == f"/v1/messages?api_key={HIDDEN}&beta=true"
    assert json.loads(record.request_body.text)["metadata"] == {"user_id": "me", "api_key": HIDDEN}


@pytest.mark.parametrize(
    ("clean", "given", "hidden"),
    [
        (safe_body, '{"API-Key" : "a\\"b", "x": 1}', '{"API-Key" : "[hidden]", "x": 1}'),
        (safe_body, '{"openai_api_key":"cut in the mid', '{"openai_api_key":"[hidden]"'),
        (safe_body, '{"max_tokens": 5, "monkey": "b"}', '{"max_tokens": 5, "monkey": "b"}'),
        (safe_path, "/v1/models?key=abc&after=key", "/v1/models?key=[hidden]&after=key"),
    ],
)
def test_fields_named_like_keys_lose_their_values(
    clean: Callable[[str], str], given: str, hidden: str
) -> None:
    assert clean(given) == hidden


def test_headers_that_carry_keys_lose_their_values() -> None:
    given = [("X-API-Key", "a"), ("cookie", "b"), ("Accept", "c"), ("X-Note", "has my-key in it")]
    assert safe_headers(given, "my-key") == (
        ("X-API-Key", HIDDEN),
        ("cookie", HIDDEN),
        ("Accept", "c"),
        ("X-Note", f"has {HIDDEN} in it"),
    )
