"""``fullstop inspect`` and ``fullstop probe``, run as programs against running servers."""

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from api.conformance.probe.dialects import DRIVERS
from api.conformance.probe.values import Level
from app.cli import main
from app.settings.probe_options import DIALECTS, LEVELS

pytestmark = pytest.mark.long
Program = Callable[..., subprocess.CompletedProcess[str]]

LEAKED = (
    "event: message_start\n"
    'data: {"type":"message_start","message":{"usage":{"input_tokens":1}}}\n\n'
    'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"stop_sequence",'
    '"stop_sequence":null},"usage":{"output_tokens":1}}\n\n'
    'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)
FINE = LEAKED.replace('"stop_sequence":null', '"stop_sequence":"END"')


# -- inspect ----------------------------------------------------------------------------------


def test_inspect_names_the_faults_and_reports_them_in_its_exit_code(
    program: Program, tmp_path: Path
) -> None:
    file = tmp_path / "answer.txt"
    file.write_text(LEAKED)
    done = program("inspect", str(file), "--stop", "END")
    assert (done.returncode, done.stderr) == (1, "")
    assert "ERROR sequence_null: " in done.stdout
    file.write_text(FINE)
    done = program("inspect", str(file), "--stop", "END")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Nothing is wrong with it." in done.stdout


def test_inspect_reads_standard_input_and_writes_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = inspected(monkeypatch, capsys, LEAKED, "-", "--json")
    assert code == 1
    [shown] = json.loads(out)["answers"]
    assert (shown["dialect"], shown["is_streamed"]) == ("messages", True)
    assert [one["code"] for one in shown["findings"]] == ["sequence_null"]


def inspected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stdin: str, *words: str
) -> tuple[int, str, str]:
    """Return the exit code and the two outputs of ``fullstop inspect``."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
    code = main(["inspect", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_inspect_says_in_one_line_what_it_cannot_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    none = str(tmp_path / "none")
    for name, code, why in ((none, 2, "cannot be read"), ("-", 4, "This is not an answer")):
        found, out, err = inspected(monkeypatch, capsys, "hello", name)
        assert (found, out) == (code, "")
        assert why in err
        assert err.count("\n") == 1


def test_a_pasted_answer_cannot_control_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"choices": [{"message": {"content": "\x1b[2J"}, "finish_reason": "\x1b[2Jstop"}]}
    assert "\x1b" not in inspected(monkeypatch, capsys, json.dumps(body), "-")[1]


# -- probe ------------------------------------------------------------------------------------


def test_the_command_line_offers_every_dialect() -> None:
    assert set(DIALECTS) == set(DRIVERS)
    assert tuple(Level) == LEVELS


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "give the URL of a server"),
        (("http://127.0.0.1:9", "--only", "stop.none_such"), "no check has the id"),
        (("http://127.0.0.1:9", "--header", "no header"), "is not a header"),
        (("http://127.0.0.1:9", "--expected-failures", "/nowhere"), "cannot be read"),
        (("http://127.0.0.1:9", "--timeout", "0"), "greater than 0"),
        (("http://127.0.0.1:9", "--dialect", "klingon"), "is none of messages, chat"),
        (("http://127.0.0.1:9", "--html", "/nowhere/at/all.html"), "cannot be written"),
    ],
)
def test_wrong_usage_is_reported(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], why: str
) -> None:
    assert main(["probe", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert why in captured.err
