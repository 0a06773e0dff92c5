"""LM Studio's REST API, by the examples of its documentation."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.engine import Engine
from engine.scheduling.model_list import OfferedModel
from tests.api.conftest import Site
from tests.api.dialects.documented import answer_schema, check
from tests.support.asking import run
from tests.support.models.rerankers import write_reranker
from tests.support.several.offered_models import offered, write_models

LOAD, UNLOAD, DOWNLOAD = (f"/api/v1/models/{verb}" for verb in ("load", "unload", "download"))
ASK = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, demo_model_path: Path) -> list[OfferedModel]:
    folder = tmp_path_factory.mktemp("models")
    [plain, other] = write_models(folder, demo_model_path, 2)
    reranker = offered(write_reranker(folder, demo_model_path))
    vectors = folder / "Tiny-Embedding"
    vectors.symlink_to(other.folder)
    return [plain, offered(vectors), reranker]


@pytest.fixture
def several(models: list[OfferedModel], serve: Callable[..., Site]) -> Iterator[Site]:
    with closing(Engine()) as engine:
        engine.offer(models)
        run(engine.load(models[0].folder))
        yield serve(engine)


def wait_until(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def entries(site: Site) -> dict[str, Any]:
    listed = site.send("GET", "/api/v0/models").json
    assert listed["object"] == "list"
    return {entry["id"]: entry for entry in listed["data"]}


def test_v0_lists_type_quantization_and_state(several: Site, models: list[OfferedModel]) -> None:
    plain, vectors, reranker = (model.id for model in models)
    found = entries(several)
    assert found[plain] == {
        "id": plain,
        "object": "model",
        "type": "llm",
        "publisher": "",
        "arch": "qwen3",
        "compatibility_type": "mlx",
        "quantization": "F32",
        "state": "loaded",
        "max_context_length": 32_768,
        "loaded_context_length": 32_768,
        "capabilities": ["tool_use"],
    }
    assert found[vectors]["type"] == "embeddings"
    assert found[vectors]["state"] == "not-loaded"
    assert "loaded_context_length" not in found[vectors]
    assert (found[reranker]["type"], found[reranker]["capabilities"]) == ("llm", [])
    assert several.send("GET", f"/api/v0/models/{plain}").json == found[plain]


def test_v1_lists_instances_and_abilities(several: Site, models: list[OfferedModel]) -> None:
    listed = several.send("GET", "/api/v1/models").json["models"]
    plain, vectors, reranker = listed
    assert [one["key"] for one in listed] == [model.id for model in models]
    config = {"context_length": 32_768, "parallel": several.engine.limits.max_rows}
    assert plain["loaded_instances"] == [{"id": models[0].id, "config": config}]
    assert plain["quantization"] == {"name": "F32", "bits_per_weight": 32}
    assert plain["capabilities"] == {
        "vision": False,
        "trained_for_tool_use": True,
        "reasoning": {"allowed_options": ["off", "on"], "default": "on"},
    }
    assert plain["params_string"].endswith("K")
    assert vectors["type"] == "embedding"
    assert "capabilities" not in vectors
    assert vectors["loaded_instances"] == []
    assert reranker["capabilities"] == {"vision": False, "trained_for_tool_use": False}


def test_load_and_unload_change_the_state(several: Site, models: list[OfferedModel]) -> None:
    name = models[2].id
    body = {"model": name, "context_length": 16384, "flash_attention": True,
            "echo_load_config": True}  # fmt: skip
    for _ in range(2):  # a loaded one is not loaded again
        reply = several.send("POST", LOAD, body)
        assert reply.status == 200, reply.body
        check(answer_schema(LOAD), reply.json)
        assert reply.headers["x-fullstop-not-applied"] == "context_length, flash_attention"
        assert (reply.json["instance_id"], reply.json["status"]) == (name, "loaded")
        assert reply.json["load_config"] == {"context_length": 32_768}
    assert entries(several)[name]["state"] == "loaded"
    unloaded = several.send("POST", UNLOAD, {"instance_id": name})
    check(answer_schema(UNLOAD), unloaded.json)
    assert unloaded.json == {"instance_id": name}
    wait_until(lambda: entries(several)[name]["state"] == "not-loaded")
    again = several.send("POST", UNLOAD, {"instance_id": name})
    assert (again.status, again.json["error"]["type"]) == (404, "model_not_found")
    assert again.json["error"]["param"] == "instance_id"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/v0/chat/completions", LOAD])
def test_ttl_frees_the_model_when_idle(
    several: Site, models: list[OfferedModel], path: str
) -> None:
    name = models[2].id
    body = {"model": name, "ttl": 0.05} | (ASK if path != LOAD else {})
    assert several.send("POST", path, body).status == 200
    wait_until(lambda: entries(several)[name]["state"] == "not-loaded")
    assert several.send("POST", path, body | {"ttl": 3600}).status == 200
    assert entries(several)[name]["state"] == "loaded"
    there = several.send("GET", "/api/ps").json["models"]
    expires = {one["name"]: one["expires_at"] for one in there}
    assert not expires[f"{name}:latest"].startswith("2318")


def test_ttl_frees_a_model_of_vectors(several: Site, models: list[OfferedModel]) -> None:
    name = models[1].id
    for path in ("/v1/embeddings", "/api/v0/embeddings"):
        body = {"model": name, "input": "Hi", "ttl": 0}
        assert several.send("POST", path, body).status == 200
        wait_until(lambda: entries(several)[name]["state"] == "not-loaded")


def test_v0_answers_as_openais_routes(site: Site) -> None:
    chat = site.send("POST", "/api/v0/chat/completions", {"model": "m", **ASK}).json
    text = site.send("POST", "/api/v0/completions", {"prompt": "1\n", "max_tokens": 2}).json
    assert (chat["object"], text["object"]) == ("chat.completion", "text_completion")


@pytest.mark.parametrize(
    ("path", "body", "status", "kind", "param"),
    [
        (LOAD, {}, 400, "invalid_request", "model"),
        (LOAD, {"model": ""}, 400, "invalid_request", "model"),
        (LOAD, {"model": "other"}, 404, "model_not_found", "model"),
        (LOAD, {"model": "../demo-model"}, 404, "model_not_found", "model"),
        (LOAD, {"model": "demo-model", "ttl": -1}, 400, "invalid_request", "ttl"),
        (UNLOAD, {"instance_id": 5}, 400, "invalid_request", "instance_id"),
        (UNLOAD, {"instance_id": "other"}, 404, "model_not_found", "instance_id"),
        (DOWNLOAD, {"model": "ibm/granite-4-micro"}, 404, "model_not_found", "model"),
        ("/api/v1/models/download/status/job_1", {}, 404, "invalid_request", None),
        ("/api/v1/chat", {"model": "m", "input": "Hi"}, 404, "invalid_request", None),
    ],
)
def test_refusal_is_in_lm_studios_shape(
    site: Site, path: str, body: dict[str, Any], status: int, kind: str, param: str | None
) -> None:
    reply = site.send("POST", path, body)
    assert reply.status == status, reply.body
    assert reply.json["error"]["type"] == kind
    assert reply.json["error"].get("param") == param
    check(answer_schema(LOAD, status="default"), reply.json)


def test_unknown_names_of_several_models_are_named(several: Site) -> None:
    for path, body in ((LOAD, {"model": "x"}), (UNLOAD, {"instance_id": "x"})):
        reply = several.send("POST", path, body)
        assert (reply.status, reply.json["error"]["param"]) == (404, next(iter(body)))


def test_download_of_a_model_that_is_here_is_done(site: Site) -> None:
    reply = site.send("POST", DOWNLOAD, {"model": "demo-model"})
    assert reply.json == {"status": "already_downloaded"}
    other = site.send("POST", DOWNLOAD, {"model": "other"})
    assert "fullstop models download" in other.json["error"]["message"]


def test_key_is_required_to_load_and_unload(serve: Callable[..., Site]) -> None:
    site = serve(api_key="secret")
    for path, body in ((LOAD, {"model": "demo-model"}), (UNLOAD, {"instance_id": "demo-model"})):
        assert site.send("POST", path, body).status == 401
    assert site.send("GET", "/api/v1/models").status == 401
    assert site.engine.status.is_loaded


@pytest.mark.parametrize("damage", ["gone", "unreadable", "broken"])
def test_lists_survive_a_damaged_folder(
    serve: Callable[..., Site], demo_model_path: Path, tmp_path: Path, damage: str
) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(demo_model_path, folder)
    model = offered(folder)
    if damage == "gone":
        shutil.rmtree(folder)
    elif damage == "unreadable":
        shutil.rmtree(folder)
        folder.write_bytes(b"")
    else:
        for file in folder.iterdir():
            if file.is_file():
                file.write_bytes(b"\xff\x00{")
    with closing(Engine()) as engine:
        engine.offer([model])
        site = serve(engine)
        for path in ("/v1/models", "/api/v0/models", "/api/v1/models", "/api/tags"):
            listed = site.send("GET", path)
            assert listed.status == 200
            [entries] = [value for value in listed.json.values() if isinstance(value, list)]
            assert len(entries) == 1
        loading = site.send("POST", LOAD, {"model": "damaged"})
        assert (loading.status, loading.json["error"]["type"]) == (503, "unknown")
        assert "damaged" in loading.json["error"]["message"]


def test_openai_list_has_the_facts_and_anthropics_has_its_own(several: Site) -> None:
    plain, vectors, reranker = several.send("GET", "/v1/models").json["data"]
    assert plain["capabilities"] == ["completion", "tools", "thinking"]
    assert (vectors["capabilities"], reranker["capabilities"]) == (["embedding"], ["rerank"])
    assert plain["type"] == vectors["type"] == "model"
    assert (plain["quantization"], plain["state"], plain["arch"]) == ("F32", "loaded", "qwen3")
    assert plain["max_model_len"] == plain["loaded_context_length"] == 32_768
    version = {"anthropic-version": "2023-06-01"}
    for path in ("/v1/models", f"/v1/models/{plain['id']}"):
        listed = several.send("GET", path, headers=version).json
        first = listed["data"][0] if "data" in listed else listed
        assert (first["type"], first["max_input_tokens"]) == ("model", 32_768)
        assert "capabilities" not in first
    tags = several.send("GET", "/api/tags").json["models"]
    assert [one["capabilities"] for one in tags] == [
        plain["capabilities"], ["embedding"], ["rerank"],
    ]  # fmt: skip
