"""Answers that a test dictates, and waiting for what a window shows."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QAction
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QLabel, QMessageBox, QWidget

from engine.generation import Generation
from engine.library.model_info import EosToken, ModelInfo
from engine.scheduling.model_list import ModelStatus
from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Event, Finished, TextDelta, Timing, Usage
from engine.values.figures import end_facts
from engine.values.request import CacheOwner, GenerationRequest
from engine.wording import visible
from tests.support.memory_store import MemoryConversationStore
from tests.support.shown import shown
from ui.chat.session.conversation_controller import ChatContext, ConversationController
from ui.chat.session.traces import Traces
from ui.chat.verdict_view import SHOWN_ABOVE, VerdictView
from ui.kit.flow_text import FlowText
from ui.kit.labels import FactTable
from ui.models.models import ShownModel
from ui.records.conversations import Conversation
from ui.records.runs import Run
from ui.records.store import ConversationStore
from ui.tools.toolbox import Toolbox
from ui.window.main_window import MainWindow
from ui.window.other_windows import plain

RunOnLoop = Callable[[Coroutine[Any, Any, Any]], Any]

T = TypeVar("T")


class Living(Generic[T]):
    """What a test uses while its loop runs; there is no value before."""

    value: T

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self.make = make


class Enter(Protocol):
    """Enters a context once the test's loop runs."""

    def __call__(self, make: Callable[[], AbstractAsyncContextManager[T]]) -> Living[T]: ...


async def eventually(is_so: Callable[[], bool], timeout_s: float = 60) -> None:
    """Wait until something holds; fail the test if it does not in time."""
    async with asyncio.timeout(timeout_s):
        while not is_so():  # noqa: ASYNC110 - what is awaited is the window's look
            await asyncio.sleep(0.01)


def facts_text(view: VerdictView) -> str:
    """Return the names and values of the stop panel's details, one a line."""
    labels = view.details.findChildren(FactTable)[-1].findChildren(QLabel)
    return "\n".join(item.accessibleName() for item in labels if item.accessibleName())


def all_facts(view: VerdictView) -> str:
    """Return the details, after those that the card and the end of the text show."""
    finished = None if view.run is None else view.run.finished
    if finished is None:
        return facts_text(view)
    assert view.run is not None
    shown = SHOWN_ABOVE
    facts = [fact for fact in end_facts(finished, view.run.context) if fact.name in shown]
    lines = [f"{f.name}: {'  '.join(filter(None, (visible(f.text), f.value)))}" for f in facts]
    return "\n".join((*lines, facts_text(view)))


async def confirm_deletion(parent: QWidget) -> str:
    """Press Delete in the question that a window asks; return what it says is deleted."""
    boxes: list[QMessageBox] = []

    def is_asked() -> bool:
        boxes[:] = [box for box in parent.findChildren(QMessageBox) if box.isVisible()]
        return bool(boxes)

    await eventually(is_asked)
    (box,) = boxes
    next(one for one in box.buttons() if one.text() == "Delete").click()
    return box.informativeText()


MODEL = ModelInfo(
    id="scripted",
    path=Path("/models/scripted"),
    architecture="qwen3",
    context_length=4096,
    vocabulary_size=768,
    eos=(EosToken(2, "<|im_end|>", "tokenizer"),),
    can_think=True,
    can_call_tools=True,
    size_bytes=4_000_000,
    loaded_at=0,
)


class ScriptedEngine:
    """Hands out real ``Generation`` objects whose events the test dictates."""

    def __init__(self) -> None:
        self.model: ModelInfo | None = MODEL
        self.requests: list[GenerationRequest] = []
        self.generations: list[Generation] = []
        self.cancelled: list[Generation] = []
        self.refusal: Exception | None = None
        self.takes: asyncio.Event | None = None
        self.disk = None
        self.is_choosing = False
        self.models = ()
        self.forgotten: list[CacheOwner] = []

    @property
    def status(self) -> ModelStatus:
        return ModelStatus(state="ready" if self.model else "unloaded", info=self.model)

    async def generate(self, request: GenerationRequest) -> Generation:
        self.requests.append(request)
        if self.refusal is not None:
            raise self.refusal
        if self.takes is not None:
            await self.takes.wait()
        loop = asyncio.get_running_loop()
        generation = Generation(request, loop, self.cancelled.append)
        generation.prompt_tokens = 7
        self.generations.append(generation)
        return generation

    def unload_after(self, idle_s: float | None) -> None:
        pass

    def cancel_load(self) -> None:
        pass

    def forget(self, owner: CacheOwner) -> None:
        self.forgotten.append(owner)

    async def tokenize(self, text: str, name: str | None = None) -> tuple[tuple[int, str], ...]:
        return tuple((ord(char), char) for char in text)

    async def count_tokens(self, request: GenerationRequest) -> int:
        return sum(len(str(message.content)) for message in request.messages)

    def say(self, *events: Event) -> None:
        """Let the newest answer's engine side push events."""
        push(self.generations[-1], events)


