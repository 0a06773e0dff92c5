import json
import signal
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from tests.e2e.conftest import begin_answer, read_json
from tests.support.outside.certificates import write_certificate

pytestmark = pytest.mark.long

COUNT = "Count from 1 to 10, one number per line"


def ask(address: str, *, key: str | None = None) -> Any:
    """Return the text of a chat completion."""
    body = {
        "model": "any",
        "max_tokens": 64,
        "messages": [{"role": "user", "content": COUNT}],
        "stop": "6",
        "enable_thinking": False,
    }
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    found = read_json(f"{address}/v1/chat/completions", body, **headers)
    return found["choices"][0]["message"]["content"]


# Other tests end a server with SIGINT and with SIGTERM.
def test_the_server_is_ready_when_it_says_so_and_a_hang_up_ends_it_cleanly(
    serve: Callable[..., Any],
) -> None:
    server = serve("--port", "0")
    address = server.wait_until_ready()
    assert read_json(f"{address}/health")["status"] == "ok"
    assert ask(address) == "1\n2\n3\n4\n5\n"
    assert server.end(signal.SIGHUP) == 0
    assert server.errors == []
    assert server.loads[0].endswith("app.loads: loading: demo-model\n")  # it has no terminal
    assert "demo-model (context" in server.told
    assert f"{address}/v1" in server.told
    assert "API key  none" in server.told


def test_a_second_signal_ends_the_server_at_once(serve: Callable[..., Any]) -> None:
    server = serve("--port", "0", "--stop-grace-s", "3600")
    connection, answer = begin_answer(server.wait_until_ready())
    server.process.send_signal(signal.SIGTERM)
    assert server.end(signal.SIGINT) == 130  # another kind: two of the same kind can arrive as one
    assert server.errors == ["fullstop: ended at once, as the second signal asked\n"]
    answer.close()
    connection.close()


def test_a_signal_while_the_model_loads_ends_the_server_cleanly(serve: Callable[..., Any]) -> None:
    server = serve("--port", "0")
    time.sleep(0.5)
    assert server.end() in (0, -signal.SIGTERM)  # the latter if Python had not started yet
    assert server.errors == []


def test_a_signal_ends_the_server_during_an_answer(serve: Callable[..., Any]) -> None:
    server = serve("--port", "0")
    connection, _ = begin_answer(server.wait_until_ready())
    assert server.end() == 0
    assert server.errors == []
    connection.close()


def test_a_port_that_is_taken_is_named(program: Callable[..., Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = program("serve", "--port", str(port))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"port {port}" in done.stderr
    assert "0 for any" in done.stderr
    assert done.stderr.count("\n") == 1


def test_server_for_other_computers_enforces_its_key_and_warns(
    serve: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "key"
    file.write_text("very-secret\n")
    file.chmod(0o644)
    server = serve("--port", "0", "--host", "0.0.0.0", "--api-key-file", str(file))
    address = server.wait_until_ready()
    with pytest.raises(urllib.error.HTTPError, match="401"):
        ask(address)
    assert ask(address, key="very-secret") == "1\n2\n3\n4\n5\n"
    assert server.end() == 0
    # Once, and not for each request.
    users, network = server.errors
    assert users.startswith("fullstop: warning: every user of this computer can read the key in")
    assert "anyone on the network can read the API key" in network
    assert "--tls-cert" in network
    assert "very-secret" not in users + network


def test_a_server_with_a_certificate_answers_over_https_without_a_warning(
    serve: Callable[..., Any], tmp_path: Path
) -> None:
    files = write_certificate(tmp_path)
    server = serve(
        *("--port", "0", "--host", "0.0.0.0", "--tls-cert", str(files.cert)),
        FULLSTOP_API_KEY="secret",
        FULLSTOP_TLS_KEY=str(files.key),
    )
    address = server.wait_until_ready()
    assert address.startswith("https://127.0.0.1:")
    trust = ssl.create_default_context(cafile=str(files.cert))
    request = urllib.request.Request(f"{address}/v1/models", headers={"x-api-key": "secret"})
    with urllib.request.urlopen(request, timeout=60, context=trust) as answer:
        assert json.load(answer)["data"][0]["id"] == "demo-model"
    assert server.end() == 0
    assert server.errors == []


def test_an_unusable_certificate_is_reported_in_one_line_with_its_option(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = write_certificate(tmp_path, passphrase=b"secret")
    assert main(["serve", "--tls-cert", str(files.cert), "--tls-key", str(files.key)]) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "--tls-key: " in captured.err
    assert "protected by a passphrase" in captured.err
    assert captured.err.count("\n") == 1


def test_the_server_prints_what_a_person_needs_and_logs_json(serve: Callable[..., Any]) -> None:
    server = serve("--port", "0", "--log", "json", "--api-key", "not-to-be-logged")
    address = server.wait_until_ready()
    assert ask(address, key="not-to-be-logged") == "1\n2\n3\n4\n5\n"
    assert server.end(signal.SIGINT) == 0
    entries = [json.loads(line) for line in server.errors]
    assert (entries[0]["message"], entries[0]["model"]) == ("loading: demo-model", "demo-model")
    [listening] = [entry for entry in entries if entry["message"] == "listening"]
    assert (listening["url"], listening["model"]) == (address, "demo-model")
    assert listening["requires_key"] is True
    [asked] = [entry for entry in entries if entry.get("path") == "/v1/chat/completions"]
    assert (asked["method"], asked["status"]) == ("POST", 200)
    assert "not-to-be-logged" not in str(entries)


def test_the_reason_of_a_failed_start_is_a_line_of_json_in_the_log(
    program: Callable[..., Any],
) -> None:
    done = program("serve", "--port", "0", "--log", "json", "--model=/no/such/model")
    *_, entry = map(json.loads, done.stderr.splitlines())  # a slow start says that it goes on
    assert (done.returncode, done.stdout, entry["level"]) == (1, "", "error")
    assert entry["message"].startswith("the model cannot be loaded")
    assert "model does not exist" in entry["message"]
