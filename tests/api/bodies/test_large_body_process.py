"""Large bodies are read in a process of their own, with the same answers as small ones."""

import asyncio
import gzip
import io
import json
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from api.dialects.anthropic.wire import MessageCreateParams
from api.dialects.completions.wire import CompletionParams
from api.dialects.ollama.wire import ChatParams
from api.dialects.responses.wire import ResponseParams
from api.dialects.sglang.wire import GenerateParams
from api.dialects.shared import reading
from api.dialects.shared.body_process import __name__ as process_name
from api.dialects.shared.examining import examined
from api.server.routes import DIALECTS
from api.transport.errors import ApiError, ContextOverflow, ErrorKind
from api.transport.large_bodies import LargeBodies
from api.transport.request_body import SMALL_BYTES, SentBody
from engine import Engine
from engine.processes.helper_process import HelperDied, HelperProcess
from engine.scheduling.queue.preparing import prompts_size
from engine.stopping.automaton import Automaton
from tests.api.protection.test_fuzz import BODIES

ASK: dict[str, Any] = {
    "model": "m",
    "max_tokens": 4,
    "messages": [{"role": "user", "content": "Hi"}],
}
PADDING = "p" * 300_000
# One thing that is wrong, in every place that the routes look at.
WRONG: dict[str, Any] = {
    "messages": [1],
    "model": 7,
    "max_tokens": -1,
    "stop": [5],
    "stop_sequences": [""],
    "temperature": "warm",
    "top_p": 7,
    "tools": [{"name": ""}],
    "tool_choice": {"type": "z" * 300},
    "input": [{"type": "nothing"}],
    "prompt": [{"a": 1}],
    "options": {"temperature": 10**40},
    "sampling_params": {"logit_bias": {"x": 1}},
    "input_ids": ["1"],
    "text": {"a": 1},
    "stream": "yes",
    "n": 10**400,
    "fullstop": {"stop_scope": "nowhere"},
}


def helpers() -> list[psutil.Process]:
    """Return the processes that read large bodies for this one."""
    found = []
    for child in psutil.Process().children():
        try:
            if process_name in child.cmdline():
                found.append(child)
        except psutil.Error:
            continue
    return found


def gist(reply: Any) -> Any:
    """Return what an answer says, without what differs from one request to the next."""
    told = dict(reply.json)
    told.pop("request_id", None)
    return reply.status, told, reply.headers.get("x-should-retry")


def padded(body: Any) -> bytes:
    """Return a body that is large, by a field that nobody knows."""
    return json.dumps(body).encode()[:-1] + b', "padding": "' + PADDING.encode() + b'"}'


@pytest.mark.parametrize("path", sorted(BODIES))
def test_what_is_wrong_with_a_large_body_is_said_as_of_a_small_one(
    serve: Callable[..., Any], staged: Callable[..., Any], path: str
) -> None:
    site = serve(staged(step_s=0).engine)
    refused = 0
    for name, value in WRONG.items():
        body = BODIES[path] | {name: value}
        small, large = site.send("POST", path, body), site.send("POST", path, padded(body))
        assert small.status == large.status
        if small.status != 200:
            assert gist(small) == gist(large)
            refused += 1
    assert refused >= 1
    assert len(helpers()) == 1


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions", "/generate", "/api/chat"])
@pytest.mark.parametrize(
    "raw",
    [
        b'{"model": "m", "max_tokens": }',
        b'{"model": "\\ud800"}',
        b'{"model": "m", "n": NaN}',
        b'{"model": "m", "messages": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"model": "\xff"}',
        b'{"max_tokens": ' + b"9" * 5000 + b"}",
    ],
    ids=["syntax", "surrogate", "NaN", "deep", "no UTF-8", "digits"],
)
def test_a_large_body_that_is_no_json_is_refused_with_the_same_words(
    site: Any, path: str, raw: bytes
) -> None:
    large = raw[:-1] + b', "padding": "' + PADDING.encode() + b'"}'

    assert gist(site.send("POST", path, large)) == gist(site.send("POST", path, raw))


