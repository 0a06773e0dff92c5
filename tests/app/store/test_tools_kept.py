"""Calls, their results, and the tools of a conversation are stored."""

from pathlib import Path

from engine.values.request import ToolCall
from tests.app.store.conftest import keep, opened
from ui.records.conversations import Conversation
from ui.records.exchange.archive import (
    conversations_from_json,
    conversations_json,
)
from ui.records.messages import ConversationMessage, question
from ui.records.runs import Run
from ui.records.tool_calls import CallResult
from ui.records.tool_choice import ToolsInUse

RESULTS = [
    CallResult("c1", "done", "5", "sums", "add", 0.25),
    CallResult("c2", "denied", "The user did not allow this call.", "sums", "add"),
]
IN_USE = ToolsInUse(("sums",), (("sums", "root"),), (("sums", "add", "f1"),))


def with_calls() -> Conversation:
    calls = [ToolCall("c1", "add", '{"a": 2}'), ToolCall("c2", "add", "{}")]
    run = Run(state="unrecorded", tool_calls=calls, results=list(RESULTS), paused_at=20)
    answer = ConversationMessage("assistant", run=run)
    conversation = Conversation("Sums", [question("What is 2 + 3?"), answer])
    conversation.tools = IN_USE
    return conversation


async def test_tool_results_round_trip(path: Path) -> None:
    async with opened(path) as store:
        keep(store, with_calls())
    async with opened(path) as store:
        [found] = store.conversations()
        await store.fill(found)
    run = found.messages[-1].run
    assert run is not None
    assert (run.results, run.paused_at, found.tools) == (RESULTS, 20, IN_USE)


def test_archive_enables_no_tool() -> None:
    [found] = conversations_from_json(conversations_json([with_calls()]))
    run = found.messages[-1].run
    assert run is not None
    assert run.results == RESULTS
    assert found.tools == ToolsInUse()


def test_copied_conversation_keeps_tools() -> None:
    assert with_calls().duplicate().tools == IN_USE
