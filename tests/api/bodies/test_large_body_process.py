"""The process that reads large bodies: its order, end, memory and failures."""

import asyncio
import io
import json
import pickle
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from api.dialects.completions import CompletionParams
from api.dialects.shared.body_reader import _understood, _Unpickler, read_request
from api.transport.bodies import LargeBodies, SentBody
from api.transport.errors import ApiError, ContextOverflow, ErrorKind
from engine import Engine
from engine.processes import HelperDied, HelperProcess
from engine.stopping.matcher import Automaton
from tests.api.bodies.large import ANSWERS, ASK, helpers, padded
from tests.api.protection.test_fuzz import BODIES
from tests.support.random_cases import few_of

DEMO = SimpleNamespace(context_length=32_768, longest_token_bytes=16)


def test_the_process_ends_with_its_server(serve: Callable[..., Any]) -> None:
    before = helpers()
    site = serve()
    site.send("POST", "/v1/messages", padded(ASK))
    [helper] = (one for one in helpers() if one not in before)
    site.thread.stop()
    helper.wait(60)


def test_a_dead_process_is_reported_in_words_and_the_next_body_gets_a_new_one(
    serve: Callable[..., Any],
) -> None:
    before = helpers()
    site = serve()
    assert site.send("POST", "/v1/messages", padded(ASK)).status == 200
    [helper] = (one for one in helpers() if one not in before)
    helper.suspend()
    replies: list[Any] = []
    asking = threading.Thread(
        target=lambda: replies.append(site.send("POST", "/v1/messages", padded(ASK)))
    )
    asking.start()
    # Small requests are answered meanwhile.
    assert site.send("POST", "/v1/messages", ASK).status == 200
    helper.kill()
    asking.join()

    [reply] = replies
    assert reply.status == 503
    assert "SIGKILL" in reply.json["error"]["message"]
    assert reply.headers["retry-after"] == "1"
    assert site.send("POST", "/v1/messages", padded(ASK)).status == 200


def question(max_bytes: int = 1 << 25) -> bytes:
    asked = {
        "model": f"{CompletionParams.__module__}:{CompletionParams.__qualname__}",
        "encoding": None,
        "max_bytes": max_bytes,
        "context": 1000,
        "longest": 16,
    }
    return json.dumps(asked).encode()


async def asked(bodies: LargeBodies, prompt: str, told: list[str] | None = None) -> Any:
    raw = json.dumps({"model": "m", "prompt": prompt}).encode()
    _, params, _, _ = await bodies.read(question(), len(raw), iter((raw,)), _understood)
    if told is not None:
        told.append(prompt)
    return params


def suspended(bodies: LargeBodies) -> psutil.Process:
    assert bodies.process.pid is not None
    process = psutil.Process(bodies.process.pid)
    process.suspend()
    return process


async def test_smaller_bodies_are_read_first_and_bodies_of_clients_that_left_are_dropped(
    bodies: Callable[..., LargeBodies],
) -> None:
    helper = bodies()

    told: list[str] = []
    await asked(helper, "x")
    process = suspended(helper)
    first = asyncio.create_task(asked(helper, "first", told))
    await asyncio.sleep(0)
    sizes = ["aaaaaaaa", "aaaa", "aaaaaa", "aa"]
    tasks = [asyncio.create_task(asked(helper, one, told)) for one in sizes]
    await asyncio.sleep(0)
    tasks[2].cancel()
    process.resume()
    await asyncio.gather(first, *tasks, return_exceptions=True)
    assert told == ["first", "aa", "aaaa", "aaaaaaaa"]


async def test_a_client_that_leaves_while_its_body_is_read_delays_nobody(
    bodies: Callable[..., LargeBodies],
) -> None:
    helper = bodies()

    await asked(helper, "x")
    process = suspended(helper)
    leaving = asyncio.create_task(asked(helper, "leaves"))
    await asyncio.sleep(0.05)
    leaving.cancel()
    process.resume()
    assert (await asked(helper, "stays")).prompt == ["stays"]


