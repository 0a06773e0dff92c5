"""A model whose logits are not numbers is named in an error, in every dialect."""

import math
from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import pytest

from tests.api.conftest import Site, acting
from tests.api.questions import PATHS, question
from tests.support.scripted import ScriptedModel, Stage

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
@pytest.mark.parametrize("path", PATHS)
def test_error_names_the_model(
    spoiled: tuple[Site, SpoiledModel], path: str, sampling: dict[str, Any]
) -> None:
    site, model = spoiled
    model.after = 0
    body = question(path, "go", 9, **sampling) | {"stream": False}
    reply = site.send("POST", path, body)
    assert reply.status == 500
    assert b"scripted computed values that are not numbers" in reply.body


def test_embeddings_that_are_not_numbers_are_an_error(spoiled: tuple[Site, SpoiledModel]) -> None:
    reply = spoiled[0].send("POST", "/v1/embeddings", {"model": "m", "input": "go"})
    assert reply.status == 500
    assert b"scripted computed values" in reply.body
