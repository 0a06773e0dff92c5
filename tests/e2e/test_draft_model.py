"""``--draft-model`` and ``--plain-decoding``: guesses by a second model, and no guesses."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from tests.e2e.conftest import read_json
from tests.support.several.draft_models import swap_tokens, write_draft

pytestmark = pytest.mark.long

COUNT = "Count from 1 to 10, one number per line"
# The place from which every setting is read is tested in tests/app/settings.


@pytest.fixture
def small(tmp_path: Path, demo_model_path: Path) -> Path:
    """A draft model of the demo model."""
    return write_draft(tmp_path / "small", demo_model_path, layers=1)


@pytest.fixture
def foreign(tmp_path: Path, demo_model_path: Path) -> Path:
    folder = write_draft(tmp_path / "foreign", demo_model_path, layers=1)
    swap_tokens(folder, 300, 301)
    return folder


def test_the_models_route_names_the_draft_model(serve: Callable[..., Any], small: Path) -> None:
    server = serve("--port", "0", "--draft-model", str(small))
    [model] = read_json(f"{server.wait_until_ready()}/v1/models")["data"]
    assert model["draft_model"] == "small"
    assert server.end() == 0


def test_a_server_refuses_a_draft_model_with_another_vocabulary_in_words(
    program: Callable[..., subprocess.CompletedProcess[str]], foreign: Path
) -> None:
    ended = program("serve", "--port", "0", "--draft-model", str(foreign))
    assert ended.returncode == 1
    assert "foreign cannot be the draft model of demo-model: their vocabularies" in ended.stderr
    assert "--draft-model takes" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("words", [("serve", "--port", "0"), ("ask", COUNT), ()])
def test_a_draft_model_is_refused_if_guesses_are_switched_off(
    capfd: pytest.CaptureFixture[str], small: Path, words: tuple[str, ...]
) -> None:
    assert main([*words, "--plain-decoding", "--draft-model", str(small)]) == 2
    assert "--plain-decoding" in capfd.readouterr().err
