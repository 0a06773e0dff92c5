"""A batch that is stepped by hand, on a model of each kind of cache."""

from collections.abc import Iterator

import pytest

from engine.inference.shared_beginnings import SharedBeginnings
from tests.engine.inference.batching.stepped import Stepped
from tests.support.models.tiny_models import KINDS


@pytest.fixture
def few_tokens_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tiny prompts be shared."""
    monkeypatch.setattr(SharedBeginnings, "worth_tokens", 4)


@pytest.fixture(params=sorted(KINDS))
def stepped(request: pytest.FixtureRequest) -> Iterator[Stepped]:
    made = Stepped(request.param)
    yield made
    made.batch.close()
