"""``--repetition-detection`` of ``ask``, ``replay`` and ``serve``, with the demo model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from tests.e2e.conftest import read_json

COUNT = "Count from 1 to 30, one number per line"
TWICE = "max_pattern_size=1,min_count=2"  # the demo model writes 11 as two equal tokens
CYCLE = {"period": 1, "copies": 2, "token_index": 21}


def printed(capfd: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main([*words, "--json"]) == 0
    return json.loads(capfd.readouterr().out)


def test_ask_ends_a_repetition_and_replay_tries_others(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "run.json")
    detection = ("--repetition-detection", TWICE)
    given = printed(capfd, "ask", COUNT, *detection, "--save-run", file)
    assert given["text"].endswith("\n9\n10\n11")
    assert given["stop"]["kind"] == "repetition"
    assert given["repetition"] == CYCLE

    again = printed(capfd, "replay", file)
    assert (again["stop"], again["repetition"]) == (given["stop"], CYCLE)
    assert printed(capfd, "replay", file, "--repetition-detection", "off")["stop"] is None
    later = printed(capfd, "replay", file, "--repetition-detection", '{"max_pattern_size": 1}')
    assert later["stop"] == given["stop"]

    assert main(["ask", COUNT, *detection]) == 0
    assert "[Repeated itself: the last 2 tokens are the same token · " in capfd.readouterr().err


def test_replay_finds_a_repetition_that_the_run_did_not_end_with(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "run.json")
    given = printed(capfd, "ask", COUNT, "--save-run", file)
    assert "repetition" not in given
    assert given["text"].endswith("\n29\n30")
    tried = printed(capfd, "replay", file, "--repetition-detection", TWICE)
    assert tried["text"].endswith("\n9\n10\n11")
    assert tried["repetition"] == CYCLE
    assert printed(capfd, "replay", file, "--repetition-detection", "on")["text"] == given["text"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("maybe", "neither on, off nor figures"),
        ("max_pattern_size=2,min_count=1", "min_count must be 2 to"),
        ("max_pattern_size=2,window=1", "neither on, off nor figures"),
        ("min_count=2", "neither on, off nor figures"),
        ('{"max_pattern_size": 2.5}', "neither on, off nor figures"),
        ('{"max_pattern_size":', "neither on, off nor figures"),
    ],
)
@pytest.mark.parametrize("command", [("ask", "hi"), ("serve",)])
def test_wrong_figures_are_usage_errors(
    command: tuple[str, ...], text: str, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--repetition-detection", text]) == 2
    assert f"--repetition-detection: {reason}" in capfd.readouterr().err.replace(f"{text} is ", "")


def test_serve_option_counts_for_requests_without_their_own(
    serve: Callable[..., Any],
) -> None:
    server = serve("--port", "0", "--repetition-detection", TWICE)
    address = server.wait_until_ready()

    def end_of(**fields: Any) -> Any:
        body = {"messages": [{"role": "user", "content": COUNT}], "temperature": 0, **fields}
        [choice] = read_json(f"{address}/v1/chat/completions", body)["choices"]
        return choice["finish_reason"]

    assert end_of() == "repetition"
    assert end_of(repetition_detection={"max_pattern_size": 0}) == "stop"
    assert server.end() == 0
