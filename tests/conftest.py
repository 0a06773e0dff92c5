"""Fixtures that every test folder shares: the demo model and a real engine that has loaded it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.service import Engine

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def demo_model_path() -> Path:
    return ROOT / "assets" / "demo-model"


@pytest.fixture(scope="session")
def engine(demo_model_path: Path) -> Iterator[Engine]:
    """One engine for the whole run: it is used from many loops, as in the product."""
    engine = Engine()
    asyncio.run(engine.load(demo_model_path))
    yield engine
    engine.close()
