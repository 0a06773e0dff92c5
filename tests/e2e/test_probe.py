"""``fullstop inspect`` and ``fullstop probe``, run as programs against running servers."""

import io
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from api.conformance.probe.dialects import DRIVERS
from api.conformance.probe.values import Level
from app.cli import main
from app.settings.probe_options import DIALECTS, LEVELS

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).parents[2]
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


def test_a_closed_pipe_ends_inspect_without_a_traceback(headless: dict[str, str]) -> None:
    body = {"choices": [{"message": {"content": "x" * 500_000}, "finish_reason": "stop"}]}
    words = f"'{sys.executable}' -m app inspect - --json | head -c 5"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", words],
        input=json.dumps(body),
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        # Without a buffer Python itself would not notice.
        env={name: value for name, value in headless.items() if name != "PYTHONUNBUFFERED"},
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (141, '{"for', "")


def test_a_pasted_answer_cannot_control_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"choices": [{"message": {"content": "\x1b[2J"}, "finish_reason": "\x1b[2Jstop"}]}
    assert "\x1b" not in inspected(monkeypatch, capsys, json.dumps(body), "-")[1]


# -- probe ------------------------------------------------------------------------------------


def test_the_command_line_offers_every_dialect() -> None:
    assert set(DIALECTS) == set(DRIVERS)
    assert tuple(Level) == LEVELS


def test_our_own_server_passes_and_the_exit_code_says_so(
    program: Program, address: str, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    # tests/api/conformance/probe/own_server runs every check in every dialect.
    some = ("--only", "stop.one_character,form.*", "--time-limit", "300")
    done = program("probe", address, "--html", str(page), *some)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert f"## Stops at {address}/v1/messages" in done.stdout
    assert "checks passed.**" in done.stdout
    assert page.read_text().startswith("<!doctype html>")


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


# -- mlx_lm.server ----------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def wait_until_healthy(url: str, process: subprocess.Popen[bytes]) -> None:
    ends_at = time.monotonic() + 60
    while time.monotonic() < ends_at:
        assert process.poll() is None, "mlx_lm.server ended"
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    raise AssertionError("mlx_lm.server does not answer")


@pytest.fixture(scope="module")
def mlx_lm_server(demo_model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an ``mlx_lm.server`` on the demo model."""
    port = free_port()
    words = ("-m", "mlx_lm", "server", "--model", str(demo_model_path), "--port", str(port))
    home = tmp_path_factory.mktemp("cache")
    process = subprocess.Popen(
        [sys.executable, *words, "--log-level", "CRITICAL"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1"},
    )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_healthy(url, process)
        yield url
    finally:
        process.kill()
        process.wait(timeout=60)


WRONG = (
    "stop.inside_token",
    "stop.held_at_the_end",
    "thinking.stop",
    "stops.token_ids",
    "errors.*",
)
RIGHT = ("baseline", "limit", "stop.across_newline", "form.streamed", "form.whole")


@pytest.mark.slow
def test_the_known_faults_of_mlx_lm_server_are_found(program: Program, mlx_lm_server: str) -> None:
    # The default call: it names no model and chooses no API.
    options = ("--json", "--time-limit", "300")
    done = program("probe", mlx_lm_server, *options, "--only", ",".join((*WRONG, *RIGHT)))
    assert (done.returncode, done.stderr) == (1, "")
    [report] = json.loads(done.stdout)["reports"]
    assert report["is_deterministic"]
    results = {one["code"]: one for one in report["results"]}
    outcomes = {code: one["outcome"] for code, one in results.items()}
    codes = {code: {f["code"] for f in one["faults"]} for code, one in results.items()}

    # A stop inside a token of the model is cut out of the text, and generation goes on.
    assert codes["stop.inside_token"] == {"stop_cut_out"}
    # Text that could have become a stop is lost when the answer ends by itself.
    assert codes["stop.held_at_the_end"] == {"held_text_lost"}
    # A stop in the thinking ends the whole answer.
    assert "thinking_empties_answer" in codes["thinking.stop"]
    assert codes["stops.token_ids"] == {"ids_ignored"}
    # Wrong types are accepted, or end the generation thread; errors have a form of their own.
    assert codes["errors.stop_object"] == {"wrong_type_accepted"}
    assert {"server_died", "wrong_status"} <= codes["errors.stop_number"]
    assert codes["errors.json"] == {"error_envelope"}
    assert outcomes["errors.stop_item"] == "not asked"

    # Its correct behaviour is not reported as a fault.
    for code in RIGHT:
        assert outcomes[code] == "held", results[code]
