"""Texts as vectors, through the vendors' own clients, on the demo model."""

import base64
import math
import time
from array import array
from typing import Any

import pytest

from tests.api.dialects.documented import answer_schema, check, check_request

TEXTS = ["Paris", "The weather in Oslo", "x"]
OPENAI, OLLAMA, OLD = "/v1/embeddings", "/api/embed", "/api/embeddings"


def distance(one: Any, other: Any) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def test_openais_client_gets_the_vectors_in_both_encodings(openai_client: Any) -> None:
    texts = openai_client.embeddings.create(model="text-embedding-3-small", input=TEXTS)
    numbers = openai_client.embeddings.create(model="m", input=TEXTS, encoding_format="float")

    assert [one.index for one in texts.data] == [0, 1, 2]
    assert texts.model == "demo-model"
    assert texts.usage.prompt_tokens == texts.usage.total_tokens > 3
    for one, other in zip(texts.data, numbers.data, strict=True):
        assert math.isclose(math.hypot(*one.embedding), 1.0, rel_tol=1e-5)
        assert distance(one.embedding, other.embedding) < 1e-5


def test_ollamas_client_gets_the_same_vectors(ollama_client: Any, openai_client: Any) -> None:
    other = ollama_client
    found = other.embed(model="nomic-embed-text", input=TEXTS, dimensions=8)
    expected = openai_client.embeddings.create(model="m", input=TEXTS, dimensions=8)

    assert found.model == "nomic-embed-text"
    assert found.prompt_eval_count == expected.usage.prompt_tokens
    for vector, one in zip(found.embeddings, expected.data, strict=True):
        assert len(vector) == 8
        assert distance(vector, one.embedding) < 1e-5
    single = other.embed(model="m", input="Paris").embeddings[0]
    assert distance(other.embeddings(model="m", prompt="Paris").embedding, single) < 1e-5


def test_token_ids_are_a_text(site: Any, openai_client: Any) -> None:
    tokens = site.send("POST", "/tokenize", {"prompt": "Paris"}).json["tokens"]
    text = openai_client.embeddings.create(model="m", input="Paris")
    for ids in (tokens, [tokens], [tokens, [5]]):
        found = openai_client.embeddings.create(model="m", input=ids)
        assert distance(found.data[0].embedding, text.data[0].embedding) < 1e-5
        assert len(found.data) == (2 if len(ids) == 2 and ids[0] == tokens else 1)


def test_base64_holds_little_endian_floats(site: Any) -> None:
    asked = {"input": "Paris"}
    text = site.send("POST", OPENAI, asked | {"encoding_format": "base64"}).json
    numbers = site.send("POST", OPENAI, asked).json
    vector = array("f", base64.b64decode(text["data"][0]["embedding"]))
    assert distance(vector, numbers["data"][0]["embedding"]) < 1e-6


def test_ollama_loads_the_model_where_there_is_no_text(site: Any) -> None:
    for sent in ({}, {"input": ""}, {"input": []}, {"input": None}):
        reply = site.send("POST", OLLAMA, {"model": "m", **sent})
        assert (reply.status, reply.json["embeddings"]) == (200, [])
    assert site.send("POST", OLD, {"model": "m"}).json == {"embedding": []}


@pytest.mark.parametrize(("path", "key"), [(OPENAI, "data"), (OLLAMA, "embeddings")])
def test_an_empty_text_does_not_fail_a_batch_of_embeddings(site: Any, path: str, key: str) -> None:
    made = site.send("POST", path, {"model": "m", "input": ["a", "", " "]}).json[key]
    vectors = [one["embedding"] if isinstance(one, dict) else one for one in made]
    assert [len(vector) for vector in vectors] == [128, 128, 128]
    assert distance(vectors[1], vectors[2]) < 1e-5


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        (OPENAI, {}, "input"),
        (OPENAI, {"input": []}, "input"),
        (OPENAI, {"input": 5}, "input"),
        (OPENAI, {"input": [1 << 20]}, "input[0][0]"),
        (OPENAI, {"input": "a", "dimensions": 0}, "dimensions"),
        (OPENAI, {"input": "a", "dimensions": 129}, "at most 128"),
        (OPENAI, {"input": "a", "encoding_format": "int8"}, "encoding_format"),
        (OPENAI, {"input": "a", "normalize": False}, "normalize"),
        (OPENAI, {"input": "word " * 40_000}, "32768"),
        (OLLAMA, {"input": "word " * 40_000, "truncate": False}, "too long"),
        (OLLAMA, {"input": [1]}, "input"),
        (OLLAMA, {"input": "a", "keep_alive": "soon"}, "keep_alive"),
    ],
)
def test_what_has_no_vector_is_refused_by_name(
    site: Any, path: str, body: dict[str, Any], named: str
) -> None:
    reply = site.send("POST", path, {"model": "m", **body})
    assert reply.status == 400
    assert named in reply.body.decode()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (OPENAI, {"input": "a"}),
        (OPENAI, {"input": ["a", "b"], "encoding_format": "base64", "dimensions": 4.0}),
        (OPENAI, {"input": [[5], [6, 7]], "user": "me"}),
        (OLLAMA, {"input": ["a", "b"], "options": {"num_ctx": 5}, "keep_alive": "5m"}),
        (OLD, {"prompt": "a"}),
    ],
)
def test_requests_and_answers_are_as_documented(site: Any, path: str, body: dict[str, Any]) -> None:
    check_request(path, body)
    reply = site.send("POST", path, body)
    assert reply.status == 200, reply.body
    check(answer_schema(path), reply.json)


def test_a_large_body_has_all_its_vectors(site: Any) -> None:
    texts = [f"{number}" for number in range(100)]
    reply = site.send("POST", OPENAI, {"input": texts, "user": "x" * 1_100_000})
    assert [one["index"] for one in reply.json["data"]] == list(range(100))


def test_a_strict_server_and_one_of_several_models_check_the_name(serve: Any) -> None:
    strict = serve(strict=True)
    for path, body in ((OPENAI, {"input": "a"}), (OLLAMA, {"input": "a"})):
        assert strict.send("POST", path, body | {"model": "other"}).status == 404
        assert strict.send("POST", path, body | {"model": "demo-model"}).status == 200


def test_reading_ends_when_the_client_leaves(site: Any) -> None:
    texts = ["The weather in Oslo is fine today. " * 9] * 60
    exchange = site.open("POST", OPENAI, {"input": texts}, waits=False)
    ends_at = time.monotonic() + 60
    while not site.engine.status.waiting:
        assert time.monotonic() < ends_at
        time.sleep(0.005)
    exchange.close()
    while site.engine.status.waiting:
        assert time.monotonic() < ends_at
        time.sleep(0.005)
