"""Every API reports, in its vendor's own field, how many prompt tokens came from a cache."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.engine import Engine
from engine.inference.cache import index
from engine.inference.cache.disk import DiskCache
from engine.values.request import LOCAL_OWNER, CacheOwner, GenerationRequest, Message
from tests.api.questions import question
from tests.support.random_cases import few_of

BLOCK = 16
LONG = "the quick brown fox jumps over the lazy dog and says hello. " * 6


@dataclass(frozen=True)
class Api:
    """How to ask an API, and where it reports its counts.

    Attributes:
        path: Where the request goes.
        counts: Takes the prompt's tokens, and the cached ones, from the last object with counts.
        counted: Returns that object of a stream's objects.
    """

    path: str
    counts: Callable[[dict[str, Any]], tuple[int, int]]
    counted: Callable[[list[Any]], dict[str, Any]] = lambda found: found[-1]


def _openai(answer: dict[str, Any]) -> tuple[int, int]:
    usage = answer["usage"]
    return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


def _anthropic(answer: dict[str, Any]) -> tuple[int, int]:
    usage = answer.get("message", answer)["usage"]
    cached = usage["cache_read_input_tokens"]
    return usage["input_tokens"] + cached, cached


def _responses(answer: dict[str, Any]) -> tuple[int, int]:
    usage = answer.get("response", answer)["usage"]
    return usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"]


APIS = {
    "messages": Api("/v1/messages", _anthropic, lambda found: found[0]),
    "chat": Api("/v1/chat/completions", _openai),
    "completions": Api("/v1/completions", _openai),
    "responses": Api("/v1/responses", _responses),
    "generate": Api(
        "/generate",
        lambda answer: (answer["meta_info"]["prompt_tokens"], answer["meta_info"]["cached_tokens"]),
    ),
}


@pytest.fixture(scope="module")
def keeping(tmp_path_factory: pytest.TempPathFactory, demo_model_path: Path) -> Iterator[Engine]:
    disk = DiskCache(tmp_path_factory.mktemp("kept"), 1 << 30)
    engine = Engine(disk=disk)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(index, "BLOCK_TOKENS", BLOCK)
        asyncio.run(engine.load(demo_model_path))
        yield engine
    engine.close()
    disk.close()


def asked(
    site: Any, api: Api, text: str, is_stream: bool, key: str | None = None
) -> tuple[int, int]:
    body = question(api.path, text, 8, raw=text, temperature=0) | {"stream": is_stream}
    if is_stream and api.counts is _openai:
        body["stream_options"] = {"include_usage": True}
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    reply = site.send("POST", api.path, body, headers)
    assert reply.status == 200, reply.body
    if not is_stream:
        return api.counts(reply.json)
    found = [json.loads(data) for _, data in reply.events if data != "[DONE]"]
    return api.counts(api.counted(found))


async def unloaded(engine: Engine) -> None:
    engine.unload_when_idle()
    async with asyncio.timeout(60):
        while not engine.status.is_unloaded:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
    assert engine.disk is not None
    await asyncio.wrap_future(engine.disk.measured())


@pytest.mark.parametrize(("is_stream", "place"), [(False, "memory"), (True, "disk")])
@pytest.mark.parametrize("name", few_of(APIS, 3))
def test_the_tokens_of_a_prompt_that_was_already_read_are_reported_as_cached(
    keeping: Engine, serve: Callable[..., Any], name: str, is_stream: bool, place: str
) -> None:
    api, text = APIS[name], f"{name} {is_stream} {place} {LONG}"
    site = serve(keeping, keeps_prompts=True)
    total, first = asked(site, api, text, is_stream)
    if place == "disk":
        asyncio.run(unloaded(keeping))
    again, cached = asked(site, api, text, is_stream)
    assert again == total > 100
    assert first < total // 2
    # Files hold full blocks.
    assert cached == ((total - 1) // BLOCK * BLOCK if place == "disk" else total - 1)
    metrics = site.send("GET", "/metrics").body.decode()
    is_none = re.search(r'fullstop_tokens_total\{[^}]*kind="disk"[^}]*\} 0\.0', metrics)
    assert (is_none is None) == (place == "disk")


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_no_client_is_told_or_spared_what_another_or_the_person_has_asked(
    keeping: Engine, serve: Callable[..., Any], place: str
) -> None:
    api, text = APIS["chat"], f"a secret {place} {LONG}"
    site = serve(keeping, keeps_prompts=True)
    chat = GenerationRequest(
        messages=(Message("user", text),),
        max_tokens=8,
        cache_owner=CacheOwner(LOCAL_OWNER.name, "a conversation"),
    )

    async def ask() -> int:
        answer = await (await keeping.generate(chat)).collect()
        return answer.finished.usage.cached_tokens

    asyncio.run(ask())
    askers = (None, "one key", "another key")
    unread = []
    for key in askers:
        if place == "disk":
            asyncio.run(unloaded(keeping))
        unread.append(asked(site, api, text, is_stream=False, key=key)[1])
    # The clients without a key may share a template's first tokens with other tests.
    assert max(unread) < 20
    assert unread[1:] == [0, 0]
    # What one of them asks twice is still read once.
    assert all(asked(site, api, text, is_stream=False, key=key)[1] > 100 for key in askers)
    assert asyncio.run(ask()) > 100


def test_a_server_that_keeps_no_prompts_leaves_nothing_on_disk(
    keeping: Engine, serve: Callable[..., Any]
) -> None:
    assert keeping.disk is not None
    before = keeping.disk.measured().result(60)
    asked(serve(keeping), APIS["chat"], f"nothing of this {LONG}", is_stream=False)
    assert keeping.disk.measured().result(60) == before
