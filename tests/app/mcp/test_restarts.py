"""Restarts of MCP servers after crashes."""

import os
import signal
import sys
import time

import pytest

from tests.app.mcp.served import SERVERS, Served, free_port, hostile, listening
from ui.records.tool_servers import ToolServerConfig


@pytest.fixture(autouse=True)
def short_pauses(no_restarts: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.mcp.server.RESTART_PAUSES_S", (0.01, 0.02, 0.03))


def test_mcp_server_restarts_after_crash(served: Served) -> None:
    config = ToolServerConfig("plain", sys.executable, (str(SERVERS / "plain.py"),), is_on=True)
    served.do(served.host.put(config))
    served.do(served.host.ensure_ready(["plain"]))
    first = int(served.call("plain", "process")[0])
    os.kill(first, signal.SIGKILL)
    served.until(lambda: served.state("plain").stage == "restarting")
    assert served.state("plain").problem == (
        "The MCP server “plain” stopped: it was ended by SIGKILL."
    )
    served.do(served.host.ensure_ready(["plain"]))
    assert served.state("plain").stage == "ready"
    assert int(served.call("plain", "process")[0]) != first


def test_mcp_restarted_http_server_gets_a_new_session(served: Served) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    served.do(served.host.put(ToolServerConfig("web", url=url, is_on=True)))
    for _ in range(2):
        with listening(served, "plain.py", port):
            if served.state("web").stage == "ready":
                assert "it was restarted" in served.refusal("web", "add", a=1, b=1)
            served.do(served.host.ensure_ready(["web"]))
            assert served.call("web", "add", a=20, b=22) == ("42", False)


def test_mcp_server_that_lists_again_can_be_stopped(served: Served) -> None:
    served.do(served.host.put(hostile("relists")))
    served.do(served.host.ensure_ready(["relists"]))
    served.call("relists", "go")
    server = served.host._entries["relists"].server
    assert server is not None
    served.until(lambda: server._is_listing)
    before_s = time.monotonic()
    served.do(served.host.switch("relists", False))
    assert time.monotonic() - before_s < 30.0
    assert served.state("relists").stage == "off"


def test_mcp_server_that_crashes_repeatedly_waits_for_the_user(served: Served) -> None:
    served.do(served.host.put(hostile("dies")))
    served.do(served.host.ensure_ready(["dies"]))
    for _ in range(4):
        served.do(served.host.ensure_ready(["dies"]))
        assert "it ended with code 7" in served.refusal("dies", "go")
    served.until(lambda: served.state("dies").stage == "failed")
    served.do(served.host.ensure_ready(["dies"]))
    assert served.state("dies").stage == "failed"
    served.do(served.host.restart("dies"))
    assert served.state("dies").stage == "ready"
    served.refusal("dies", "go")
    served.do(served.host.ensure_ready(["dies"]))
    assert served.state("dies").stage == "ready"
