"""A real server of the ``mcp`` package, over stdio and over HTTP on loopback."""

import asyncio
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.app.mcp.served import SERVERS, Served, answers, is_dead
from ui.records.tools import NamedValue, ServerStage, ToolServerConfig, ToolsRefused


def test_the_tools_of_a_server_are_listed_with_their_schemas(plain: Served) -> None:
    tool = plain.tool("plain", "add")
    assert tool.description == "Add two numbers."
    assert set(tool.parameters["properties"]) == {"a", "b"}
    assert plain.state("plain").version == "plain 1.2"


def test_a_call_returns_what_the_tool_returned(plain: Served) -> None:
    assert plain.call("plain", "add", a=2, b=40) == ("42", False)


def test_a_tool_that_fails_is_reported_and_the_server_goes_on(plain: Served) -> None:
    text, is_error = plain.call("plain", "fail")
    assert is_error
    assert "fail" in text
    assert plain.state("plain").stage is ServerStage.READY


def test_a_long_result_is_cut_and_says_so(plain: Served) -> None:
    text, _ = plain.call("plain", "large", size=1_000_000)
    assert len(text) < 2_100
    assert text.endswith("[Cut: this is the first 2.0 kB of 1.0 MB.]")


def test_a_secret_reaches_the_server_and_not_the_file(plain: Served) -> None:
    assert plain.call("plain", "variable", name="MY_TOKEN") == ("hidden", False)
    assert plain.call("plain", "variable", name="LEVEL") == ("3", False)
    file = plain.folder / "tool-servers.json"
    assert "hidden" not in file.read_text()
    assert "hidden" not in repr(plain.host.servers)
    for one in (file, plain.folder / "tool-secrets.json"):
        assert one.stat().st_mode & 0o777 == 0o600


def test_a_server_does_not_get_the_environment_variables_of_the_program(
    plain: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOMEBODYS_API_KEY", "abc")
    plain.do(plain.host.restart("plain"))
    assert plain.call("plain", "variable", name="SOMEBODYS_API_KEY") == ("(unset)", False)


def test_resources_and_prompts_are_read(plain: Served) -> None:
    assert plain.do(plain.host.read_resource("plain", "notes://today")) == "Buy cheese."
    text = plain.do(plain.host.prompt_text("plain", "review", {"code": "x = 1"}))
    assert text == "Review this code:\nx = 1"
    with pytest.raises(ToolsRefused, match=r"not text \(image/png, 4 bytes\)"):
        plain.do(plain.host.read_resource("plain", "photos://cat"))


def test_a_cancelled_call_is_cancelled_at_the_server(plain: Served, tmp_path: Path) -> None:
    marker, told = tmp_path / "marker", []

    async def stop_it() -> None:
        begun = asyncio.Event()

        def note(*progress: object) -> None:
            told.append(progress)
            begun.set()

        tool = plain.tool("plain", "slow")
        call = asyncio.create_task(
            plain.host.call(tool, {"marker": str(marker)}, note, plain.reply)
        )
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    plain.do(stop_it())
    plain.until(marker.exists)
    assert told == [(1.0, 4.0, "counting")]
    assert plain.call("plain", "add", a=1, b=1) == ("2", False)


def test_a_call_that_takes_too_long_is_cancelled_and_named(plain: Served, tmp_path: Path) -> None:
    plain.call_time_out_s = 0.5
    try:
        said = plain.refusal("plain", "slow", marker=str(tmp_path / "marker"))
    finally:
        plain.call_time_out_s = 60
    assert said == (
        "The tool server “plain” took longer than 0.5 s; the call of slow was cancelled."
    )


def test_a_server_that_dies_is_named_with_its_last_output_and_can_be_restarted(
    plain: Served,
) -> None:
    said = plain.refusal("plain", "die")
    assert said.startswith("The tool server “plain” stopped: it ended with code 3.")
    assert "“out of cheese”" in said
    plain.until(lambda: plain.state("plain").stage is ServerStage.FAILED)
    plain.do(plain.host.ready(["plain"]))
    assert plain.state("plain").stage is ServerStage.FAILED
    plain.do(plain.host.restart("plain"))
    assert plain.call("plain", "add", a=1, b=2) == ("3", False)


def test_switching_off_ends_the_server_and_its_child_processes(
    plain: Served, tmp_path: Path
) -> None:
    marker = tmp_path / "child"
    plain.call("plain", "start_child", marker=str(marker))
    child = int(marker.read_text())
    plain.do(plain.host.switch("plain", False))
    assert plain.state("plain").stage is ServerStage.OFF
    plain.until(lambda: not psutil.pid_exists(child) or is_dead(child))
    plain.do(plain.host.ready(["plain"]))
    assert plain.state("plain").stage is ServerStage.OFF
    with pytest.raises(ToolsRefused, match="switched off"):
        plain.do(plain.host.read_resource("plain", "notes://today"))


def test_the_child_processes_of_servers_end_even_if_the_program_is_killed() -> None:
    program = """
import os, signal, subprocess
from app.mcp.processes import MARK, new_mark, note_group
kept = ["/bin/sh", "-c", "trap '' TERM; sleep 600 & echo $!; setsid sleep 600 & echo $!; wait"]
env = {**os.environ, MARK: new_mark()}
server = subprocess.Popen(kept, stdout=subprocess.PIPE, start_new_session=True, env=env)
note_group(server.pid)
print(server.pid, *(server.stdout.readline().decode() for _ in range(2)), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, timeout=60, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    processes = [int(one) for one in killed.stdout.split()]
    waited_until = time.monotonic() + 60
    while not all(map(is_dead, processes)):
        assert time.monotonic() < waited_until
        time.sleep(0.02)


@pytest.mark.parametrize("way", ["mcp", pytest.param("sse", marks=pytest.mark.slow)])
def test_a_server_over_http_gets_its_headers_and_needs_no_process(plain: Served, way: str) -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, str(SERVERS / "plain.py"), str(port), way], stderr=subprocess.DEVNULL
    )
    try:
        plain.until(lambda: answers(port))
        url = f"http://127.0.0.1:{port}/{way}"
        headers = (NamedValue("Authorization", "Bearer abc", is_secret=True),)
        if way == "sse":
            wrong = ToolServerConfig("web", url=url, headers=headers, is_on=True)
            plain.do(plain.host.put(wrong))
            plain.do(plain.host.ready(["web"]))
            assert 'write "type": "sse"' in plain.state("web").problem
            plain.do(plain.host.remove("web"))
        config = ToolServerConfig("web", url=url, headers=headers, is_sse=way == "sse", is_on=True)
        plain.do(plain.host.put(config))
        plain.do(plain.host.ready(["web"]))
        assert plain.state("web").problem == ""
        assert plain.call("web", "add", a=20, b=22) == ("42", False)
        process.kill()
        process.wait()
        assert "The tool server “web”" in plain.refusal("web", "add", a=1, b=1)
    finally:
        plain.do(plain.host.remove("web"))
        process.kill()
        process.wait()