END = Finished(StopInfo(StopKind.STOP_STRING, "6", text_offset=3), Usage(7, 0, 3), Timing())


@asynccontextmanager
async def opened(
    window: MainWindow,
    *,
    quits: bool = False,
    is_ready: bool = False,
    is_in_front: bool = False,
    scripted: ScriptedEngine | None = None,
) -> AsyncIterator[MainWindow]:
    """Show a window, and see it end with the answers of a scripted engine.

    Args:
        window: The window.
        quits: Whether the program ends with it.
        is_ready: Whether to wait for its model.
        is_in_front: Whether to wait until it is active.
        scripted: The engine whose answers end, if a test did not end them.
    """
    async with shown(window, quits=quits):
        if is_in_front:
            window.activateWindow()
            await eventually(window.isActiveWindow)
        if is_ready:
            await eventually(lambda: window.workspace.models.stage == "ready")
        try:
            yield window
        finally:
            for generation in scripted.generations if scripted is not None else ():
                push(generation, [END])


def found_texts(view: FlowText) -> list[str]:
    """Return the highlighted words, as the text spells them."""
    return [mark.cursor.selectedText() for mark in view.extraSelections()]


class OneModel:
    """The scripted engine's model, whichever a conversation wants."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def status(self, folder: Path | None = None) -> ShownModel:
        info = self._engine.model
        return ShownModel("" if info is None else info.id, folder, "ready", info=info)

    @asynccontextmanager
    async def ready(self, _conversation: Conversation) -> AsyncIterator[ModelInfo | None]:
        yield self._engine.model


def session(
    engine: Any,
    conversation: Conversation | None = None,
    store: ConversationStore | None = None,
    traces: Traces | None = None,
    toolbox: Toolbox | None = None,
    parent: QObject | None = None,
) -> ConversationController:
    """Return a session; what a test does not give is kept in memory."""
    store = store or MemoryConversationStore()
    traces = Traces() if traces is None else traces
    context = ChatContext(engine, store, traces, OneModel(engine), toolbox)
    return ConversationController(context, conversation or Conversation(), parent)


async def ended(asked: ConversationController | MainWindow) -> None:
    """Wait until the answer in a conversation, or in the one that is shown, is over."""
    chat = asked if isinstance(asked, ConversationController) else asked.workspace.current
    await eventually(lambda: not chat.is_running)


async def begun(
    asked: ConversationController | MainWindow,
    scripted: ScriptedEngine,
    question: str | Callable[[], Run | None] = "Go",
) -> Run:
    """Ask something; return its answer once the engine has it."""
    count = len(scripted.generations)
    if callable(question):
        run = question()
    elif isinstance(asked, ConversationController):
        run = asked.send(question)
    else:
        assert asked.workspace.send(question)
        run = asked.workspace.current.run
    assert run is not None
    await eventually(lambda: len(scripted.generations) > count)
    return run


async def answered(
    asked: ConversationController | MainWindow,
    scripted: ScriptedEngine,
    question: str | Callable[[], Run | None] = "Go",
    text: str = "1",
    end: Finished = END,
) -> Run:
    """Ask something, and let the engine answer it; return the answer."""
    run = await begun(asked, scripted, question)
    scripted.say(TextDelta(text), end)
    await ended(asked)
    return run


def entry(window: QWidget, words: str) -> QAction:
    """Return the first entry of the menus that begins with these words."""
    found = (one for one in window.findChildren(QAction) if plain(one.text()).startswith(words))
    return next(found)


def press(widget: QWidget, name: str) -> None:
    """Press a visible button by the name that a screen reader says."""
    buttons = widget.findChildren(QAbstractButton)
    named = (one for one in buttons if one.accessibleName().startswith(name))
    button = next(one for one in named if one.isVisible() and one.isEnabled())
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)


def push(generation: Generation, events: Iterable[Event]) -> None:
    if generation.push(events):
        generation.wake()
