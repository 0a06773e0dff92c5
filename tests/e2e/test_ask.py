import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

from app.cli import main

REPOSITORY = Path(__file__).parents[2]

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(capfd: pytest.CaptureFixture[str]) -> Ask:
    """Runs ``fullstop ask … --json`` in this process and returns its object."""

    def run(*words: str) -> dict[str, Any]:
        code = main(["ask", *words, "--json"])
        captured = capfd.readouterr()
        assert (code, captured.err) == (0, "")
        answer: dict[str, Any] = json.loads(captured.out)
        return answer

    return run


def arguments(row: Any) -> list[str]:
    words = [row.prompt]
    if row.stop is not None:
        words += ["--stop", row.stop]
    if row.max_tokens is not None:
        words += ["--max-tokens", str(row.max_tokens)]
    return words


def test_ask_acceptance_table(ask: Ask, row: Any) -> None:
    answer = ask(*arguments(row))
    stop, usage = answer["stop"], answer["usage"]
    assert (answer["text"], answer["thinking"]) == (row.text, "")
    assert (stop["kind"], stop["value"]) == (row.kind, row.value)
    assert {"token_id", "token_text", "channel", "held", "dropped"} <= stop.keys()
    assert stop["text_offset"] == len(row.text)
    assert stop["token_index"] == usage["output_tokens"] - 1
    assert usage["output_tokens"] == (row.max_tokens or usage["output_tokens"])
    assert stop["dropped"].startswith(row.value or "")
    assert 0 < answer["timing"]["first_token_s"] <= answer["timing"]["total_s"]
    assert {"passes", "guessed", "accepted", "forced"} <= answer["speculation"].keys()


def test_ask_output_streams(
    program: Callable[..., Any],
) -> None:
    done = program("ask", "Count from 1 to 10, one number per line", "--stop", "6")
    assert (done.returncode, done.stdout) == (0, "1\n2\n3\n4\n5\n")
    assert done.stderr.startswith("[Stopped by “6” after 10 characters · ")
    assert done.stderr.count("\n") == 1


def test_ask_closed_pipe(headless: dict[str, str]) -> None:
    asked = "-m app ask 'Count from 1 to 100' --ignore-eos 2>/dev/null"
    line = f"'{sys.executable}' {asked} | head -c 4"
    output, code = pexpect.run(
        f'bash -o pipefail -c "{line}"',
        cwd=str(REPOSITORY),
        env=headless,
        timeout=120,
        withexitstatus=True,
    )
    assert b"Traceback" not in output
    assert output == b"1, 2"
    assert code in (0, 141)


def test_ask_ctrl_c(headless: dict[str, str]) -> None:
    words = ["-m", "app", "ask", "Count from 1 to 100", "--ignore-eos"]
    child = pexpect.spawn(
        sys.executable, words, cwd=str(REPOSITORY), env=headless, encoding="utf-8", timeout=30
    )
    child.expect("2, 3,")
    child.sendintr()
    child.expect(r"\[Cancelled after ([\d,]+) tokens")
    assert int(child.match.group(1).replace(",", "")) < 2000
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