def test_a_large_request_is_answered_like_a_small_one(site: Any) -> None:
    for path, body in (
        ("/v1/messages", ASK),
        ("/v1/completions", {"model": "m", "prompt": ["a", "b"], "max_tokens": 2}),
        ("/generate", {"input_ids": [5, 6], "sampling_params": {"max_new_tokens": 2}}),
    ):
        small, large = site.send("POST", path, body), site.send("POST", path, padded(body))
        assert (small.status, large.status) == (200, 200)


def test_a_long_conversation_reaches_the_model_whole(site: Any) -> None:
    body = ASK | {"messages": [{"role": "user", "content": "word " * 40_000 + "é👋"}]}
    # A count needs every character.
    small = site.send("POST", "/v1/messages/count_tokens", ASK | {"messages": [
        {"role": "user", "content": "word " * 10_000 + "é👋"}
    ]})  # fmt: skip
    large = site.send("POST", "/v1/messages/count_tokens", padded(ASK | {"messages": [
        {"role": "user", "content": "word " * 10_000 + "é👋"}
    ]}))  # fmt: skip
    assert small.status == large.status == 200
    assert small.json == large.json
    assert site.send("POST", "/v1/messages", body).status == 400


def test_a_short_body_of_many_values_is_read_beside_the_server(
    serve: Callable[..., Any], staged: Callable[..., Any]
) -> None:
    site = serve(staged(step_s=0).engine)
    body = ASK | {"messages": [{"role": "user", "content": ""}] * 3_500}
    assert len(json.dumps(body)) < SMALL_BYTES * 1.2
    before = len(helpers())
    packed = gzip.compress(json.dumps(body).encode())
    assert site.send("POST", "/v1/messages", packed, {"Content-Encoding": "gzip"}).status == 200
    assert len(helpers()) == before + 1


