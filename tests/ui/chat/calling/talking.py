"""A conversation with tools in which the test speaks for the model, the servers and the person."""

import asyncio
from typing import Any

from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Finished, TextDelta, Timing, ToolCallCompleted, Usage
from engine.values.request import ToolCall
from tests.support.kept import preferences_state
from tests.support.memory_store import MemoryConversationStore
from tests.support.outside.tool_hosts import SUMS_ON, DictatedHost
from tests.ui.driving import ScriptedEngine, eventually, push, session
from tests.ui.driving import ended as is_over
from ui.preferences import Preferences, ToolPreferences
from ui.records.conversations import Conversation
from ui.records.runs import Run
from ui.tools.toolbox import Toolbox


class Talk:
    """A conversation whose model, servers and person are the test."""

    def __init__(
        self, scripted: ScriptedEngine, conversation: Conversation | None = None, **tools: Any
    ) -> None:
        self.engine = scripted
        self.host = DictatedHost()
        self.preferences = preferences_state(Preferences(tools=ToolPreferences(**tools)))
        self.conversation = conversation or Conversation()
        self.conversation.tools = SUMS_ON
        self.store = MemoryConversationStore()
        self.toolbox = Toolbox(self.host, self.preferences)
        self.session = session(scripted, self.conversation, self.store, toolbox=self.toolbox)

    async def __aenter__(self) -> "Talk":
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the conversation, and with it the answers that are not over."""
        ending = asyncio.create_task(self.session.finish())
        await asyncio.sleep(0)
        for generation in self.engine.cancelled:
            push(generation, [ended(StopKind.CANCELLED)])
        await ending

    @property
    def run(self) -> Run:
        run = self.conversation.messages[-1].run
        assert run is not None
        return run

    async def asked(self, number: int) -> None:
        await eventually(lambda: len(self.engine.generations) == number)

    async def ends(self, text: str) -> None:
        """Let the model answer."""
        self.engine.say(TextDelta(text), ended(StopKind.EOS))
        await is_over(self.session)

    def call(self, *calls: ToolCall) -> None:
        deltas = [ToolCallCompleted(number, one) for number, one in enumerate(calls)]
        self.engine.say(*deltas, ended(StopKind.TOOL_CALL))

    async def begins(self, *calls: ToolCall) -> None:
        """Ask something, and let the model call tools."""
        self.session.send("Add.")
        await self.asked(1)
        self.call(*calls)

    async def asks_for(self, *calls: ToolCall) -> None:
        """Ask something, let the model call a tool, and wait until the person is asked."""
        await self.begins(*calls)
        await self.waits_for_person()

    async def waits_for_person(self) -> None:
        await eventually(lambda: any(one.needs_user for one in self.run.live.progress.values()))


def ended(kind: StopKind) -> Finished:
    return Finished(StopInfo(kind), Usage(), Timing())


def adding(a: int, b: int, name: str = "add") -> ToolCall:
    return ToolCall(f"call-{a}-{b}", name, f'{{"a": {a}, "b": {b}}}')
