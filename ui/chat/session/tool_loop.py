"""Runs the tool calls of a conversation's answers, one after another. Main thread."""

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine import StopKind, Tool, ToolCall
from engine.files.safe_files import write_whole
from ui.kit.tasks import start_task
from ui.records.attachments import Attachment, kept_as, picture_kind
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage
from ui.records.runs import Run
from ui.records.store import ConversationStore
from ui.records.tool_calls import CallProgress, CallResult, CallState, Decision, parse_arguments
from ui.records.tool_choice import approval_of, enabled_tools, engine_tools
from ui.records.tool_servers import (
    QuestionReply,
    ServerQuestion,
    ServerStage,
    ToolAnswer,
    ToolInfo,
    ToolsRefused,
)
from ui.tools.toolbox import Toolbox

# How often the shown duration of a running call is updated.
_SHOWN_EVERY_S = 0.5
_MOST_NAMES_CHARS = 400
_log = logging.getLogger(__name__)


class ToolLoop:
    """Runs the calls of one answer at a time; reports the end once, also after a cancel.

    The run has the questions for the person and the progress of calls; ``decide`` takes the
    person's decision.
    """

    def __init__(
        self,
        conversation: Conversation,
        toolbox: Toolbox,
        store: ConversationStore,
        owner: object,
        tell: Callable[[Run], None],
        ended: Callable[[ConversationMessage, bool], None],
    ) -> None:
        self._conversation = conversation
        self._toolbox = toolbox
        self._store = store
        self._owner = owner
        self._tell = tell
        self._ended = ended
        self._task: asyncio.Task[None] | None = None
        self.run: Run | None = None  # whose calls are running
        self._asked: dict[str, asyncio.Future[Decision]] = {}
        self._questions: dict[str, asyncio.Future[QuestionReply]] = {}
        self._allowed_calls = 0

    async def offered(self, run: Run) -> tuple[Tool, ...]:
        """Start the servers of the conversation, and return the tools that the model may call."""
        if not self._conversation.tools.servers:
            return ()
        try:
            await self._start_servers(run)
        except ToolsRefused:
            return ()  # the program is ending
        return engine_tools(self._named())

    def takes(self, run: Run) -> bool:
        """Return whether a run ended with calls that can be run here."""
        ending = run.finished
        is_call = ending is not None and ending.stop.kind is StopKind.TOOL_CALL
        return is_call and bool(run.tool_calls) and bool(self._conversation.tools.servers)

    def note_cut_off(self) -> None:
        """Note calls of the last answer that nobody ran, so that the person can have them run."""
        messages = self._conversation.messages
        run = messages[-1].run if messages else None
        if run is not None and self.takes(run) and not (run.is_calling or run.paused_at):
            run.is_cut_off = any(run.result_of(call.id) is None for call in run.tool_calls)

    @property
    def is_running(self) -> bool:
        """Whether calls are running."""
        return self._task is not None

    def begin(self, answer: ConversationMessage, *, is_continued: bool = False) -> None:
        """Begin to run the calls of an answer."""
        assert answer.run is not None
        if is_continued or self._count(answer) == 0:
            self._allowed_calls = self._count(answer) + self._toolbox.most_calls
        answer.run.is_calling, answer.run.paused_at, answer.run.is_cut_off = True, 0, False
        self.run = answer.run
        task = self._task = start_task(self._owner, self._carry_out(answer), "carry out calls")
        # A task that is cancelled before its first step never runs its own ending.
        task.add_done_callback(lambda done: self._end(answer, done, goes_on=False))

    def cancel(self) -> None:
        """Cancel the running calls, also on their server."""
        if self._task is not None:
            self._task.cancel()

    def reply(self, call_id: str, reply: QuestionReply) -> None:
        """Answer what the server asks during a call."""
        replied = self._questions.get(call_id)
        if replied is not None and not replied.done():
            replied.set_result(reply)

    def decide(self, call_id: str, decision: Decision) -> None:
        """Allow or deny a call that waits for permission."""
        asked = self._asked.get(call_id)
        if asked is not None and not asked.done():
            asked.set_result(decision)

    # -- inside ----------------------------------------------------------------------------

    async def _carry_out(self, answer: ConversationMessage) -> None:
        """Run the calls of an answer; the model continues with the results unless it is paused."""
        run, goes_on = answer.run, False
        assert run is not None
        try:
            # Calls of an earlier day are continued with servers that nobody has started yet.
            with contextlib.suppress(ToolsRefused):
                await self._start_servers(run)
            goes_on = await self._run_calls(run, answer)
        except asyncio.CancelledError:
            self._stop_rest(run)
        finally:
            run.progress.clear()
            self._asked.clear()
            self._end(answer, asyncio.current_task(), goes_on=goes_on)

    async def _run_calls(self, run: Run, answer: ConversationMessage) -> bool:
        for call in run.tool_calls:
            if run.result_of(call.id) is not None:
                continue
            if self._count(answer) >= self._allowed_calls:
                run.paused_at = self._toolbox.most_calls
                return False
            run.results.append(await self._result(run, call))
            self._store.save_messages(self._conversation, [answer])
            self._tell(run)
        return True

    def _end(
        self, answer: ConversationMessage, task: asyncio.Task[None] | None, *, goes_on: bool
    ) -> None:
        if self._task is not task:
            return  # the end was reported already
        self._task = self.run = None
        assert answer.run is not None
        answer.run.is_calling = False
        self._ended(answer, goes_on)

    async def _start_servers(self, run: Run) -> None:
        """Start the servers of the conversation; a run shows which ones it waits for."""
        wanted = self._conversation.tools.servers
        waiting = (ServerStage.STOPPED, ServerStage.STARTING, ServerStage.RESTARTING)
        run.starting = tuple(
            server.name
            for server in self._toolbox.servers
            if server.name in wanted and server.stage in waiting
        )
        if run.starting:
            self._tell(run)
        try:
            await self._toolbox.host.ensure_ready(wanted)
        finally:
            if run.starting:
                run.starting = ()
                self._tell(run)

    def _named(self) -> dict[str, ToolInfo]:
        return enabled_tools(self._toolbox.servers, self._conversation.tools)

    def _count(self, answer: ConversationMessage) -> int:
        """Return the number of calls since the last question."""
        count = 0
        for message in reversed(self._conversation.tree.path_to(answer)):
            if message.run is None:
                break
            count += len(message.run.results)
        return count

    async def _result(self, run: Run, call: ToolCall) -> CallResult:
        tools = self._named()
        tool = tools.get(call.name)
        if tool is None:
            return CallResult(call.id, CallState.FAILED, self._unknown(call.name, list(tools)))
        arguments = parse_arguments(call, tool)
        if isinstance(arguments, CallResult):
            return arguments
        decision = await self._decision(run, call, tool)
        if decision.permission == "denied":
            reason = f" Reason: {decision.reason.strip()}" if decision.reason.strip() else ""
            words = f"The user did not allow this call.{reason}"
            return CallResult(call.id, CallState.DENIED, words, tool.server, tool.name)
        return await self._run_call(run, call, tool, arguments)

    def _unknown(self, name: str, known: list[str]) -> str:
        lost = [
            server
            for server in self._toolbox.servers
            if server.name in self._conversation.tools.servers
            and server.stage is ServerStage.FAILED
        ]
        if lost:
            return " ".join(server.problem for server in lost)
        names = ", ".join(known)[:_MOST_NAMES_CHARS] or "none"
        return f"There is no tool called {name[:80]}. The tools are: {names}."

    async def _decision(self, run: Run, call: ToolCall, tool: ToolInfo) -> Decision:
        approval = approval_of(tool)
        if self._toolbox.is_allowed(tool) or approval in self._conversation.tools.approved:
            return Decision("once")
        asked: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self._asked[call.id] = asked
        run.progress[call.id] = CallProgress(tool.server, tool.title, needs_user=True)
        self._tell(run)
        try:
            decision = await asked
        finally:
            self._asked.pop(call.id, None)
            run.progress.pop(call.id, None)
        if decision.permission == "always":
            self._toolbox.allow(tool)
        elif decision.permission == "conversation":
            tools = self._conversation.tools.with_approval(approval)
            self._conversation.tools = tools
            self._store.save(self._conversation)
        return decision

    async def _run_call(
        self, run: Run, call: ToolCall, tool: ToolInfo, arguments: dict[str, Any]
    ) -> CallResult:
        began_s = time.monotonic()
        run.progress[call.id] = CallProgress(tool.server, tool.title)
        self._tell(run)

        def note(done: float, total: float | None, message: str) -> None:
            if call.id in run.progress:
                now = run.progress[call.id]
                run.progress[call.id] = replace(now, done=done, total=total, message=message)

        async def ask(question: ServerQuestion) -> QuestionReply:
            return await self._reply(run, call, question)

        calling = asyncio.ensure_future(self._toolbox.host.call(tool, arguments, note, ask))
        try:
            while not (await asyncio.wait({calling}, timeout=_SHOWN_EVERY_S))[0]:
                running_s = time.monotonic() - began_s
                run.progress[call.id] = replace(run.progress[call.id], running_s=running_s)
                self._tell(run)
            answer = calling.result()
        except ToolsRefused as refused:
            answer = ToolAnswer(str(refused), is_error=True)
        except asyncio.CancelledError:
            calling.cancel()
            words = "The user stopped this call while it was running."
            took_s = time.monotonic() - began_s
            stopped = CallState.CANCELLED
            run.results.append(CallResult(call.id, stopped, words, tool.server, tool.name, took_s))
            raise
        finally:
            run.progress.pop(call.id, None)
        took_s = time.monotonic() - began_s
        text, state = answer.text, CallState.FAILED if answer.is_error else CallState.DONE
        pictures = await self._kept(answer, tool)
        sent = text.encode(errors="replace")[: self._toolbox.most_result_bytes]
        chars = len(sent.decode(errors="ignore"))
        sent_chars = chars if chars < len(text) else None
        return CallResult(
            call.id, state, text, tool.server, tool.name, took_s, sent_chars, pictures
        )

    async def _reply(self, run: Run, call: ToolCall, question: ServerQuestion) -> QuestionReply:
        """Show a server's question in the card of the call, and wait for the person's answer."""
        replied: asyncio.Future[QuestionReply] = asyncio.get_running_loop().create_future()
        self._questions[call.id] = replied
        run.progress[call.id] = replace(run.progress[call.id], needs_user=True, question=question)
        self._tell(run)
        try:
            return await replied
        finally:
            self._questions.pop(call.id, None)
            if call.id in run.progress:
                run.progress[call.id] = replace(
                    run.progress[call.id], needs_user=False, question=None
                )
                self._tell(run)

    async def _kept(self, answer: ToolAnswer, tool: ToolInfo) -> tuple[Attachment, ...]:
        folder = self._store.pictures_folder
        if not answer.pictures or folder is None:
            return ()
        try:
            return await asyncio.to_thread(_keep_pictures, folder, answer.pictures, tool.title)
        except OSError as error:
            _log.warning("pictures of %s could not be kept", tool.server, exc_info=error)
            return ()

    def _stop_rest(self, run: Run) -> None:
        """Record that the person stopped the calls that were not run."""
        for call in run.tool_calls:
            if run.result_of(call.id) is None:
                words = "The user stopped this call before it was run."
                run.results.append(CallResult(call.id, CallState.CANCELLED, words))


def _keep_pictures(folder: Path, pictures: Iterable[bytes], name: str) -> tuple[Attachment, ...]:
    """Write pictures to the store's folder, each named by its content: none is kept twice."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = []
    for number, data in enumerate(pictures, 1):
        kind = picture_kind(data)
        file = f"{hashlib.sha256(data).hexdigest()[:32]}.{kind}"
        if not (folder / file).exists():
            write_whole(folder / file, data)
        kept.append(kept_as(f"{name} {number}.{kind}", file))
    return tuple(kept)
