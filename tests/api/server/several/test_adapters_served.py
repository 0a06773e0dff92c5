"""A server of a base and two adapters: chosen by name in every dialect, each with its own text."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import openai
import pytest

from engine.engine import Engine
from engine.scheduling.model_list import OfferedModel
from tests.api.questions import INNER, PATHS, question
from tests.support.asking import run
from tests.support.models.adapters import random_adapter
from tests.support.several.offered_models import offered

PROMPT = "Count from 1 to 30, one number per line."
RAW = f"<|im_start|>user\n{PROMPT}<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def adapted(
    tmp_path_factory: pytest.TempPathFactory, demo_model_path: Path
) -> Iterator[tuple[Engine, dict[str, OfferedModel]]]:
    folder = tmp_path_factory.mktemp("adapters")
    base = offered(demo_model_path)
    models = {"base": base}
    for seed, name in enumerate(("one", "two")):
        made = random_adapter(demo_model_path, folder / name, seed)
        models[name] = OfferedModel(f"{base.id} + {name}", made, (name,), base=demo_model_path)
    engine = Engine()
    engine.offer(list(models.values()))
    with closing(engine):
        run(engine.load(demo_model_path))
        yield engine, models


def text_of(path: str, reply: Any) -> str:
    match path:
        case "/v1/messages":
            return "".join(block.get("text", "") for block in reply["content"])
        case "/v1/chat/completions":
            return str(reply["choices"][0]["message"]["content"])
        case "/v1/completions":
            return str(reply["choices"][0]["text"])
        case "/v1/responses":
            parts = [part for item in reply["output"] for part in item.get("content", [])]
            return "".join(part["text"] for part in parts)
        case "/api/chat":
            return str(reply["message"]["content"])
        case "/api/generate":
            return str(reply["response"])
    return str(reply["text"])


def asked(path: str, name: str) -> dict[str, Any]:
    body = question(path, PROMPT, 12, raw=RAW, temperature=0) | {"stream": False}
    if path == "/generate":
        return body | ({} if name == "base" else {"lora_path": name})
    return body | {"model": "" if name == "base" else name}


@pytest.mark.parametrize("path", PATHS)
def test_adapters_answer_beside_their_base(
    serve: Callable[..., Any], adapted: tuple[Engine, dict[str, OfferedModel]], path: str
) -> None:
    engine, models = adapted
    site = serve(engine)

    def send(name: str) -> tuple[str, str]:
        reply = site.send("POST", path, asked(path, name))
        assert reply.status == 200, reply.body
        return str(reply.json.get("model", "")), text_of(path, reply.json)

    alone = {name: send(name)[1] for name in models}
    assert len(set(alone.values())) == len(models)
    names = [*models] * 3
    with ThreadPoolExecutor(len(names)) as pool:
        together = list(pool.map(send, names))
    for name, (model, text) in zip(names, together, strict=True):
        assert text == alone[name]
        if path != "/generate" and not (path in INNER and name == "base"):
            # Ollama's clients get the name that they sent.
            assert model == (name if path in INNER else models[name].id)


@pytest.mark.parametrize("form", ["name", "path", "relative"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_adapters_field_of_mlx_lm_server_chooses(
    serve: Callable[..., Any],
    adapted: tuple[Engine, dict[str, OfferedModel]],
    path: str,
    form: str,
) -> None:
    engine, models = adapted
    site = serve(engine)
    given = {"name": "one", "path": str(models["one"].folder), "relative": "adapters/one"}[form]
    body = asked(path, "base") | {"adapters": given}
    for model in ("", models["base"].id):
        reply = site.send("POST", path, body | {"model": model})
        assert reply.json["model"] == models["one"].id
        expected = site.send("POST", path, asked(path, "one")).json
        assert text_of(path, reply.json) == text_of(path, expected)


@pytest.mark.parametrize(
    ("path", "given", "status", "cause"),
    [
        ("/v1/chat/completions", {"adapters": "three"}, 404, "there is no adapter three"),
        ("/v1/chat/completions", {"adapters": "../../etc"}, 404, "there is no adapter"),
        ("/v1/chat/completions", {"adapters": "demo-model"}, 404, "there is no adapter"),
        ("/v1/chat/completions", {"adapters": 7}, 400, "adapters"),
        ("/v1/chat/completions", {"adapters": "one", "model": "two"}, 400, "is an adapter of"),
        ("/generate", {"lora_path": "three"}, 404, "there is no adapter three"),
    ],
)
def test_wrong_adapters_are_refused(
    serve: Callable[..., Any],
    adapted: tuple[Engine, dict[str, OfferedModel]],
    path: str,
    given: dict[str, Any],
    status: int,
    cause: str,
) -> None:
    reply = serve(adapted[0]).send("POST", path, asked(path, "base") | given)
    assert reply.status == status, reply.body
    assert cause in reply.body.decode()
    assert str(adapted[1]["one"].folder) not in reply.body.decode()


def test_adapters_are_refused_where_one_model_answers_all(
    site: Any,
) -> None:
    body = asked("/v1/chat/completions", "base") | {"adapters": "one"}
    reply = site.send("POST", "/v1/chat/completions", body)
    assert (reply.status, "adapters here: none" in reply.body.decode()) == (404, True)


def test_list_of_models_names_the_parent(
    serve: Callable[..., Any], adapted: tuple[Engine, dict[str, OfferedModel]]
) -> None:
    engine, models = adapted
    site = serve(engine)
    listed = site.send("GET", "/v1/models").json["data"]
    parents = {one["id"]: one["parent"] for one in listed}
    base = models["base"].id
    assert parents == {base: None, f"{base} + one": base, f"{base} + two": base}
    shown = site.send("POST", "/api/show", {"model": "one"}).json
    assert shown["details"]["parent_model"] == base
    assert "completion" in shown["capabilities"]


def test_adapter_is_loaded_and_unloaded_by_name(
    serve: Callable[..., Any], adapted: tuple[Engine, dict[str, OfferedModel]]
) -> None:
    engine, models = adapted
    site, name = serve(engine), models["two"].id
    loaded = site.send("POST", "/api/v1/models/load", {"model": "two"})
    assert loaded.json["instance_id"] == name
    assert site.send("GET", f"/v1/models/{quote(name)}").json["loaded"] is True
    reply = site.send("POST", "/api/v1/models/unload", {"instance_id": "two"})
    assert reply.status == 200
    answer = site.send("POST", "/v1/chat/completions", asked("/v1/chat/completions", "two"))
    assert answer.json["model"] == name


def test_prompt_routes_take_an_adapter(
    serve: Callable[..., Any], adapted: tuple[Engine, dict[str, OfferedModel]]
) -> None:
    site = serve(adapted[0])
    body = {"model": "one", "messages": [{"role": "user", "content": "Hi"}]}
    for path in ("/v1/messages/count_tokens", "/apply-template", "/v1/chat/completions/render"):
        reply = site.send("POST", path, body)
        assert reply.status == 200, (path, reply.body)


def test_openai_client_chooses_adapters(
    serve: Callable[..., Any], adapted: tuple[Engine, dict[str, OfferedModel]]
) -> None:
    async def ask(client: openai.AsyncOpenAI, name: str, **more: Any) -> str:
        reply = await client.chat.completions.create(
            model=name,
            messages=[{"role": "user", "content": PROMPT}],
            max_tokens=12,
            temperature=0,
            extra_body=more,
        )
        return str(reply.choices[0].message.content)

    async def compare(url: str) -> None:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="any") as client:
            base = adapted[1]["base"].id
            texts = await asyncio.gather(
                ask(client, base), ask(client, "one"), ask(client, base, adapters="one")
            )
            assert texts[0] != texts[1] == texts[2]

    run(compare(serve(adapted[0]).url))
