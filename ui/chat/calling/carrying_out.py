"""The background task that runs a conversation's tool calls. Main thread."""

import asyncio
from collections.abc import Callable

from ui.chat.calling.tool_loop import ToolLoop
from ui.kit.background.tasks import Tasks
from ui.records.messages import ConversationMessage


class CarryingOut:
    """Runs the calls of one answer at a time; reports the end once, also after a cancel."""

    def __init__(self, tasks: Tasks, ended: Callable[[ConversationMessage, bool], None]) -> None:
        self._tasks = tasks
        self._ended = ended
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether calls are running."""
        return self._task is not None

    def begin(
        self, loop: ToolLoop, answer: ConversationMessage, *, is_continued: bool = False
    ) -> None:
        """Begin to run the calls of an answer."""
        loop.begin(answer, is_continued=is_continued)
        task = self._task = self._tasks.start(self._carry_out(loop, answer), "carry out calls")
        # A task that is cancelled before its first step never runs its own ending.
        task.add_done_callback(lambda done: self._end(answer, done, goes_on=False))

    def cancel(self) -> None:
        """Cancel the running calls, also on their server."""
        if self._task is not None:
            self._task.cancel()

    async def _carry_out(self, loop: ToolLoop, answer: ConversationMessage) -> None:
        goes_on = False
        try:
            goes_on = await loop.carry_out(answer)
        finally:
            self._end(answer, asyncio.current_task(), goes_on=goes_on)

    def _end(
        self, answer: ConversationMessage, task: asyncio.Task[None] | None, *, goes_on: bool
    ) -> None:
        if self._task is not task:
            return  # the end was reported already
        self._task = None
        self._ended(answer, goes_on)
