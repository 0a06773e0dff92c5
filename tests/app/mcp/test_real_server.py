"""A real server of the ``mcp`` package, over stdio and over HTTP on loopback."""

import asyncio
from pathlib import Path

import psutil
import pytest

from app.process.process_groups import kill_process_groups
from tests.app.mcp.served import Served, free_port, is_dead, listening
from tests.app.mcp.servers.plain import PIXEL
from ui.records.tool_servers import NamedValue, ToolServerConfig, ToolsRefused


def test_mcp_tools_are_listed_with_schemas(plain: Served) -> None:
    tool = plain.tool("plain", "add")
    assert tool.description == "Add two numbers."
    assert set(tool.parameters["properties"]) == {"a", "b"}
    assert plain.state("plain").version == "plain 1.2"


def test_mcp_call_returns_result(plain: Served) -> None:
    assert plain.call("plain", "add", a=2, b=40) == ("42", False)


def test_mcp_tool_error_leaves_server_running(plain: Served) -> None:
    text, is_error = plain.call("plain", "fail")
    assert is_error
    assert "fail" in text
    assert plain.state("plain").stage == "ready"


def test_mcp_long_result_is_cut(plain: Served) -> None:
    text, _ = plain.call("plain", "large", size=1_000_000)
    assert len(text) < 2_100
    assert text.endswith("[Cut: this is the first 2.0 kB of 1.0 MB.]")


def test_mcp_secret_is_passed_and_not_written_to_the_file(plain: Served) -> None:
    assert plain.call("plain", "variable", name="MY_TOKEN") == ("hidden", False)
    assert plain.call("plain", "variable", name="LEVEL") == ("3", False)
    file = plain.folder / "tool-servers.json"
    assert "hidden" not in file.read_text()
    assert "hidden" not in repr(plain.host.servers)
    for one in (file, plain.folder / "tool-secrets.json"):
        assert one.stat().st_mode & 0o777 == 0o600


def test_mcp_server_environment_has_no_other_variables(
    plain: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOMEBODYS_API_KEY", "abc")
    plain.do(plain.host.restart("plain"))
    assert plain.call("plain", "variable", name="SOMEBODYS_API_KEY") == ("(unset)", False)


def test_mcp_resources_and_prompts(plain: Served) -> None:
    assert plain.do(plain.host.read_resource("plain", "notes://today")).text == "Buy cheese."
    dot = plain.do(plain.host.read_resource("plain", "photos://dot"))
    assert (dot.text, dot.pictures) == ("", (PIXEL,))
    review = plain.do(plain.host.get_prompt("plain", "review", {"code": "x = 1"}))
    assert review.text == "Review this code:\nx = 1"
    look = plain.do(plain.host.get_prompt("plain", "look", {}))
    assert (look.text, look.pictures) == ("What?", (PIXEL,))
    with pytest.raises(ToolsRefused, match=r"neither text nor a picture \(image/png, 4 bytes\)"):
        plain.do(plain.host.read_resource("plain", "photos://cat"))


def test_mcp_call_is_cancelled_at_the_server(plain: Served, tmp_path: Path) -> None:
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


def test_mcp_call_timeout_cancels_at_the_server(plain: Served, tmp_path: Path) -> None:
    plain.call_timeout_s = 0.5
    try:
        said = plain.refusal("plain", "slow", marker=str(tmp_path / "marker"))
    finally:
        plain.call_timeout_s = 60
    assert said == ("the call of slow timed out after 0.5 s.")


def test_mcp_crash_shows_last_output_and_manual_restart(plain: Served) -> None:
    said = plain.refusal("plain", "die")
    assert said.startswith("The MCP server “plain” stopped: it ended with code 3.")
    assert "“out of cheese”" in said
    plain.until(lambda: plain.state("plain").stage == "failed")
    plain.do(plain.host.ensure_ready(["plain"]))
    assert plain.state("plain").stage == "failed"
    plain.do(plain.host.restart("plain"))
    assert plain.call("plain", "add", a=1, b=2) == ("3", False)


def test_mcp_switching_off_ends_child_processes(plain: Served, tmp_path: Path) -> None:
    marker = tmp_path / "child"
    plain.call("plain", "start_child", marker=str(marker))
    child = int(marker.read_text())
    plain.do(plain.host.switch("plain", False))
    assert plain.state("plain").stage == "off"
    plain.until(lambda: not psutil.pid_exists(child) or is_dead(child))
    plain.do(plain.host.ensure_ready(["plain"]))
    assert plain.state("plain").stage == "off"
    with pytest.raises(ToolsRefused, match="switched off"):
        plain.do(plain.host.read_resource("plain", "notes://today"))


def test_mcp_process_groups_are_killed_at_exit(plain: Served, tmp_path: Path) -> None:
    marker = tmp_path / "child"
    plain.call("plain", "start_child", marker=str(marker))
    child = int(marker.read_text())
    kill_process_groups()
    plain.until(lambda: is_dead(child))
    plain.until(lambda: plain.state("plain").stage == "failed")


@pytest.mark.parametrize("way", ["mcp", pytest.param("sse", marks=pytest.mark.slow)])
def test_mcp_server_over_http(plain: Served, way: str) -> None:
    port = free_port()
    with listening(plain, "plain.py", port, way) as process:
        url = f"http://127.0.0.1:{port}/{way}"
        headers = (NamedValue("Authorization", "Bearer abc", is_secret=True),)
        if way == "sse":
            wrong = ToolServerConfig("web", url=url, headers=headers, is_on=True)
            plain.do(plain.host.put(wrong))
            plain.do(plain.host.ensure_ready(["web"]))
            assert 'write "type": "sse"' in plain.state("web").problem
            plain.do(plain.host.remove("web"))
        config = ToolServerConfig("web", url=url, headers=headers, is_sse=way == "sse", is_on=True)
        plain.do(plain.host.put(config))
        plain.do(plain.host.ensure_ready(["web"]))
        assert plain.state("web").problem == ""
        assert plain.call("web", "add", a=20, b=22) == ("42", False)
        process.kill()
        process.wait()
        assert "The MCP server “web”" in plain.refusal("web", "add", a=1, b=1)
        plain.do(plain.host.remove("web"))
