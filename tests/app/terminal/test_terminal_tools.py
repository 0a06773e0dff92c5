"""The tools of a chat in the terminal keep to what the user has set in the window."""

from pathlib import Path
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest

from app.printer import Printer
from app.process.signals import Interrupts
from app.terminal import tools as terminal_tools
from app.terminal.tools import ChatTools
from engine.values.request import ToolCall
from ui.preferences import ToolPreferences
from ui.records.conversations import Conversation
from ui.records.runs import Run
from ui.records.tool_choice import ToolsInUse
from ui.records.tool_servers import ServerState, ToolAnswer, ToolInfo, ToolServerConfig


async def refuse(_: str) -> str:
    return "no"


@pytest.mark.parametrize(("fingerprint", "state"), [("f", "done"), ("other", "denied")])
async def test_terminal_follows_the_limits_and_approvals_of_the_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fingerprint: str, state: str
) -> None:
    monkeypatch.setenv("FULLSTOP_DATA_DIR", str(tmp_path))
    preferences = ToolPreferences(3, time_out_s=7, most_result_kb=2, allowed=(("s", "t", "f"),))
    tool = ToolInfo("s", "t", "T", fingerprint=fingerprint)
    host = SimpleNamespace(
        servers=(ServerState(ToolServerConfig("s", "x"), "ready", tools=(tool,)),),
        call=AsyncMock(return_value=ToolAnswer("sunny")),
    )
    given = {}
    monkeypatch.setattr(terminal_tools, "ToolServers", lambda _, **how: given.update(how) or host)
    tools = ChatTools(Printer(), refuse, preferences, {})
    assert (given["call_timeout_s"](), given["max_result_bytes"]) == (7, 2_000)
    run = Run(tool_calls=[ToolCall("1", "t", "{}")])
    conversation = Conversation()
    conversation.tools = ToolsInUse(("s",))
    with Interrupts() as interrupts:
        await tools.carry_out(conversation, run, interrupts, tools.preferences.most_calls)
    assert [result.state for result in run.results] == [state]
