"""Loads the demo model once for these tests, and makes its training modules importable."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "assets" / "demo-model"


@pytest.fixture(scope="session")
def folder() -> Path:
    """Return the model directory."""
    return FOLDER


@pytest.fixture(scope="session")
def training_modules() -> Iterator[None]:
    """Put the training modules on the path while these tests run."""
    sys.path.insert(0, str(FOLDER / "training"))
    yield
    sys.path.remove(str(FOLDER / "training"))


@pytest.fixture(scope="session")
def answering(training_modules: None) -> Any:
    """Return the real model, ready to answer conversations in batches."""
    from answering import Answering

    return Answering(FOLDER)


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    """Return the tokenizer as mlx-lm wraps it."""
    from mlx_lm.tokenizer_utils import load

    return load(FOLDER)
