import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

from app.cli import main
from engine.recording.saved_run import from_json
from engine.values.events import BudgetEnd
from engine.values.tokens import TokenOrigin

REPOSITORY = Path(__file__).parents[2]

LONG = "word " * 20_000

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


def test_ask_thinking_budget(ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    given = ask(
        *("Count from 1 to 5", "--thinking", "--thinking-budget", "6", "--max-tokens", "60"),
        *("--save-run", str(file)),
    )
    assert given["budget_end"] == {"token_index": 7, "forced": 3, "budget": 6}
    assert given["usage"]["thinking_tokens"] == 9  # includes both tags and the end of the line
    saved = from_json(file.read_text())
    assert saved.budget_end == BudgetEnd(7, 3, 6)
    forced = [one.token_id for one in saved.tokens if one.origin is TokenOrigin.BUDGET]
    assert forced == [one.token_id for one in list(saved.tokens)[7:10]]


def test_ask_output_streams(
    program: Callable[..., Any],
) -> None:
    done = program("ask", "Count from 1 to 10, one number per line", "--stop", "6")
    assert (done.returncode, done.stdout) == (0, "1\n2\n3\n4\n5\n")
    assert done.stderr.startswith("[Stopped by “6” after 10 characters · ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("prompt", "answer"), [("Count from 1 to 3, one number per line\n", "1\n2\n3\n"), (LONG, "")]
)
def test_ask_prompt_from_stdin(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], prompt: str, answer: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(prompt.encode())))
    assert main(["ask", "-", "--max-tokens", "100"]) == (0 if answer else 2)
    captured = capfd.readouterr()
    assert captured.out == answer
    if not answer:
        assert captured.err.startswith("fullstop: messages: the prompt has")
        assert captured.err.count("\n") == 1


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
