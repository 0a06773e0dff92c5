"""A model whose logits are not numbers is named in an error, in every dialect."""

import math
from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import pytest

from tests.api.conftest import Site, acting
from tests.support.scripted import END, GO, START, ScriptedModel, Stage

RAW = f"{START}user:go{END}{GO}"
USER = [{"role": "user", "content": "go"}]
ASKS: dict[str, dict[str, Any]] = {
    "/v1/messages": {"max_tokens": 9, "messages": USER},
    "/v1/chat/completions": {"max_tokens": 9, "messages": USER},
    "/v1/completions": {"max_tokens": 9, "prompt": RAW},
    "/v1/responses": {"max_output_tokens": 9, "input": "go"},
    "/generate": {"text": RAW, "sampling_params": {"max_new_tokens": 9}},
    "/api/chat": {"messages": USER},
    "/api/generate": {"prompt": "go"},
}
SAMPLING = [{"temperature": 0}, {"temperature": 1}, {"temperature": 1, "top_p": 0.5, "seed": 3}]


class SpoiledModel(ScriptedModel):
    """Computes NaN for one id of the vocabulary from some history on."""

    after = 0

    def __call__(self, inputs: mx.array, cache: Any = None) -> mx.array:
        logits = super().__call__(inputs, cache)
        if cache[0].size() <= self.after:
            return logits
        return mx.where(mx.arange(logits.shape[-1]) == 7, math.nan, logits)

    def model(self, inputs: mx.array, cache: Any = None) -> mx.array:
        return super().model(inputs, cache) * math.nan


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, SpoiledModel]]:
    stage = Stage(tmp_path_factory.mktemp("spoiled"), {"go": ["a", "b", "c", "d"]})
    stage.model.__class__ = SpoiledModel
    with acting(stage) as (site, _):
        assert isinstance(stage.model, SpoiledModel)
        yield site, stage.model


@pytest.mark.parametrize("sampling", SAMPLING, ids=["greedy", "drawn", "seeded"])
@pytest.mark.parametrize("path", ASKS)
def test_error_names_the_model(
    spoiled: tuple[Site, SpoiledModel], path: str, sampling: dict[str, Any]
) -> None:
    site, model = spoiled
    model.after = 0
    inner = {"/generate": "sampling_params", "/api/chat": "options", "/api/generate": "options"}
    body = {"model": "m", "stream": False, **ASKS[path]}
    if path in inner:
        body[inner[path]] = {**body.get(inner[path], {}), **sampling}
    else:
        body |= sampling
    reply = site.send("POST", path, body)
    assert reply.status == 500
    assert b"scripted computed values that are not numbers" in reply.body


def test_embeddings_that_are_not_numbers_are_an_error(spoiled: tuple[Site, SpoiledModel]) -> None:
    reply = spoiled[0].send("POST", "/v1/embeddings", {"model": "m", "input": "go"})
    assert reply.status == 500
    assert b"scripted computed values" in reply.body
