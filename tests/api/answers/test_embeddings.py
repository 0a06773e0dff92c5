"""Texts as vectors, through the vendors' own clients, on the demo model."""

import math
from typing import Any

import pytest

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


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        (OPENAI, {"input": []}, "input"),
        (OPENAI, {"input": [1 << 20]}, "input[0][0]"),
        (OPENAI, {"input": "a", "dimensions": 0}, "dimensions"),
        (OPENAI, {"input": "a", "dimensions": 129}, "at most 128"),
        (OPENAI, {"input": "a", "normalize": False}, "normalize"),
        (OPENAI, {"input": "word " * 40_000}, "32768"),
        (OLLAMA, {"input": "word " * 40_000, "truncate": False}, "too long"),
        (OLLAMA, {"input": "a", "keep_alive": "soon"}, "keep_alive"),
    ],
)
def test_what_has_no_vector_is_refused_by_name(
    site: Any, path: str, body: dict[str, Any], named: str
) -> None:
    reply = site.send("POST", path, {"model": "m", **body})
    assert reply.status == 400
    assert named in reply.body.decode()


def test_a_strict_server_and_one_of_several_models_check_the_name(serve: Any) -> None:
    strict = serve(strict=True)
    for path, body in ((OPENAI, {"input": "a"}), (OLLAMA, {"input": "a"})):
        assert strict.send("POST", path, body | {"model": "other"}).status == 404
        assert strict.send("POST", path, body | {"model": "demo-model"}).status == 200