def test_what_a_large_body_asks_for_is_worked_out_beside_the_server(
    serve: Callable[..., Any], staged: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = serve(staged(step_s=0).engine)

    def fails(*_: object, **__: object) -> Any:
        raise AssertionError("read on the server's loop")

    monkeypatch.setattr(reading, "asked_by", fails)
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        assert site.send("POST", path, padded(ASK)).status == 200
        assert site.send("POST", path, ASK).status == 500


DEMO = SimpleNamespace(context_length=32_768, longest_token_bytes=16)
ANSWERS = {route.path: route for dialect in DIALECTS for route in dialect.answers}


@pytest.mark.parametrize("path", ANSWERS)
def test_a_large_body_asks_for_the_same_as_a_small_one(
    bodies: Callable[..., LargeBodies], path: str
) -> None:
    route = ANSWERS[path]
    fields = route.request.model_fields.keys() & {"n", "best_of"}
    asked_for = BODIES[path] | dict.fromkeys(fields, 3)
    small = SentBody(None, 1 << 25, bodies())
    small.add(json.dumps(asked_for).encode())
    small.settle()
    large = SentBody(None, 1 << 25, bodies())
    large.add(padded(asked_for))

    async def both() -> list[Any]:
        return [
            (await reading.read_as_asked(one, route.request, route.read, strict=False)).requests()
            for one in (small, large)
        ]

    here, beside = asyncio.run(both())
    assert beside == here
    # What one prompt's choices share is shared on the other side as well.
    assert prompts_size(beside) == prompts_size(here)


def test_bodies_that_arrive_together_are_read_in_one_round_each(
    bodies: Callable[..., LargeBodies], monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = bodies()
    read_in: list[int] = []
    rounds = 0

    def parsed(raw: bytes, model: Any) -> Any:
        read_in.append(rounds)
        return raw

    monkeypatch.setattr(reading, "parsed", parsed)

    async def run() -> None:
        nonlocal rounds
        tasks = []
        for _ in range(10):
            body = SentBody(None, 1 << 25, helper)
            body.add(padded(ASK)[:50_000])
            body.settle()
            tasks.append(asyncio.create_task(reading.read(body, MessageCreateParams)))
        while not all(one.done() for one in tasks):
            await asyncio.sleep(0)
            rounds += 1

    asyncio.run(run())
    assert len(read_in) == len(set(read_in)) == 10


@pytest.mark.parametrize("wide", ["👋", "—"])
@pytest.mark.parametrize("is_ascii", [False, True], ids=["UTF-8", "escaped"])
def test_a_text_that_takes_many_times_its_size_is_refused_in_words(
    serve: Callable[..., Any], wide: str, is_ascii: bool
) -> None:
    site = serve(max_body_bytes=600_000)

    def sent(text: str) -> Any:
        body = ASK | {"messages": [{"role": "user", "content": text}], "max_tokens": 1}
        raw = json.dumps(body, ensure_ascii=is_ascii).encode()
        return site.send("POST", "/v1/messages/count_tokens", raw)

    assert sent("a" * 500_000).status != 413
    assert sent("a" * 130_000 + wide).status != 413
    refused = sent("a" * 500_000 + wide)
    assert refused.status == 413
    width = len(wide.encode("utf-16-le")) if wide == "—" else 4
    assert f"at most {600_000 // width:,} such characters" in refused.json["error"]["message"]


def test_small_bodies_need_no_process(site: Any) -> None:
    before = len(helpers())
    assert site.send("POST", "/v1/messages", ASK).status == 200
    assert len(helpers()) == before


def test_the_process_ends_with_its_server(serve: Callable[..., Any]) -> None:
    site = serve()
    site.send("POST", "/v1/messages", padded(ASK))
    [helper] = helpers()
    site.thread.stop()
    helper.wait(60)


def test_a_process_that_dies_is_an_error_in_words_and_the_next_body_gets_another(
    serve: Callable[..., Any],
) -> None:
    site = serve()
    assert site.send("POST", "/v1/messages", padded(ASK)).status == 200
    [helper] = helpers()
    helper.suspend()
    replies: list[Any] = []
    asking = threading.Thread(
        target=lambda: replies.append(site.send("POST", "/v1/messages", padded(ASK)))
    )
    asking.start()
    # Others, small, are answered meanwhile.
    assert site.send("POST", "/v1/messages", ASK).status == 200
    helper.kill()
    asking.join()

    [reply] = replies
    assert reply.status == 503
    assert "SIGKILL" in reply.json["error"]["message"]
    assert reply.headers["retry-after"] == "1"
    assert site.send("POST", "/v1/messages", padded(ASK)).status == 200


# -- prompts beyond the context ---------------------------------------------------------------


def overflow_words(reply: Any, path: str) -> str:
    error = reply.json["error"]
    if path.startswith("/v1/messages"):
        assert error["type"] == "invalid_request_error"
        return str(error["message"])
    if path.startswith("/v1/"):
        assert error["code"] == "context_length_exceeded"
    return str(error if isinstance(error, str) else error["message"])


@pytest.mark.parametrize("packing", [None, "gzip"])
@pytest.mark.parametrize(
    ("path", "field"), [("/v1/completions", "prompt"), ("/generate", "input_ids")]
)
@pytest.mark.parametrize("is_list", [False, True])
def test_more_than_a_million_token_ids_are_a_prompt_that_is_too_long(
    site: Any, path: str, field: str, packing: str | None, is_list: bool
) -> None:
    ids = b"[" + b"1, " * 2_500_000 + b"1]"
    raw = b'{"model": "m", "%s": %s}' % (field.encode(), b"[[1], %s]" % ids if is_list else ids)
    headers = {"Content-Encoding": packing} if packing else {}
    sent = gzip.compress(raw, 1) if packing else raw
    told = overflow_words(site.send("POST", path, sent, headers), path)
    few = [1] * 40_000
    as_few = overflow_words(site.send("POST", path, {"model": "m", field: few}), path)

    assert told.replace("2500001", "40000") == as_few


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/messages", "messages"),
        ("/v1/messages/count_tokens", "messages"),
        ("/v1/chat/completions", "messages"),
        ("/v1/responses", "input"),
        ("/api/chat", "messages"),
    ],
)
def test_a_hundred_thousand_messages_are_a_prompt_that_is_too_long(
    site: Any, path: str, field: str
) -> None:
    many = [{"role": "user", "content": "Hi"}] * 100_001
    reply = site.send("POST", path, {"model": "m", "max_tokens": 3, field: many})

    assert reply.status == 400
    # Ollama's words count what is beyond the demo model's context.
    figure = str(100_001 - 32_768) if path == "/api/chat" else "100001"
    assert figure in overflow_words(reply, path)


