"""Runs the tool calls of a conversation's answers, one after another. Main thread."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from engine.stopping.record import StopKind
from engine.values.request import Tool, ToolCall
from ui.kit.tasks import start_task
from ui.records.attachments import Attachment, picture_kind
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage
from ui.records.pictures import keep_picture
from ui.records.runs import Run
from ui.records.store import ConversationStore
from ui.records.tool_calls import (
    DENIAL_REASON,
    CallProgress,
    CallResult,
    Decision,
    parse_arguments,
)
from ui.records.tool_choice import approval_of, engine_tools
from ui.records.tool_servers import (
    QuestionReply,
    ServerQuestion,
    ToolAnswer,
    ToolInfo,
    ToolsRefused,
)
from ui.tools.toolbox import Toolbox

_log = logging.getLogger(__name__)


class ToolLoop(QObject):
    """Runs the calls of one answer at a time."""

    changed = Signal(object)  # Run
    ended = Signal(object, bool)  # ConversationMessage, whether the model continues

    def __init__(
        self,
        conversation: Conversation,
        toolbox: Toolbox,
        store: ConversationStore,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._conversation = conversation
        self._toolbox = toolbox
        self._store = store
        self._task: asyncio.Task[None] | None = None
        self.run: Run | None = None  # the run whose calls are running
        self._replies: dict[str, asyncio.Future[Any]] = {}  # decisions and replies of the user
        self._max_calls = 0

    async def offered(self, run: Run) -> tuple[Tool, ...]:
        """Start the servers of the conversation, and return the tools that the model may call."""
        if not self._conversation.tools.servers:
            return ()
        with contextlib.suppress(ToolsRefused):  # the program is ending
            await self._start_servers(run)
        return engine_tools(self._enabled_tools())

    def takes(self, run: Run) -> bool:
        """Return whether a run ended with calls that can be run here."""
        ending = run.finished
        is_call = ending is not None and ending.stop.kind is StopKind.TOOL_CALL
        return is_call and bool(run.tool_calls) and bool(self._conversation.tools.servers)

    def note_cut_off(self) -> None:
        """Note calls of the last answer that were not run, so that the user can run them."""
        messages = self._conversation.messages
        run = messages[-1].run if messages else None
        if run is not None and self.takes(run) and not (run.live.is_calling or run.paused_at):
            run.live.is_cut_off = any(run.result_of(call.id) is None for call in run.tool_calls)

    @property
    def is_running(self) -> bool:
        return self._task is not None

    def begin(self, answer: ConversationMessage, *, is_continued: bool = False) -> None:
        assert answer.run is not None
        if is_continued or self._count(answer) == 0:
            self._max_calls = self._count(answer) + self._toolbox.max_calls
        run = self.run = answer.run
        run.live.is_calling, run.paused_at, run.live.is_cut_off = True, 0, False
        task = self._task = start_task(self.parent(), self._run_all(answer), "run tool calls")
        # A task that is cancelled before its first step never runs its ``finally``.
        task.add_done_callback(lambda done: self._finish(answer, done, is_continued=False))

    def cancel(self) -> None:
        """Cancel the running calls, also on their server."""
        if self._task is not None:
            self._task.cancel()

    def reply(self, call_id: str, reply: QuestionReply | Decision) -> None:
        future = self._replies.get(call_id)
        if future is not None and not future.done():
            future.set_result(reply)

    async def _run_all(self, answer: ConversationMessage) -> None:
        """Run the calls of an answer; the model continues with the results unless it is paused."""
        run, is_continued = answer.run, False
        assert run is not None
        try:
            # Calls of an earlier day are continued with servers that do not run yet.
            with contextlib.suppress(ToolsRefused):
                await self._start_servers(run)
            is_continued = await self._run_until_limit(run, answer)
        except asyncio.CancelledError:
            text = "The user stopped this call before it was run."
            run.results += [
                CallResult(call.id, "cancelled", text)
                for call in run.tool_calls
                if run.result_of(call.id) is None
            ]
        finally:
            run.live.progress.clear()
            self._finish(answer, asyncio.current_task(), is_continued=is_continued)

    async def _run_until_limit(self, run: Run, answer: ConversationMessage) -> bool:
        for call in run.tool_calls:
            if run.result_of(call.id) is not None:
                continue
            if self._count(answer) >= self._max_calls:
                run.paused_at = self._toolbox.max_calls
                return False
            run.results.append(await self._result(run, call))
            self._store.save_messages(self._conversation, [answer])
            self.changed.emit(run)
        return True

    def _finish(
        self, answer: ConversationMessage, task: asyncio.Task[None] | None, *, is_continued: bool
    ) -> None:
        if self._task is task:
            self._task = self.run = None
            assert answer.run is not None
            answer.run.live.is_calling = False
            self.ended.emit(answer, is_continued)

    async def _start_servers(self, run: Run) -> None:
        """Start the servers of the conversation; the run lists the unready ones."""
        names = self._conversation.tools.servers
        waiting = ("stopped", "starting", "restarting")
        run.live.starting = tuple(
            server.name
            for server in self._toolbox.servers
            if server.name in names and server.stage in waiting
        )
        if run.live.starting:
            self.changed.emit(run)
        try:
            await self._toolbox.host.ensure_ready(names)
        finally:
            if run.live.starting:
                run.live.starting = ()
                self.changed.emit(run)

    def _enabled_tools(self) -> dict[str, ToolInfo]:
        return self._toolbox.tools_of(self._conversation)

    def _count(self, answer: ConversationMessage) -> int:
        """Return the number of calls since the last question."""
        count = 0
        for message in reversed(self._conversation.tree.path_to(answer)):
            if message.run is None:
                break
            count += len(message.run.results)
        return count

    async def _result(self, run: Run, call: ToolCall) -> CallResult:
        tools = self._enabled_tools()
        tool = tools.get(call.name)
        if tool is None:
            return CallResult(call.id, "failed", self._unknown_tool(call.name, tools))
        arguments = parse_arguments(call, tool)
        if isinstance(arguments, CallResult):
            return arguments
        decision = await self._decision(run, call, tool)
        if decision.permission == "denied":
            typed = decision.reason.strip()
            reason = f"{DENIAL_REASON}{typed}" if typed else ""
            text = f"The user did not allow this call.{reason}"
            return CallResult(call.id, "denied", text, tool.server, tool.name)
        return await self._run_call(run, call, tool, arguments)

    def _unknown_tool(self, name: str, known: Iterable[str]) -> str:
        failed = [
            server.problem
            for server in self._toolbox.servers
            if server.name in self._conversation.tools.servers and server.stage == "failed"
        ]
        names = ", ".join(known)[:400] or "none"
        return " ".join(failed) or (f"There is no tool called {name[:80]}. The tools are: {names}.")

    async def _decision(self, run: Run, call: ToolCall, tool: ToolInfo) -> Decision:
        approval = approval_of(tool)
        if self._toolbox.is_allowed(tool) or approval in self._conversation.tools.approved:
            return Decision("once")
        run.live.progress[call.id] = CallProgress(tool.server, tool.title, needs_user=True)
        try:
            decision: Decision = await self._wait_for_reply(run, call)
        finally:
            run.live.progress.pop(call.id, None)
        if decision.permission == "always":
            self._toolbox.allow(tool)
        elif decision.permission == "conversation":
            self._conversation.tools = self._conversation.tools.with_approval(approval)
            self._store.save(self._conversation)
        return decision

    async def _wait_for_reply(self, run: Run, call: ToolCall) -> Any:
        """Show the question in the card of the call, and wait for the user."""
        self._replies[call.id] = asyncio.get_running_loop().create_future()
        self.changed.emit(run)
        try:
            return await self._replies[call.id]
        finally:
            self._replies.pop(call.id, None)

    async def _run_call(
        self, run: Run, call: ToolCall, tool: ToolInfo, arguments: dict[str, Any]
    ) -> CallResult:
        started_s = time.monotonic()
        run.live.progress[call.id] = CallProgress(tool.server, tool.title)
        self.changed.emit(run)

        def update(**changes: Any) -> None:
            if call.id in run.live.progress:
                run.live.progress[call.id] = replace(run.live.progress[call.id], **changes)

        async def ask(question: ServerQuestion) -> QuestionReply:
            update(needs_user=True, question=question)
            try:
                reply: QuestionReply = await self._wait_for_reply(run, call)
                return reply
            finally:
                update(needs_user=False, question=None)
                self.changed.emit(run)

        calling = asyncio.ensure_future(
            self._toolbox.call(
                tool,
                arguments,
                lambda done, total, message: update(done=done, total=total, message=message),
                ask,
                self._conversation,
            )
        )
        try:
            while not (await asyncio.wait({calling}, timeout=0.5))[0]:
                update(running_s=time.monotonic() - started_s)
                self.changed.emit(run)
            answer = calling.result()
        except ToolsRefused as refused:
            answer = ToolAnswer(str(refused), is_error=True)
        except asyncio.CancelledError:
            calling.cancel()
            text, took_s = "The user stopped this call.", time.monotonic() - started_s
            result = CallResult(call.id, "cancelled", text, tool.server, tool.name, took_s)
            run.results.append(result)
            raise
        finally:
            run.live.progress.pop(call.id, None)
        took_s = time.monotonic() - started_s
        sent = answer.text.encode(errors="replace")[: self._toolbox.max_result_bytes]
        chars = len(sent.decode(errors="ignore"))
        result = CallResult(
            call.id,
            "failed" if answer.is_error else "done",
            answer.text,
            tool.server,
            tool.name,
            took_s,
            chars if chars < len(answer.text) else None,
        )
        saving = asyncio.ensure_future(self._save_pictures(answer, tool))
        try:
            return replace(result, pictures=await asyncio.shield(saving))
        except asyncio.CancelledError:  # the call itself has had its effect
            run.results.append(result)
            await asyncio.wait({saving})
            run.results[-1] = replace(result, pictures=saving.result())
            raise

    async def _save_pictures(self, answer: ToolAnswer, tool: ToolInfo) -> tuple[Attachment, ...]:
        folder = self._store.pictures_folder
        if not answer.pictures or folder is None:
            return ()
        try:
            return await asyncio.to_thread(_write_pictures, folder, answer.pictures, tool.title)
        except OSError as error:
            _log.warning("pictures of %s cannot be saved", tool.server, exc_info=error)
            return ()


def _write_pictures(folder: Path, pictures: Iterable[bytes], name: str) -> tuple[Attachment, ...]:
    return tuple(
        keep_picture(folder, f"{name} {number}.{picture_kind(data)}", data)
        for number, data in enumerate(pictures, 1)
    )