async def test_a_body_beyond_the_length_of_the_queue_is_refused(
    bodies: Callable[..., LargeBodies], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.transport.bodies._MAX_WAITING", 2)
    helper = bodies()

    await asked(helper, "x")
    process = suspended(helper)
    tasks = [asyncio.create_task(asked(helper, "y")) for _ in range(4)]
    await asyncio.sleep(0)
    process.resume()
    *answered, last = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(one.prompt == ["y"] for one in answered)
    assert isinstance(last, ApiError)
    assert last.kind is ErrorKind.RATE_LIMITED
    assert last.retry_after_s


async def test_a_body_that_takes_too_long_is_given_up_and_the_next_one_is_read(
    bodies: Callable[..., LargeBodies],
) -> None:
    helper = bodies(0.5)

    helper.process.start()
    suspended(helper)
    with pytest.raises(ApiError) as caught:
        await asked(helper, "x")
    assert caught.value.kind is ErrorKind.UNAVAILABLE
    assert "not read within" in caught.value.message
    helper._patience_s = 60
    assert (await asked(helper, "y")).prompt == ["y"]
    assert helper.process.starts == 2


def test_a_body_that_takes_too_much_processor_time_is_too_large(
    bodies: Callable[..., LargeBodies], monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = bodies()

    def dies(*_: object) -> bytes:
        raise HelperDied(-signal.SIGPROF)

    monkeypatch.setattr(helper.process, "ask", dies)
    with pytest.raises(ApiError) as caught:
        asyncio.run(asked(helper, "x"))
    assert caught.value.kind is ErrorKind.TOO_LARGE


@pytest.mark.parametrize(
    "path", few_of(["/v1/messages", "/v1/chat/completions", "/v1/completions"], 1)
)
async def test_the_process_keeps_nothing_of_a_body_that_it_refused(
    bodies: Callable[..., LargeBodies], path: str
) -> None:
    helper, route = bodies(), ANSWERS[path]

    for size in (300_000, 31_000_000, 31_000_000):
        text = "a" * size
        body = SentBody(None, 1 << 25, helper, model=DEMO)  # type: ignore[arg-type]
        more = {"prompt": text} if "prompt" in BODIES[path] else {
            "messages": [{"role": "user", "content": text}]
        }  # fmt: skip
        body.add(json.dumps(BODIES[path] | more).encode())
        try:
            await read_request(body, route.request, route.read, strict=False)
        except ContextOverflow:
            assert size > 300_000
        if size == 300_000:
            before = psutil.Process(helper.process.pid).memory_info().rss
    ends_at = time.monotonic() + 60
    while psutil.Process(helper.process.pid).memory_info().rss > before + 12_000_000:
        assert time.monotonic() < ends_at
        await asyncio.sleep(0.01)


def test_a_process_that_cannot_start_is_reported_in_words(
    bodies: Callable[..., LargeBodies], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "")
    with pytest.raises(ApiError) as caught:
        asyncio.run(asked(bodies(), "x"))
    assert caught.value.kind is ErrorKind.UNAVAILABLE
    assert "no Python to start" in caught.value.message


async def test_an_unused_process_ends_and_a_new_one_starts_when_needed(
    bodies: Callable[..., LargeBodies], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.transport.bodies._REST_AFTER_S", 0.01)
    helper = bodies()

    await asked(helper, "x")
    ends_at = time.monotonic() + 60
    while helper.process.pid is not None:
        assert time.monotonic() < ends_at
        await asyncio.sleep(0.01)
    assert (await asked(helper, "y")).prompt == ["y"]


async def test_a_process_that_keeps_much_memory_is_replaced_before_the_next_body(
    bodies: Callable[..., LargeBodies], monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = bodies()

    starts = []
    for most in (1 << 30, 1 << 30, 1, 1):
        monkeypatch.setattr("api.transport.bodies._MAX_KEPT_BYTES", most)
        assert (await asked(helper, "x")).prompt == ["x"]
        starts.append(helper.process.starts)
    assert helper.process.pid is None
    assert starts == [1, 1, 1, 2]


def test_a_process_reports_how_much_memory_it_takes(bodies: Callable[..., LargeBodies]) -> None:
    helper = bodies()
    assert helper.process.memory_bytes == 0
    asyncio.run(asked(helper, "x"))
    assert helper.process.memory_bytes > 1 << 20


def test_an_answer_of_the_process_can_only_contain_parts_of_requests() -> None:
    for value in (Path("x"), ErrorKind.TOO_LARGE, json.loads, HelperProcess, Engine, Automaton):
        answer = pickle.dumps(("read", 1, value))
        with pytest.raises(pickle.UnpicklingError):
            _Unpickler(io.BytesIO(answer)).load()
