"""Restarts of MCP servers after crashes."""

import os
import signal
import sys

import pytest

from tests.app.mcp.served import SERVERS, Served, hostile
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
        "The tool server “plain” stopped: it was ended by SIGKILL."
    )
    served.do(served.host.ensure_ready(["plain"]))
    assert served.state("plain").stage == "ready"
    assert int(served.call("plain", "process")[0]) != first


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
