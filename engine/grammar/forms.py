"""Prepares the forms of requests on another thread, before the engine thread needs them.

A request whose schemas were prepared recently gets its form at once. Any other waits for one
thread, which lets the trial process compile it first. Any event loop may use it.
"""

import asyncio
import threading
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from engine.errors import EngineClosed, QueueFull
from engine.grammar.masks import Form

if TYPE_CHECKING:  # imported only when there is something to compile
    from engine.grammar.form_compiler import FormCompiler, GrammarHelper
    from engine.grammar.grammars import FormDraft

MAX_WAITING = 64
_CLOSED = "the engine has been shut down"


class Forms:
    """The forms of one engine's answers."""

    def __init__(self) -> None:
        # Tries grammars; made with the first one.
        self._helper: GrammarHelper | None = None
        self._lock = threading.Lock()
        self._thread: ThreadPoolExecutor | None = None
        self._waiting = 0
        self._why_closed: str | None = None
        # By the names of the models. Weak references, so that a model's memory can be freed.
        self._makers: dict[str | None, weakref.ref[FormCompiler]] = {}

    @property
    def helper(self) -> "GrammarHelper":
        """The helper that tries grammars."""
        with self._lock:
            return self._made_helper()

    def _made_helper(self) -> "GrammarHelper":
        if self._helper is None:
            from engine.grammar.form_compiler import GrammarHelper

            self._helper = GrammarHelper()
        return self._helper

    def maker(self, model: str | None = None) -> "FormCompiler | None":
        """Return the compiler of a model's forms; None if the model is not loaded.

        Args:
            model: Its name among several; None for the default one.
        """
        known = self._makers.get(model)
        return None if known is None else known()

    def learn(self, maker: "FormCompiler", model: str | None = None) -> None:
        """Note the compiler of a model's forms. Any thread."""
        self._makers[model] = weakref.ref(maker)

    async def prepared(self, maker: "FormCompiler", draft: "FormDraft") -> Form:
        """Return the form of a draft; cancelling the caller ends the wait.

        Raises:
            InvalidRequest: It cannot be compiled; the message names the field.
            QueueFull: Too many other forms wait to be compiled.
            HelperUnavailable: The trial process does not start, or does not answer.
            EngineClosed: ``close`` was called.
        """
        form = maker.ready(draft)
        if form is not None:
            return form
        future = self._submit(maker, draft)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise EngineClosed(
                self._why_closed or _CLOSED
            ) from None  # by ``close``, which took it from the queue

    def close(self, why: str = _CLOSED) -> None:
        """End the trial process and refuse waiting forms. The first reason is kept. Any thread."""
        with self._lock:
            why = self._why_closed = self._why_closed or why
            thread = self._thread
            helper = self._helper
        if helper is not None:
            helper.close(why)
        if thread is not None:
            thread.shutdown(wait=False, cancel_futures=True)

    def _submit(self, maker: "FormCompiler", draft: "FormDraft") -> "Future[Form]":
        with self._lock:
            if self._why_closed is not None:
                raise EngineClosed(self._why_closed)
            if self._waiting >= MAX_WAITING:
                raise QueueFull(self._waiting)
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "fullstop-grammars")
            self._waiting += 1
            future = self._thread.submit(maker.prepare, draft, self._made_helper())
        future.add_done_callback(self._leave)
        return future

    def _leave(self, _: "Future[Form]") -> None:
        with self._lock:
            self._waiting -= 1
