"""A server of several models: the field ``model`` chooses one, and lists name all of them."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.engine import Engine
from engine.inference.backend import LoadProgress
from engine.inference.loader import load_model
from engine.library.memory_need import need
from engine.scheduling.model_list import OfferedModel
from engine.values.limits import Limits
from tests.api.questions import question
from tests.support.asking import run
from tests.support.several.offered_models import offered, write_models

MESSAGES, CHAT = "/v1/messages", "/v1/chat/completions"
_ROUTES = (MESSAGES, CHAT, "/v1/completions", "/v1/responses", "/api/chat")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, demo_model_path: Path) -> list[OfferedModel]:
    plain = write_models(tmp_path_factory.mktemp("models"), demo_model_path, 3)
    return [plain[0], offered(plain[1].folder, aliases=("claude-haiku",)), plain[2]]


@pytest.fixture
def several(models: list[OfferedModel], request: pytest.FixtureRequest) -> Iterator[Engine]:
    pinned = getattr(request, "param", 0)
    most = max(need(model.folder).total for model in models)
    engine = Engine(Limits(memory_bytes=most * 2 + most // 2))
    engine.offer([replace(one, is_pinned=n < pinned) for n, one in enumerate(models)])
    with closing(engine):
        run(engine.load(models[0].folder))
        yield engine


class _Held:
    """Loads models; it waits with all but the first until the test allows it."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self._loads = 0

    def __call__(self, folder: Path, *, on_progress: Any, **options: Any) -> Any:
        self._loads += 1
        while self._loads > 1 and not self.may_go_on.wait(0.005):
            on_progress(LoadProgress("weights", 1, 100))
        return load_model(folder, on_progress=on_progress, **options)


@pytest.fixture
def held(models: list[OfferedModel]) -> Iterator[tuple[Engine, _Held]]:
    loader = _Held()
    engine = Engine(loader=loader)
    engine.offer(models)
    with closing(engine):
        run(engine.load(models[0].folder))
        yield engine, loader
        loader.may_go_on.set()


def ask(route: str, model: str, **more: Any) -> dict[str, Any]:
    made = question(route, "Count from 1 to 9.", 8, temperature=0)
    return made | {"model": model, "stream": False, **more}


@pytest.mark.parametrize("route", _ROUTES)
def test_the_named_model_answers_and_says_its_id(
    serve: Callable[..., Any], several: Engine, models: list[OfferedModel], route: str
) -> None:
    site = serve(several)
    for name in (models[1].id, models[1].id.upper(), "claude-haiku"):
        reply = site.send("POST", route, ask(route, name))
        assert reply.status == 200, reply.body
        # Ollama's clients get the name that they sent.
        assert reply.json["model"] == (name if route == "/api/chat" else models[1].id)
        last = several.resolve_model(models[1].id)
        other = several.resolve_model(models[0].id)
        assert last is not None
        assert other is not None
        assert last.used_at is not None
        assert last.used_at > (other.used_at or 0)


@pytest.mark.parametrize("route", [*_ROUTES, "/v1/messages/count_tokens"])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_an_unknown_name_is_a_404_with_the_nearest_names(
    serve: Callable[..., Any],
    several: Engine,
    models: list[OfferedModel],
    route: str,
    is_streamed: bool,
) -> None:
    body = ask(route.removesuffix("/count_tokens"), "model-3", stream=is_streamed)
    reply = serve(several).send("POST", route, body)
    assert reply.status == 404
    assert models[1].id in json.dumps(reply.json)


def test_lists_contain_all_models_with_their_facts(
    serve: Callable[..., Any], several: Engine, models: list[OfferedModel]
) -> None:
    site = serve(several)
    listed = site.send("GET", "/v1/models").json["data"]
    assert [one["id"] for one in listed] == [one.id for one in models]
    assert [one["loaded"] for one in listed] == [True, False, False]
    context = several.model.context_length if several.model else 0
    assert {one["context_length"] for one in listed} == {context}
    assert all(one["size_bytes"] > 0 for one in listed)
    assert site.send("GET", f"/v1/models/{models[2].id}").json["loaded"] is False
    tags = site.send("GET", "/api/tags").json["models"]
    assert [one["name"] for one in tags] == [f"{one.id}:latest" for one in models]
    assert [one["name"] for one in site.send("GET", "/api/ps").json["models"]] == [
        f"{models[0].id}:latest"
    ]
    shown = site.send("POST", "/api/show", {"model": models[2].id}).json
    assert set(shown["capabilities"]) == {"completion", "tools", "thinking"}
    assert several.resolve_model(models[2].id).state == "unloaded"  # type: ignore[union-attr]


