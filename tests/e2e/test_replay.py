import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.cli import main

COUNT = "Count from 1 to 10, one number per line"


@pytest.fixture(scope="module")
def saved_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the demo model that ended before 9."""
    path = tmp_path_factory.mktemp("runs") / "run.json"
    assert main(["ask", COUNT, "--stop", "9", "--save-run", str(path), "--json"]) == 0
    return path


@pytest.fixture
def replayed(saved_run: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """Replays the saved run and returns its object."""
    capfd.readouterr()

    def run(*words: str) -> dict[str, Any]:
        assert main(["replay", str(saved_run), *words, "--json"]) == 0
        shown: dict[str, Any] = json.loads(capfd.readouterr().out)
        return shown

    return run


def test_replay_with_own_stops(replayed: Callable[..., Any]) -> None:
    again = replayed()
    assert again["text"] == "1\n2\n3\n4\n5\n6\n7\n8\n"
    assert (again["stop"]["kind"], again["stop"]["value"]) == ("stop_string", "9")


def test_replay_with_other_stops(
    replayed: Callable[..., Any], capfd: pytest.CaptureFixture[str]
) -> None:
    again = replayed("--stop", r"3\n4", "--escapes")
    assert main(["ask", COUNT, "--stop", "3\n4", "--json"]) == 0
    real = json.loads(capfd.readouterr().out)
    assert (again["text"], again["stop"]) == (real["text"], real["stop"])
    assert again["output_tokens"] == real["usage"]["output_tokens"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "cannot be read"), (b"{", "not a saved run"), (b"\xff", "UTF-8"), (b"[]", "run.json")],
)
def test_replay_of_invalid_file(
    content: bytes | None, reason: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.json"
    if content is not None:
        path.write_bytes(content)
    assert main(["replay", str(path)]) == 1
    captured = capfd.readouterr()
    assert captured.out == ""
    assert str(path) in captured.err
    assert reason in captured.err


def test_replay_of_a_limit_says_who_set_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "run.json")
    assert main(["ask", COUNT, "--max-tokens", "3", "--save-run", path]) == 0
    assert main(["replay", path]) == 0
    end = "[Reached the limit of 3 tokens, set by an option of the command · "
    assert capfd.readouterr().err.count(end) == 2
