"""``--draft-model`` and ``--plain-decoding``: guesses by a second model, and no guesses."""

import json
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.several.draft_models import swap_tokens, write_draft

Program = Callable[..., subprocess.CompletedProcess[str]]
COUNT = "Count from 1 to 10, one number per line"


@pytest.fixture
def small(tmp_path: Path, demo_model_path: Path) -> Path:
    """A draft model of the demo model."""
    return write_draft(tmp_path / "small", demo_model_path, layers=1)


@pytest.fixture
def foreign(tmp_path: Path, demo_model_path: Path) -> Path:
    """A model with another vocabulary."""
    folder = write_draft(tmp_path / "foreign", demo_model_path, layers=1)
    swap_tokens(folder, 300, 301)
    return folder


def draft_of(address: str) -> str | None:
    with urllib.request.urlopen(f"{address}/v1/models", timeout=60) as answer:
        [model] = json.load(answer)["data"]
    draft: str | None = model["draft_model"]
    return draft


@pytest.mark.parametrize("place", ["option", "environment", "file", "nowhere"])
def test_the_models_route_names_the_draft_model(
    serve: Callable[..., Any], tmp_path: Path, small: Path, place: str
) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(f"draft_model = {json.dumps(str(small))}\n" if place == "file" else "")
    words = ["--draft-model", str(small)] if place == "option" else []
    settings = {"FULLSTOP_DRAFT_MODEL": str(small)} if place == "environment" else {}
    server = serve("--port", "0", "--settings", str(file), *words, **settings)
    assert draft_of(server.wait_until_ready()) == (None if place == "nowhere" else "small")
    assert server.end() == 0


def test_an_answer_is_the_same_with_a_draft_model(program: Program, small: Path) -> None:
    plain, drafted = (
        program("ask", COUNT, "--temperature", "0", *words)
        for words in ((), ("--draft-model", str(small)))
    )
    assert drafted.returncode == 0, drafted.stderr
    assert drafted.stdout == plain.stdout


@pytest.mark.parametrize("command", ["ask", "serve"])
def test_a_draft_model_with_another_vocabulary_is_refused_in_words(
    program: Program, foreign: Path, command: str
) -> None:
    words = [COUNT] if command == "ask" else ["--port", "0"]
    ended = program(command, *words, "--draft-model", str(foreign))
    assert ended.returncode == 1
    said = ended.stderr
    assert "foreign cannot be the draft model of demo-model: their vocabularies differ" in said
    assert "--draft-model takes" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("words", [("serve", "--port", "0"), ("ask", COUNT), ()])
def test_a_draft_model_is_refused_if_guesses_are_switched_off(
    program: Program, small: Path, words: tuple[str, ...]
) -> None:
    ended = program(*words, "--plain-decoding", "--draft-model", str(small))
    assert ended.returncode == 2
    assert "--plain-decoding" in ended.stderr


def test_an_answer_without_guesses_has_the_same_text(program: Program) -> None:
    ask = ("ask", "Repeat exactly: " + "one two three four five six " * 3, "--json")
    guessed, plain = (
        json.loads(program(*ask, "--temperature", "0", "--max-tokens", "96", *words).stdout)
        for words in ((), ("--plain-decoding",))
    )
    assert plain["text"] == guessed["text"]
    assert plain["speculation"]["passes"] == plain["speculation"]["guessed"] == 0
