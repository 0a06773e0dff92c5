"""``fullstop launch`` with a running server: what the agent gets, and the errors in words."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.agents.programs import AGENTS
from app.cli import main
from app.settings.keychain import KeyStore
from tests.lab.clients.servers import SAID, Server, scripted_server
from tests.support.outside.stand_in import CODE, StandIn


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with scripted_server(context=100_000, key="right") as running:
        yield running


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    made = StandIn(tmp_path)
    monkeypatch.setenv("PATH", str(made.folder))
    monkeypatch.setenv("FULLSTOP_API_KEY", "right")
    # The test must not find a server that runs on this machine.
    monkeypatch.setenv("FULLSTOP_PORT", "1")
    monkeypatch.setenv("FULLSTOP_CONFIG_DIR", str(tmp_path / "config"))
    (tmp_path / "config").mkdir()
    keep_window_port(tmp_path, 1)
    return made


def keep_window_port(folder: Path, port: int) -> None:
    settings = {"server": {"port": port}}
    (folder / "config" / "settings.json").write_text(json.dumps(settings))


def port_of(server: Server) -> str:
    return server.url.rpartition(":")[2]


def test_launch_uses_running_server_and_agent_exit_code(
    server: Server, agent: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FULLSTOP_PORT", port_of(server))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert main(["launch", "claude", "--anyway", "--", "-p", "a b", "--model", "x"]) == CODE
    found = agent.found
    assert found["arguments"] == ["-p", "a b", "--model", "x"]
    assert found["answer"]["content"][0]["text"] == SAID
    variables = found["variables"]
    assert variables["ANTHROPIC_BASE_URL"] == server.url
    assert variables["ANTHROPIC_AUTH_TOKEN"] == "right"
    assert "127.0.0.1" in variables["no_proxy"]


def test_launch_tries_the_port_of_the_window(
    server: Server, agent: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep_window_port(tmp_path, int(port_of(server)))
    assert main(["launch", "claude", "--print"]) == 0
    printed = capsys.readouterr().out
    assert f"export ANTHROPIC_BASE_URL={server.url}\n" in printed
    assert "right" not in printed
    assert not agent.has_asked


def test_launch_refuses_too_small_model(agent: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    with scripted_server(context=4_096, key="right") as small:
        assert main(["launch", "claude", "--url", small.url]) == 1
    said = capsys.readouterr().err
    assert "its context holds 4,096 tokens, and Claude Code needs at least 32,768" in said
    assert "it cannot call tools" in said
    assert "--model" in said
    assert "--anyway" in said
    assert not agent.has_asked


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["codex"], "Codex is not installed: there is no codex on the PATH. To install it: npm"),
        (["claude", "--url", "http://127.0.0.1:1"], "no Fullstop server answers at http://127"),
        (["claude", "--model", "other"], "does not serve other; it serves: "),
    ],
)
def test_launch_errors_for_missing_program_server_model(
    words: list[str],
    said: str,
    server: Server,
    agent: StandIn,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = [] if "--url" in words else ["--url", server.url]
    assert main(["launch", *words, *url]) == 1
    assert said in capsys.readouterr().err
    assert not agent.has_asked


def test_launch_unknown_api_key_error(
    server: Server,
    agent: StandIn,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def none(_: KeyStore) -> None:
        return None

    monkeypatch.setattr(KeyStore, "key", none)  # the test does not touch this person's keychain
    monkeypatch.setenv("FULLSTOP_API_KEY", "wrong")
    assert main(["launch", "claude", "--url", server.url]) == 1
    assert "set FULLSTOP_API_KEY to the right one" in capsys.readouterr().err
    assert not agent.has_asked


def test_launch_print_without_server(agent: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    for name in AGENTS:
        assert main(["launch", name, "--model", "owner/m", "--print"]) == 0
        printed = capsys.readouterr().out
        assert "fullstop serve --model owner/m" in printed
        assert "http://127.0.0.1:1" in printed
    assert not agent.has_asked
