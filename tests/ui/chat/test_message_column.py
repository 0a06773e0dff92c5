"""A long conversation: views near the screen only, and a reader who is never moved."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext

import pytest
from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication

from tests.support.answers.said import finished_run
from tests.ui.driving import Enter, Living, ScriptedEngine, eventually, found_texts, session
from ui.chat.messages.answer_view import AnswerView
from ui.chat.messages.message_column import MessageColumn
from ui.chat.messages.question_view import QuestionView
from ui.chat.session.conversation_controller import ConversationController
from ui.kit.theme import Theme
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage


def long_conversation(turns: int = 120) -> Conversation:
    messages: list[ConversationMessage] = []
    for number in range(turns):
        messages.append(ConversationMessage("user", f"Question {number}"))
        text = f"Answer {number}: **bold** and `code`.\n\n" + "More words follow. " * (number % 40)
        messages.append(ConversationMessage("assistant", text, finished_run(text, thinking="")))
    return Conversation("Long", messages)


@asynccontextmanager
async def shown_column() -> AsyncIterator[MessageColumn]:
    column = MessageColumn()
    column.resize(820, 700)
    column.show()
    yield column
    column.close()
    column.deleteLater()


@pytest.fixture
def column(enter: Enter, theme: Theme) -> Living[MessageColumn]:
    return enter(shown_column)


@pytest.fixture
def opened(
    enter: Enter, column: Living[MessageColumn], scripted: ScriptedEngine
) -> Living[ConversationController]:
    return enter(lambda: nullcontext(session(scripted, long_conversation(), parent=column.value)))


def views(column: MessageColumn) -> list[AnswerView | QuestionView]:
    return column.views


async def settled(column: MessageColumn) -> None:
    """Wait until a few turns of the loop change nothing more, and nothing is to be filled."""
    before, turns = None, 0
    filling = column._near._filling
    async with asyncio.timeout(60):
        while turns < 6:
            await asyncio.sleep(0)
            QApplication.sendPostedEvents(None, int(QEvent.Type.LayoutRequest))
            bar = column.verticalScrollBar()
            now = bar.value(), bar.maximum(), column.width(), len(views(column))
            turns = turns + 1 if now == before and not filling.isActive() else 0
            before = now


async def test_a_long_conversation_opens_at_its_end_with_few_views(
    column: MessageColumn, opened: ConversationController
) -> None:
    column.show_conversation(opened)
    column.grab()
    await settled(column)
    bar = column.verticalScrollBar()
    assert bar.maximum() > 10_000
    assert bar.value() == bar.maximum()
    assert len(views(column)) < 60
    last = column.answer_view(opened.conversation.messages[-1].run)  # type: ignore[arg-type]
    assert last is not None
    assert not last.visibleRegion().isEmpty()


class Events(QObject):
    """Counts all events of the program."""

    count = 0

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        self.count += 1
        return False


async def test_opening_costs_what_is_seen_however_long_the_conversation_is(
    column: MessageColumn,
    opened: ConversationController,
    scripted: ScriptedEngine,
    qapp: QApplication,
) -> None:
    counts = []
    events = Events()
    others = [session(scripted, long_conversation(n), parent=column) for n in (80, 1_000)]
    for other in (*others, *others):  # the first time, more is loaded
        column.show_conversation(opened)
        await settled(column)
        events.count = 0
        qapp.installEventFilter(events)
        column.show_conversation(other)
        await settled(column)
        qapp.removeEventFilter(events)
        counts.append(events.count)
    assert counts[3] < 1.1 * counts[2]


async def test_scrolling_shows_every_message_and_drops_far_views(
    column: MessageColumn, opened: ConversationController
) -> None:
    column.show_conversation(opened)
    await settled(column)
    bar = column.verticalScrollBar()
    for _ in range(15):
        bar.setValue(bar.value() - 500)
        await asyncio.sleep(0)
        middle = column.viewport().rect().center()
        spot = column._stack.mapFrom(column.viewport(), middle)
        slot = min(column._stack.slots, key=lambda s: abs(s.top + s.height // 2 - spot.y()))
        assert slot.view is not None
    await settled(column)
    assert len(views(column)) < 120
    assert bar.value() < bar.maximum() - 3000


async def test_a_message_is_brought_into_sight_wherever_it_is(
    column: MessageColumn, opened: ConversationController
) -> None:
    column.show_conversation(opened)
    bar = column.verticalScrollBar()
    await settled(column)
    for number in (3, 220, 101):
        message = opened.conversation.messages[number]
        column.show_message(message)
        await settled(column)
        slot = next(s for s in column._stack.slots if s.message is message)
        await eventually(lambda s=slot: s.view is not None)
        await eventually(lambda s=slot: 0 <= s.top - bar.value() < 200)


async def test_words_that_were_found_are_marked_and_brought_into_sight(
    column: MessageColumn, opened: ConversationController
) -> None:
    messages = opened.conversation.messages
    far_down = "word\n\n" * 80 + "the Needle itself\n\n" + "word\n\n" * 80
    messages[101].run.text = far_down  # type: ignore[union-attr]
    column.show_conversation(opened)
    await settled(column)
    column.show_message(messages[101], ("needle",))
    slot = next(s for s in column._stack.slots if s.message is messages[101])
    await eventually(lambda: isinstance(slot.view, AnswerView))
    view = slot.view
    assert isinstance(view, AnswerView)
    assert found_texts(view.text_view) == ["Needle"]
    assert column._stack.marked is None, "the words are marked, not the message"

    def height_on_screen() -> int:
        down = slot.find()
        assert down is not None
        return slot.top + down - column.verticalScrollBar().value()

    await eventually(lambda: 0 <= height_on_screen() < 650)
    # Far away its view is given up; there again, the words are marked again.
    column._anchor.release()
    column.verticalScrollBar().setValue(0)
    await eventually(lambda: slot.view is None)
    column.verticalScrollBar().setValue(slot.top)
    await eventually(lambda: isinstance(slot.view, AnswerView))
    assert found_texts(slot.view.text_view) == ["Needle"]  # type: ignore[union-attr]
    column.show_message(messages[0], ("nothing of it",))
    assert column._stack.marked is column._stack.slots[0]
    column.forget_found()
    assert slot.view is None or found_texts(slot.view.text_view) == []  # type: ignore[attr-defined]


async def test_message_whose_view_cannot_be_built_does_not_block_the_column(
    column: MessageColumn, opened: ConversationController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column._stack, "fill", lambda *_: None)
    column.show_conversation(opened)
    await settled(column)
    assert views(column) == []
