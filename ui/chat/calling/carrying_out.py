"""The task in which a conversation's calls are carried out. Main thread."""

import asyncio
from collections.abc import Callable

from ui.chat.calling.tool_loop import ToolLoop
from ui.kit.background.tasks import Tasks
from ui.records.messages import ConversationMessage


class CarryingOut:
    """Carries out the calls of one answer at a time; its end is told once, also of a cancel.

    Args:
        tasks: Where the task runs.
        ended: Told of the answer, and of whether the model goes on with the results.
    """

    def __init__(self, tasks: Tasks, ended: Callable[[ConversationMessage, bool], None]) -> None:
        self._tasks = tasks
        self._ended = ended
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether calls are being carried out."""
        return self._task is not None

    def begin(
        self, loop: ToolLoop, answer: ConversationMessage, *, is_continued: bool = False
    ) -> None:
        """Begin with the calls of an answer.

        Args:
            loop: Carries them out.
            answer: What makes the calls.
            is_continued: Whether the person has let it go on beyond the limit.
        """
        loop.begin(answer, is_continued=is_continued)
        task = self._task = self._tasks.start(self._carry_out(loop, answer), "carry out calls")
        # A task that is cancelled before its first step never reaches its own end.
        task.add_done_callback(lambda done: self._end(answer, done, goes_on=False))

    def cancel(self) -> None:
        """Cancel the calls, if there are any; their server is told."""
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
            return  # has been told
        self._task = None
        self._ended(answer, goes_on)
