"""The tools of a chat in the terminal: its servers, and the calls of its answers.

The servers are those of the window, in the same file, with the limits of the settings. Each call is
asked about, unless the user has allowed its tool for the conversation, or always. Main thread.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from api.terminal_text import on_one_line
from app import paths
from app.exits import did_you_mean
from app.mcp.host import ToolServers
from app.printer import Printer
from app.process.signals import Interrupts
from engine.values.request import Picture, Tool, ToolCall
from ui.preferences import ToolPreferences
from ui.records.attachments import kept_as
from ui.records.conversations import Conversation
from ui.records.pictures import kept_name
from ui.records.runs import Run
from ui.records.tool_calls import CallResult, CallState, parse_arguments
from ui.records.tool_choice import approval_of, enabled_tools, engine_tools
from ui.records.tool_servers import (
    QuestionReply,
    ServerQuestion,
    ToolAnswer,
    ToolInfo,
    ToolsRefused,
    stage_text,
)


class ChatTools:
    """The MCP servers of a chat."""

    def __init__(
        self,
        printer: Printer,
        ask: Callable[[str], Awaitable[str | None]],
        preferences: ToolPreferences,
        pictures: dict[str, Picture],
    ) -> None:
        self.preferences = preferences
        self._pictures = pictures  # of results, by the names of their files
        self._printer = printer
        self._ask = ask
        self._host = ToolServers(
            paths.data_folder(),
            call_timeout_s=lambda: preferences.time_out_s,
            max_result_bytes=preferences.most_result_kb * 1000,
        )

    async def switch(self, conversation: Conversation, name: str) -> str:
        """Switch a server on or off for a conversation, or list them; return what to tell."""
        await self._host.ensure_ready(())
        servers = {server.name: server for server in self._host.servers}
        if not name:
            lines = [
                f"{'*' if server.name in conversation.tools.servers else ' '} {server.name}  "
                f"{stage_text(server)}"
                for server in servers.values()
            ]
            file = paths.data_folder() / paths.TOOL_SERVERS_FILE
            return "\n".join(lines) or f"no MCP servers: add one in the window, or in {file}"
        if name not in servers:
            return f"there is no MCP server {name}.{did_you_mean(name, servers)} /tools lists them"
        if name in conversation.tools.servers:
            conversation.tools = conversation.tools.with_server(name, is_on=False)
            return f"{name} is off in this conversation"
        if not servers[name].config.is_on:
            self._printer.remark(f"starting {servers[name].config.target}")
            await self._host.switch(name, is_on=True)
        await self._host.ensure_ready((name,))
        server = next(server for server in self._host.servers if server.name == name)
        if server.stage != "ready":
            return f"{name}: {stage_text(server)}"
        conversation.tools = conversation.tools.with_server(name, is_on=True)
        return f"{name} is on: {', '.join(tool.name for tool in server.tools) or 'no tools'}"

    async def offered(self, conversation: Conversation) -> tuple[Tool, ...]:
        if not conversation.tools.servers:
            return ()
        await self._host.ensure_ready(conversation.tools.servers)
        return engine_tools(self._named(conversation))

    async def carry_out(
        self, conversation: Conversation, run: Run, interrupts: Interrupts, allowed_calls: int
    ) -> bool:
        """Run the calls of an answer; return whether the model goes on with the results."""
        for call in run.tool_calls[:allowed_calls]:
            working = asyncio.ensure_future(self._result(conversation, call))
            with interrupts.calling(working.cancel):
                await asyncio.wait([working])
            if working.cancelled():
                text = "The user stopped this call."
                run.results.append(CallResult(call.id, "cancelled", text))
                self._printer.remark("the call was stopped")
                return False
            result = working.result()
            run.results.append(result)
            self._printer.remark(on_one_line(result.text, 200))
        if len(run.tool_calls) > allowed_calls:
            self._printer.remark(f"paused after {self.preferences.most_calls} calls; ask to go on")
        return len(run.tool_calls) <= allowed_calls

    async def finish(self) -> None:
        await self._host.finish()

    async def _result(self, conversation: Conversation, call: ToolCall) -> CallResult:
        tools = self._named(conversation)
        tool = tools.get(call.name)
        if tool is None:
            text = f"There is no tool called {call.name[:80]}. The tools are: {', '.join(tools)}."
            return CallResult(call.id, "failed", text)
        arguments = parse_arguments(call, tool)
        if isinstance(arguments, CallResult):
            return arguments
        self._printer.remark(f"{tool.server}: {tool.name} {call.arguments}")
        if not await self._is_allowed(conversation, tool):
            text = "The user did not allow this call."
            return CallResult(call.id, "denied", text, tool.server, tool.name)
        return await self._called(call, tool, arguments)

    async def _is_allowed(self, conversation: Conversation, tool: ToolInfo) -> bool:
        approval = approval_of(tool)
        if approval in (*self.preferences.allowed, *conversation.tools.approved):
            return True
        try:
            reply = await self._ask("Run it? [y]es, [a]lways in this conversation, [N]o: ")
        except EOFError:
            reply = None
        word = (reply or "").strip().casefold()
        if word in {"a", "always"}:
            conversation.tools = conversation.tools.with_approval(approval)
        return word in {"y", "yes", "a", "always"}

    async def _called(
        self, call: ToolCall, tool: ToolInfo, arguments: dict[str, Any]
    ) -> CallResult:
        began_s = time.monotonic()
        self._printer.status(f"{tool.title} …")
        try:
            answer = await self._host.call(tool, arguments, lambda *_: None, self._declined)
        except ToolsRefused as refused:
            answer = ToolAnswer(str(refused), is_error=True)
        finally:
            self._printer.status("")
        state: CallState = "failed" if answer.is_error else "done"
        took_s = time.monotonic() - began_s
        made = {kept_name(data): Picture(data) for data in answer.pictures}
        self._pictures.update(made)
        kept = tuple(kept_as(tool.title, name) for name in made)
        text = answer.text
        return CallResult(call.id, state, text, tool.server, tool.name, took_s, pictures=kept)

    async def _declined(self, question: ServerQuestion) -> QuestionReply:
        """Show what a server asks; forms are filled in only in the window."""
        message = on_one_line(question.message)
        self._printer.remark(f"{question.server} asks “{message}”; answer it in the window")
        return QuestionReply("decline")

    def _named(self, conversation: Conversation) -> dict[str, ToolInfo]:
        return enabled_tools(self._host.servers, conversation.tools)
