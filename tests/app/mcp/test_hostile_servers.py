"""MCP servers that crash, hang or send invalid messages."""

import sys

import pytest

from tests.app.mcp.served import Served, hostile
from ui.records.tool_servers import ToolServerConfig


def started(served: Served, how: str) -> None:
    served.do(served.host.put(hostile(how)))
    served.do(served.host.ensure_ready([how]))


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("dies", "it ended with code 7"),
        ("large-line", "it sent a message of more than 16 MB"),
    ],
)
def test_mcp_server_that_crashes_during_a_call_is_named(
    served: Served, how: str, reason: str
) -> None:
    started(served, how)
    assert f"The MCP server “{how}” stopped: {reason}." in served.refusal(how, "go")
    served.until(lambda: served.state(how).stage == "failed")
    assert reason in served.state(how).problem


def test_mcp_invalid_response_leaves_server_running(served: Served) -> None:
    started(served, "nonsense")
    assert "sent an invalid MCP response" in served.refusal("nonsense", "go")
    assert served.state("nonsense").stage == "ready"


def test_mcp_server_that_exits_at_start_shows_its_last_output(served: Served) -> None:
    started(served, "gone")
    assert served.state("gone").stage == "failed"
    assert served.state("gone").problem == (
        "The MCP server “gone” stopped: it ended with code 2. Last output: “there is no such "
        "folder”."
    )


def test_mcp_server_that_prints_hints_shows_its_error(served: Served) -> None:
    text = "Resolving\nerror: Failed to fetch a package\n  cause: no route\n\nhint: Try later\n"
    program = f"import sys; sys.stderr.write({text!r}); sys.exit(2)"
    config = ToolServerConfig("fetch", sys.executable, ("-c", program), is_on=True)
    served.do(served.host.put(config))
    served.do(served.host.ensure_ready(["fetch"]))
    assert served.state("fetch").problem.endswith(
        "Last output: “error: Failed to fetch a package”."
    )


def test_mcp_server_start_timeout(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.mcp.server.START_TIMEOUT_S", 0.5)
    started(served, "silent")
    assert served.state("silent").problem.startswith(
        "The MCP server “silent” was not ready within 0.5 s."
    )


def test_mcp_result_with_lone_surrogate_is_repaired(served: Served) -> None:
    started(served, "half-pair")
    served.call_timeout_s = 20
    try:
        assert served.call("half-pair", "go") == ("cut here: \ufffd", False)
    finally:
        served.call_timeout_s = 60


def test_mcp_server_without_handshake_is_used(served: Served) -> None:
    started(served, "modern")
    assert served.state("modern").problem == ""
    assert served.call("modern", "go") == ("fine", False)


def test_mcp_server_greeting_on_stdout_is_logged(served: Served) -> None:
    started(served, "greets")
    assert served.call("greets", "go") == ("fine", False)
    assert "(not a message) Welcome to my server!" in served.state("greets").log


def test_mcp_tool_names_have_no_control_characters(served: Served) -> None:
    started(served, "names")
    state = served.state("names")
    assert [tool.title for tool in state.tools] == ["a�[31mred�", "two words", "ünï", "go"]
    assert state.remarks[0].startswith("3 tools cannot be used")
    assert "\x1b" not in state.version


def test_mcp_tool_list_limit(served: Served) -> None:
    started(served, "thousands")
    state = served.state("thousands")
    assert len(state.tools) == 128
    assert state.remarks == ("It lists more tools than can be used; the first 128 are.",)


def test_mcp_tools_that_require_tasks_are_not_offered(served: Served) -> None:
    started(served, "tasks")
    state = served.state("tasks")
    assert [tool.name for tool in state.tools] == ["go"]
    assert state.remarks == (
        "1 tool cannot be used: MCP’s tasks are required for a call, and Fullstop has none.",
    )


def test_mcp_program_that_is_not_installed_is_named(served: Served) -> None:
    config = ToolServerConfig("missing", "no-such-program-anywhere", is_on=True)
    served.do(served.host.put(config))
    served.do(served.host.ensure_ready(["missing"]))
    assert served.state("missing").problem == (
        "The MCP server “missing” could not be started. no-such-program-anywhere was not found. "
        "Install it, or give its whole path."
    )