def refused(body: Any, model: Any = CompletionParams, context: int | None = 1000) -> ApiError:
    with pytest.raises(ApiError) as caught:
        examined(json.dumps(body).encode(), model, context)
    return caught.value


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/messages/count_tokens"])
def test_a_large_body_waits_for_the_model_that_judges_it_as_a_small_one_does(
    serve: Callable[..., Any], demo_model_path: Path, path: str
) -> None:
    engine = Engine()
    site = serve(engine)
    try:
        more = {"prompt": [1] * 1_100_000} if path == "/v1/completions" else {}
        small, large = BODIES[path], padded(BODIES[path] | more)
        refused = site.send("POST", path, large)
        assert gist(refused) == gist(site.send("POST", path, small))
        assert refused.json["error"]["message"] == "no model is loaded"
        is_loading = threading.Event()

        async def load() -> None:
            loading = asyncio.create_task(engine.load(demo_model_path))
            ends_at = time.monotonic() + 60
            while engine.status.state != "loading":
                assert time.monotonic() < ends_at
                await asyncio.sleep(0)
            is_loading.set()
            await loading

        thread = threading.Thread(target=lambda: asyncio.run(load()))
        thread.start()
        assert is_loading.wait(60)
        reply = site.send("POST", path, large)
        thread.join()
        if more:
            assert "1100000" in overflow_words(reply, path)
        else:
            assert reply.status == 200
    finally:
        engine.close()


def test_a_list_of_ids_is_measured_wherever_it_stands_and_only_there() -> None:
    ids = list(range(1000))
    error = refused({"model": "m", "prompt": ids})
    assert isinstance(error, ContextOverflow)
    assert (error.field, error.prompt_tokens, error.most_tokens) == (("prompt",), 1000, 999)
    error = refused({"model": "m", "prompt": [[1], [*ids, 5], ids]})
    assert isinstance(error, ContextOverflow)
    assert error.prompt_tokens == 1001
    # Elsewhere, and in texts, such a list is none of a prompt's.
    assert refused({"model": "m", "prompt": {"prompt": ids}}).field == ("prompt",)
    assert refused({"model": "m", "prompt": "a", "stop_token_ids": {"a": ids}}).field == (
        "stop_token_ids",
    )
    for prompt in (json.dumps({"prompt": ids}), str(ids), ids[:999]):
        body = {"model": "m", "prompt": prompt, "x": ids, "y": {"prompt": ids}}
        read = examined(json.dumps(body).encode(), CompletionParams, 1000)
        assert read.prompt == [prompt]


def test_a_list_that_holds_something_else_is_wrong_not_long() -> None:
    for wrong in (1.5, "1", None, True, [1]):
        error = refused({"model": "m", "prompt": [*range(2000), wrong]})
        assert error.code != "context_length_exceeded"
        assert error.field == ("prompt",)


def test_without_a_model_nothing_is_too_long_and_too_many_values_are_refused() -> None:
    ids = list(range(2000))
    assert examined(
        json.dumps({"model": "m", "prompt": ids}).encode(), CompletionParams, None
    ).prompt == [ids]
    assert refused({"model": "m", "prompt": [1] * 1_000_001}, context=None).kind is (
        ErrorKind.TOO_LARGE
    )


def test_commas_and_braces_in_texts_are_no_values() -> None:
    text = '{[,"\\' * 1_000_000
    read = examined(json.dumps({"model": "m", "prompt": text}).encode(), CompletionParams, None)
    assert read.prompt == [text]


