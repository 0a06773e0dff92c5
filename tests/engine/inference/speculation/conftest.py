"""Draft models of the demo model, and an engine that loads them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.inference import drafts
from engine.inference.mlx_backend import MlxBackend
from engine.inference.speculation import head_drafts
from engine.values.limits import Limits
from tests.support.models.guessing import verify_all_drafts
from tests.support.several.draft_models import write_draft


@pytest.fixture(autouse=True)
def _several_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draft for more rows than by default."""
    for module in (drafts, head_drafts):
        monkeypatch.setattr(module, "MAX_ROWS", 8)


@pytest.fixture(scope="module")
def perfect(tmp_path_factory: pytest.TempPathFactory, demo_model_path: Path) -> Path:
    """A draft model that guesses everything right."""
    return write_draft(tmp_path_factory.mktemp("drafts") / "perfect", demo_model_path)


@pytest.fixture(scope="module")
def poor(tmp_path_factory: pytest.TempPathFactory, demo_model_path: Path) -> Path:
    """A draft model that is nearly always wrong."""
    return write_draft(tmp_path_factory.mktemp("drafts") / "poor", demo_model_path, layers=1)


@pytest.fixture
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing but draft models guess."""
    monkeypatch.setattr(MlxBackend, "sources", lambda *_: [])


@pytest.fixture
def _eager(_alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all guesses of draft models checked."""
    verify_all_drafts(monkeypatch, 8)


@pytest.fixture
def loop_engine() -> Iterator[tuple[asyncio.Runner, Engine]]:
    with asyncio.Runner() as runner:
        engine = Engine(Limits())
        yield runner, engine
        engine.close()