def test_keep_alive_sets_how_long_a_model_stays_and_can_unload_it(
    serve: Callable[..., Any], several: Engine, models: list[OfferedModel]
) -> None:
    site = serve(several)
    name = models[1].id

    def expiry() -> str | None:
        there = site.send("GET", "/api/ps").json["models"]
        found = [one["expires_at"] for one in there if one["name"] == f"{name}:latest"]
        return found[0] if found else None

    chat = ask("/api/chat", f"{name}:latest")
    assert site.send("POST", "/api/chat", {**chat, "keep_alive": "-1m"}).status == 200
    assert (expiry() or "").startswith("2318")
    assert site.send("POST", "/api/chat", {**chat, "keep_alive": "1h30m"}).status == 200
    wait_until(lambda: (expiry() or "").startswith(time.strftime("%Y", time.gmtime())))
    # An empty request unloads it, and the others stay.
    assert site.send("POST", "/api/chat", {"model": name, "keep_alive": 0}).json["done"] is True
    wait_until(lambda: expiry() is None)
    assert several.status.state == "ready"
    assert not several.status.is_unloaded
    assert site.send("POST", "/api/chat", {**chat, "keep_alive": 0.01}).status == 200
    wait_until(lambda: expiry() is None)
    wrong = site.send("POST", "/api/chat", {**chat, "keep_alive": "soon"})
    assert wrong.status == 400
    assert "keep_alive" in wrong.json["error"]


def test_a_stream_with_thinking_gets_keepalives_while_its_model_is_loaded(
    serve: Callable[..., Any], held: tuple[Engine, _Held], models: list[OfferedModel]
) -> None:
    engine, loader = held
    site = serve(engine, keepalive_s=0.05)
    body = ask("/api/chat", models[1].id, stream=True, think=True)
    with site.open("POST", "/api/chat", body) as response:
        assert response.readline().startswith(b"{")
        assert not loader.may_go_on.is_set()
        loader.may_go_on.set()
        assert b'"thinking":"' in response.read()


def test_thinking_is_refused_once_the_loaded_model_cannot_reason(
    serve: Callable[..., Any], models: list[OfferedModel]
) -> None:
    def load(folder: Path, **options: Any) -> Any:
        backend = load_model(folder, **options)
        backend.info = replace(backend.info, can_think=False)
        return backend

    engine = Engine(loader=load)
    engine.offer(models)
    with closing(engine):
        run(engine.load(models[0].folder))
        site = serve(engine)
        for _ in range(2):  # before it has been loaded, and after
            reply = site.send("POST", "/api/chat", ask("/api/chat", models[1].id, think=True))
            assert reply.status == 400
            assert "does not support thinking" in reply.json["error"]


def test_a_stream_gets_keepalives_while_its_model_is_loaded(
    serve: Callable[..., Any], held: tuple[Engine, _Held], models: list[OfferedModel]
) -> None:
    engine, loader = held
    site = serve(engine, keepalive_s=0.05)
    for route, sign in (("/v1/messages", b"event: ping\n"), ("/api/chat", b"{")):
        with site.open("POST", route, ask(route, models[1].id, stream=True)) as response:
            assert response.readline().startswith(sign)
            # The loaded model answers meanwhile, and the other is not loaded yet.
            other = site.send("POST", CHAT, ask(CHAT, models[0].id))
            assert other.status == 200
            if not loader.may_go_on.is_set():
                status = engine.resolve_model(models[1].id)
                assert status is not None
                assert status.state == "loading"
            loader.may_go_on.set()
            assert b"_reason" in response.read()


@pytest.mark.parametrize("several", [2], indirect=True)
def test_a_model_that_cannot_be_loaded_fails_its_stream_in_the_vendors_words(
    serve: Callable[..., Any], several: Engine, models: list[OfferedModel]
) -> None:
    site = serve(several)
    assert site.send("POST", CHAT, ask(CHAT, models[1].id)).status == 200
    for is_streamed in (False, True):
        reply = site.send("POST", MESSAGES, ask(MESSAGES, models[2].id, stream=is_streamed))
        assert reply.status == 529
        assert "unpin one of them" in reply.json["error"]["message"]


def wait_until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