@pytest.mark.parametrize(
    ("model", "body", "field"),
    [
        (CompletionParams, {"prompt": ["a", "x" * 2_000_000]}, "prompt"),
        (MessageCreateParams, ASK | {"messages": [
            {"role": "user", "content": "x" * 1_000_000},
            {"role": "user", "content": [{"type": "text", "text": "x" * 1_000_000}]},
        ]}, "messages"),
        (ResponseParams, {"input": "x" * 2_000_000}, "input"),
        (GenerateParams, {"text": "x" * 2_000_000}, "text"),
        (ChatParams, {"messages": [{"role": "user", "content": "x" * 2_000_000}]}, "messages"),
    ],
    ids=["completions", "messages", "responses", "generate", "ollama"],
)  # fmt: skip
def test_a_text_that_no_tokens_can_make_short_enough_is_too_long(
    model: Any, body: dict[str, Any], field: str
) -> None:
    raw = json.dumps({"model": "m"} | body).encode()
    with pytest.raises(ContextOverflow) as caught:
        examined(raw, model, 100_000, 10)
    assert (caught.value.field, caught.value.prompt_tokens) == ((field,), 100_000)
    assert examined(raw, model, 100_001, 10)
    assert examined(raw, model, 100_000, None)


def test_what_an_assistant_said_may_be_left_out_and_counts_nothing() -> None:
    turns = [{"role": "assistant", "content": "x" * 3_000_000}, *ASK["messages"]]
    assert examined(json.dumps(ASK | {"messages": turns}).encode(), MessageCreateParams, 1000, 1)


def test_more_objects_than_can_be_read_or_handed_over_are_refused() -> None:
    block = {"type": "text", "text": ""}
    for count in (200_000, 700_000):
        turn = {"role": "user", "content": [block] * count}
        error = refused(ASK | {"messages": [turn]}, MessageCreateParams, 10**9)
        assert error.kind is ErrorKind.TOO_LARGE
        assert "send fewer" in error.message
    error = refused(ASK | {"messages": ASK["messages"] * 100_001}, MessageCreateParams, 10**9)
    assert (error.kind, error.field) == (ErrorKind.INVALID_REQUEST, ("messages",))


# -- the helper -------------------------------------------------------------------------------


@pytest.fixture
def bodies() -> Iterator[Callable[..., LargeBodies]]:
    """Makes helpers, and ends them."""
    made: list[LargeBodies] = []

    def make(patience_s: float = 60.0) -> LargeBodies:
        made.append(LargeBodies(reading.PROCESS, patience_s))
        return made[-1]

    yield make
    for one in made:
        one.close()


def question(most_bytes: int = 1 << 25) -> bytes:
    asked = {
        "model": f"{CompletionParams.__module__}:{CompletionParams.__qualname__}",
        "encoding": None,
        "most_bytes": most_bytes,
        "context": 1000,
        "longest": 16,
    }
    return json.dumps(asked).encode()


async def asked(bodies: LargeBodies, prompt: str, told: list[str] | None = None) -> Any:
    raw = json.dumps({"model": "m", "prompt": prompt}).encode()
    _, params, _, _ = await bodies.read(question(), len(raw), iter((raw,)), reading._understood)
    if told is not None:
        told.append(prompt)
    return params


def suspended(bodies: LargeBodies) -> psutil.Process:
    assert bodies.process.pid is not None
    process = psutil.Process(bodies.process.pid)
    process.suspend()
    return process


def test_smaller_bodies_are_read_first_and_whoever_leaves_is_forgotten(
    bodies: Callable[..., LargeBodies],
) -> None:
    helper = bodies()

    async def run() -> list[str]:
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
        return told

    assert asyncio.run(run()) == ["first", "aa", "aaaa", "aaaaaaaa"]


def test_a_client_that_leaves_while_its_body_is_read_holds_up_nobody(
    bodies: Callable[..., LargeBodies],
) -> None:
    helper = bodies()

    async def run() -> Any:
        await asked(helper, "x")
        process = suspended(helper)
        leaving = asyncio.create_task(asked(helper, "leaves"))
        await asyncio.sleep(0.05)
        leaving.cancel()
        process.resume()
        return await asked(helper, "stays")

    assert asyncio.run(run()).prompt == ["stays"]


