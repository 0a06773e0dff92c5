"""Documents ranked and scored, as the clients of Jina, Cohere, vLLM and llama.cpp ask for it."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.engine import Engine
from tests.api.conftest import Site
from tests.api.dialects.documented import answer_schema, check
from tests.engine.scheduling.stages import until
from tests.support.asking import run
from tests.support.models.rerankers import PlainReranker, write_reranker
from tests.support.several.offered_models import offered

QUERY = "What is the capital of China?"
DOCUMENTS = ["Count from 1 to 3", "The capital of China is Beijing.", "", "Gravity attracts."]
PATHS = ["/v1/rerank", "/rerank", "/v2/rerank", "/reranking", "/v1/reranking"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, demo_model_path: Path) -> Path:
    return write_reranker(tmp_path_factory.mktemp("reranker"), demo_model_path)


@pytest.fixture(scope="module")
def scores(folder: Path) -> list[float]:
    plain = PlainReranker(folder)
    return [plain.score(QUERY, document) for document in DOCUMENTS]


@pytest.fixture(scope="module")
def engine_of_reranker(folder: Path) -> Iterator[Engine]:
    with closing(Engine()) as engine:
        run(engine.load(folder))
        yield engine


@pytest.fixture
def ranking(serve: Callable[..., Site], engine_of_reranker: Engine) -> Site:
    return serve(engine_of_reranker)


def ranked(site: Site, path: str = "/v1/rerank", **more: Any) -> dict[str, Any]:
    body = {"model": "jina-reranker-v3", "query": QUERY, "documents": DOCUMENTS, **more}
    reply = site.send("POST", path, body)
    assert reply.status == 200, reply.body
    check(answer_schema(path), reply.json)
    found: dict[str, Any] = reply.json
    return found


@pytest.mark.parametrize("path", PATHS)
def test_documents_come_back_best_first(ranking: Site, scores: list[float], path: str) -> None:
    found = ranked(ranking, path)
    expected = sorted(range(len(scores)), key=lambda index: -scores[index])
    assert [one["index"] for one in found["results"]] == expected
    assert [one["relevance_score"] for one in found["results"]] == pytest.approx(
        [scores[index] for index in expected], abs=1e-5
    )
    assert found["model"] == "Qwen3-Reranker-Tiny"
    tokens = found["usage"]["prompt_tokens"]
    assert found["usage"]["total_tokens"] == found["meta"]["tokens"]["input_tokens"] == tokens > 99


def test_top_n_and_texts_follow_the_request(ranking: Site) -> None:
    objects = [{"text": text, "title": "x"} for text in DOCUMENTS]
    found = ranked(ranking, documents=objects, top_n=2)
    every = ranked(ranking, top_n=0)["results"]
    assert len(every) == len(DOCUMENTS)
    assert [one["index"] for one in found["results"]] == [one["index"] for one in every[:2]]
    for one in found["results"]:
        assert one["document"] == {"text": DOCUMENTS[one["index"]]}
    assert len(ranked(ranking, top_n=99)["results"]) == len(DOCUMENTS)
    assert every[0]["document"] == {"text": DOCUMENTS[every[0]["index"]]}
    assert "document" not in ranked(ranking, return_documents=False)["results"][0]


def test_instruction_changes_the_scores(ranking: Site, folder: Path) -> None:
    task = "Retrieve text about numbers"
    plain = PlainReranker(folder)
    for one in ranked(ranking, instruction=task)["results"]:
        expected = plain.score(QUERY, DOCUMENTS[one["index"]], task)
        assert one["relevance_score"] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("path", ["/score", "/v1/score"])
def test_scores_are_in_the_order_of_the_texts(
    ranking: Site, scores: list[float], path: str
) -> None:
    for first in (QUERY, [QUERY], [QUERY] * len(DOCUMENTS)):
        reply = ranking.send("POST", path, {"model": "m", "text_1": first, "text_2": DOCUMENTS})
        assert reply.status == 200, reply.body
        check(answer_schema(path), reply.json)
        assert [one["index"] for one in reply.json["data"]] == list(range(len(DOCUMENTS)))
        assert [one["score"] for one in reply.json["data"]] == pytest.approx(scores, abs=1e-5)
    named = ranking.send("POST", path, {"queries": QUERY, "documents": DOCUMENTS}).json["data"]
    assert [one["score"] for one in named] == pytest.approx(scores, abs=1e-5)
    alone = ranking.send("POST", path, {"text_1": QUERY, "text_2": DOCUMENTS[1]}).json["data"]
    assert alone == [{"index": 0, "object": "score", "score": pytest.approx(scores[1], abs=1e-5)}]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/rerank", {}, "query"),
        ("/v1/rerank", {"query": ""}, "query"),
        ("/v1/rerank", {"query": 5}, "query"),
        ("/v1/rerank", {"query": "a"}, "documents"),
        ("/v1/rerank", {"query": "a", "documents": "b"}, "documents"),
        ("/v1/rerank", {"query": "a", "documents": []}, "documents"),
        ("/v1/rerank", {"query": "a", "documents": ["b"] * 2049}, "documents"),
        ("/v1/rerank", {"query": "a", "documents": ["b", {"image": "x"}]}, "documents[1]"),
        ("/v1/rerank", {"query": "a", "documents": ["b", None]}, "documents[1]"),
        ("/v1/rerank", {"query": "a", "documents": ["b", "word " * 40_000]}, "documents[1]"),
        ("/v1/rerank", {"query": "a", "documents": ["b"], "top_n": -1}, "top_n"),
        ("/v2/rerank", {"query": "a", "documents": ["b"], "max_tokens_per_doc": 0},
         "max_tokens_per_doc"),
        ("/v1/rerank", {"query": "a", "documents": ["b"], "truncate_prompt_tokens": 5},
         "truncate_prompt_tokens"),
        ("/score", {"text_1": "a"}, "text_2"),
        ("/score", {"documents": "a"}, "queries"),
        ("/score", {"queries": "a", "documents": ["c", "word " * 40_000]}, "documents[1]"),
        ("/score", {"text_1": ["a", "b"], "text_2": ["c"] * 3}, "text_1"),
        ("/score", {"text_1": "a", "text_2": ["c", "word " * 40_000]}, "text_2[1]"),
    ],
)  # fmt: skip
def test_wrong_request_is_refused_by_field(
    ranking: Site, path: str, body: dict[str, Any], param: str
) -> None:
    reply = ranking.send("POST", path, {"model": "m", **body})
    assert reply.status == 400, reply.body
    check(answer_schema(path, status="default"), reply.json)
    assert reply.json["error"]["param"] == param
    # Cohere's client and LangChain's for Jina read these.
    assert reply.json["message"] == reply.json["detail"] == reply.json["error"]["message"]


def test_long_document_is_cut_on_request(ranking: Site) -> None:
    body = {"query": QUERY, "documents": ["word " * 40_000], "max_tokens_per_doc": 50}
    reply = ranking.send("POST", "/v2/rerank", body)
    assert reply.status == 200
    assert 50 < reply.json["usage"]["total_tokens"] < 300


def test_model_that_ranks_nothing_is_refused_before_loading(
    serve: Callable[..., Site], site: Site, folder: Path, demo_model_path: Path
) -> None:
    body = {"query": QUERY, "documents": DOCUMENTS}
    refused = site.send("POST", "/v1/rerank", body)
    assert (refused.status, refused.json["error"]["param"]) == (400, "model")
    assert "demo-model is not a reranker" in refused.json["message"]
    with closing(Engine()) as engine:
        engine.offer([offered(folder), offered(demo_model_path)])
        several = serve(engine)
        assert several.send("POST", "/v1/rerank", body | {"model": "demo-model"}).status == 400
        assert not any(model.is_loaded for model in engine.models)
        assert several.send("POST", "/v1/rerank", body | {"model": "rerank-v3.5"}).status == 404
        named = body | {"model": "qwen3-reranker-tiny"}
        assert several.send("POST", "/v1/rerank", named).status == 200


def test_strict_server_checks_the_name_and_key(
    serve: Callable[..., Site], engine_of_reranker: Engine
) -> None:
    site = serve(engine_of_reranker, strict=True, api_key="secret")
    body = {"query": QUERY, "documents": DOCUMENTS, "model": "other"}
    assert site.send("POST", "/v1/rerank", body).status == 401
    key = {"Authorization": "Bearer secret"}
    assert site.send("POST", "/v1/rerank", body, key).status == 404


async def test_ranking_ends_when_the_client_leaves(ranking: Site) -> None:
    body = {"query": QUERY, "documents": ["word " * 300] * 2000}
    with closing(ranking.open("POST", "/v1/rerank", body, waits=False)):
        await until(lambda: ranking.engine.status.waiting > 0)
    await until(lambda: ranking.engine.status.waiting == 0)