def test_more_bodies_than_may_wait_are_refused(
    bodies: Callable[..., LargeBodies], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.transport.large_bodies._MOST_WAITING", 2)
    helper = bodies()

    async def run() -> list[Any]:
        await asked(helper, "x")
        process = suspended(helper)
        tasks = [asyncio.create_task(asked(helper, "y")) for _ in range(4)]
        await asyncio.sleep(0)
        process.resume()
        return await asyncio.gather(*tasks, return_exceptions=True)

    *answered, last = asyncio.run(run())
    assert all(one.prompt == ["y"] for one in answered)
    assert isinstance(last, ApiError)
    assert last.kind is ErrorKind.RATE_LIMITED
    assert last.retry_after_s


def test_a_body_that_takes_too_long_is_given_up_and_the_next_one_is_read(
    bodies: Callable[..., LargeBodies],
) -> None:
    helper = bodies(0.5)

    async def run() -> Any:
        helper.process.start()
        suspended(helper)
        with pytest.raises(ApiError) as caught:
            await asked(helper, "x")
        assert caught.value.kind is ErrorKind.UNAVAILABLE
        assert "not read within" in caught.value.message
        helper._patience_s = 60
        return await asked(helper, "y")

    assert asyncio.run(run()).prompt == ["y"]
    assert helper.process.starts == 2


def test_what_takes_too_much_computing_is_too_large(
    bodies: Callable[..., LargeBodies], monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = bodies()

    def dies(*_: object) -> bytes:
        raise HelperDied(-signal.SIGPROF)

    monkeypatch.setattr(helper.process, "ask", dies)
    with pytest.raises(ApiError) as caught:
        asyncio.run(asked(helper, "x"))
    assert caught.value.kind is ErrorKind.TOO_LARGE


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions", "/v1/completions"])
def test_the_process_keeps_nothing_of_a_body_that_it_has_refused(
    bodies: Callable[..., LargeBodies], path: str
) -> None:
    helper, route = bodies(), ANSWERS[path]

    async def run() -> None:
        for size in (300_000, *[31_000_000] * 4):
            text = "a" * size
            body = SentBody(None, 1 << 25, helper, model=DEMO)  # type: ignore[arg-type]
            more = {"prompt": text} if "prompt" in BODIES[path] else {
                "messages": [{"role": "user", "content": text}]
            }  # fmt: skip
            body.add(json.dumps(BODIES[path] | more).encode())
            try:
                await reading.read_as_asked(body, route.request, route.read, strict=False)
            except ContextOverflow:
                assert size > 300_000
            if size == 300_000:
                before = psutil.Process(helper.process.pid).memory_info().rss
        ends_at = time.monotonic() + 60
        while psutil.Process(helper.process.pid).memory_info().rss > before + 12_000_000:
            assert time.monotonic() < ends_at
            await asyncio.sleep(0.01)

    asyncio.run(run())


def test_a_process_that_cannot_start_is_said_in_words(
    bodies: Callable[..., LargeBodies], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "")
    with pytest.raises(ApiError) as caught:
        asyncio.run(asked(bodies(), "x"))
    assert caught.value.kind is ErrorKind.UNAVAILABLE
    assert "no Python to start" in caught.value.message


def test_an_unused_process_is_ended_and_comes_back(
    bodies: Callable[..., LargeBodies], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.transport.large_bodies._REST_AFTER_S", 0.01)
    helper = bodies()

    async def run() -> Any:
        await asked(helper, "x")
        ends_at = time.monotonic() + 60
        while helper.process.pid is not None:
            assert time.monotonic() < ends_at
            await asyncio.sleep(0.01)
        return await asked(helper, "y")

    assert asyncio.run(run()).prompt == ["y"]


def test_answers_of_the_process_make_parts_of_requests_and_nothing_else() -> None:
    for value in (Path("x"), ErrorKind.TOO_LARGE, json.loads, HelperProcess, Engine, Automaton):
        answer = pickle.dumps(("read", 1, value))
        with pytest.raises(pickle.UnpicklingError):
            reading._Unpickler(io.BytesIO(answer)).load()
