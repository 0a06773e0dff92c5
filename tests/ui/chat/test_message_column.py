"""A long conversation: views near the screen only, and a reader who is never moved."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext

import pytest
from PySide6.QtCore import QEvent, QObject, QPoint
from PySide6.QtWidgets import QApplication

from engine.values.request import ToolCall
from tests.support.answers.said import finished_run
from tests.support.looks.rich_text import RICH, block_of
from tests.support.outside.tool_hosts import no_tools
from tests.ui.driving import Enter, Living, OneModel, ScriptedEngine, eventually
from ui.chat.messages.answer_view import AnswerView
from ui.chat.messages.message_column import MessageColumn
from ui.chat.messages.message_slots import estimated_height
from ui.chat.messages.question_view import QuestionView
from ui.chat.session.conversation_controller import ChatContext, ConversationController
from ui.chat.session.traces import Traces
from ui.kit.flow_text import FlowText
from ui.kit.theme import Theme
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage
from ui.records.store import MemoryConversationStore
from ui.records.tool_calls import CallResult, CallState


def long_conversation(turns: int = 120) -> Conversation:
    messages: list[ConversationMessage] = []
    for number in range(turns):
        messages.append(ConversationMessage("user", f"Question {number}"))
        text = f"Answer {number}: **bold** and `code`.\n\n" + "More words follow. " * (number % 40)
        messages.append(ConversationMessage("assistant", text, finished_run(text, thinking="")))
    return Conversation("Long", messages)


def opened_in(
    column: MessageColumn, engine: ScriptedEngine, conversation: Conversation
) -> ConversationController:
    context = ChatContext(engine, MemoryConversationStore(), Traces(), OneModel(engine), no_tools())
    return ConversationController(context, conversation, column)


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
    return enter(lambda: nullcontext(opened_in(column.value, scripted, long_conversation())))


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


async def test_opening_a_long_conversation_makes_only_the_views_near_its_end(
    column: MessageColumn, opened: ConversationController
) -> None:
    made: list[object] = []
    column.view_made.connect(made.append)
    column.show_conversation(opened)
    await settled(column)
    far = column._stack.slots[10]
    assert far.height == estimated_height(far.message, column.fontMetrics().lineSpacing())
    assert len(made) < 60


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
    others = [opened_in(column, scripted, long_conversation(n)) for n in (80, 1_000)]
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


def line_at_top(column: MessageColumn) -> str:
    """Return the words of the line that is a little below the top of the screen."""
    spot = column.viewport().mapTo(column, QPoint(column.viewport().width() // 2, 10))
    text = column.childAt(spot)
    while not isinstance(text, FlowText):
        assert text is not None
        text = text.parentWidget()
    cursor = text.cursorForPosition(text.viewport().mapFrom(column, spot) - QPoint(10_000, 0))
    cursor.movePosition(cursor.MoveOperation.NextCharacter, cursor.MoveMode.KeepAnchor, 12)
    return cursor.selectedText()


async def test_the_line_that_is_read_stays_while_text_changes_its_size_or_width(
    column: MessageColumn, opened: ConversationController, theme: Theme
) -> None:
    words = " ".join(f"word{n:04}" for n in range(1500))
    opened.conversation.messages[99].run.text = RICH  # type: ignore[union-attr]
    opened.conversation.messages[101].run.text = f"{words}\n\n{RICH}"  # type: ignore[union-attr]
    column.show_conversation(opened)
    await settled(column)
    column.show_message(opened.conversation.messages[101])
    await eventually(lambda: column._place._wanted is None)
    bar = column.verticalScrollBar()
    bar.setValue(bar.value() + 1_500)
    await settled(column)
    read = line_at_top(column)
    assert read.startswith("word")
    for percent, width in ((150, 820), (150, 600), (200, 600), (90, 900), (100, 820)):
        theme.set_text_size(percent)
        column.resize(width, 700)
        await settled(column)
        number, now = int(read[4:8]), line_at_top(column)
        # Another size breaks lines elsewhere; a dozen words are a line.
        assert abs(int(now[4:8]) - number) <= 24, f"{percent} %, {width} px"


async def test_another_version_far_up_makes_only_the_views_near_the_screen(
    column: MessageColumn, opened: ConversationController
) -> None:
    column.show_conversation(opened)
    await settled(column)
    column.verticalScrollBar().setValue(0)
    await settled(column)
    made: list[object] = []
    column.view_made.connect(made.append)
    opened.path_changed.emit(1)
    await eventually(lambda: column._stack.slots[1].view is not None)
    await settled(column)
    assert len(made) < 60


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


async def test_a_reader_is_not_moved_by_views_that_are_made_above(
    column: MessageColumn, opened: ConversationController
) -> None:
    column.show_conversation(opened)
    await settled(column)
    bar = column.verticalScrollBar()
    for target in (0.5, 0.2):
        bar.setValue(round(bar.maximum() * target))
        await settled(column)
        for _ in range(4):
            before = {s: s.top - bar.value() for s in column._stack.slots}
            bar.setValue(bar.value() - 90)
            await settled(column)
            seen = [s for s in before if 100 <= before[s] <= 500]
            assert seen
            moved = {s.top - bar.value() - before[s] for s in seen}
            assert len(moved) == 1, "all that is seen moves together"
            assert abs(moved.pop() - 90) <= 2


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


async def test_a_message_is_brought_into_sight_however_slow_the_machine_is(
    column: MessageColumn, opened: ConversationController
) -> None:
    # As if everything that arriving takes came later than it is waited for.
    column._place._arriving.setInterval(0)
    column.show_conversation(opened)
    bar = column.verticalScrollBar()
    await settled(column)
    for number in (3, 220, 101):
        message = opened.conversation.messages[number]
        column.show_message(message)
        slot = next(s for s in column._stack.slots if s.message is message)
        await eventually(lambda: column._place._wanted is None)
        await settled(column)
        assert 0 <= slot.top - bar.value() < 200


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
    assert view.text_view.found_texts == ["Needle"]
    assert column._stack.marked is None, "the words are marked, not the message"

    def height_on_screen() -> int:
        down = column._marks.mark(slot)
        assert down is not None
        return slot.top + down - column.verticalScrollBar().value()

    await eventually(lambda: 0 <= height_on_screen() < 650)
    # Far away its view is given up; there again, the words are marked again.
    column._place.forget_wanted()
    column.verticalScrollBar().setValue(0)
    await eventually(lambda: slot.view is None)
    column.verticalScrollBar().setValue(slot.top)
    await eventually(lambda: isinstance(slot.view, AnswerView))
    assert slot.view.text_view.found_texts == ["Needle"]  # type: ignore[union-attr]
    column.show_message(messages[0], ("nothing of it",))
    assert column._stack.marked is column._stack.slots[0]
    column.forget_found()
    assert slot.view is None or slot.view.text_view.found_texts == []  # type: ignore[attr-defined]


async def test_no_message_makes_the_chat_scroll_sideways(
    column: MessageColumn, opened: ConversationController, theme: Theme
) -> None:
    messages = opened.conversation.messages
    messages[-2].text = "q" * 3000 + " https://example.org/" + "u" * 3000
    messages[-1].run.text = RICH + "\n\n" + "w" * 3000  # type: ignore[union-attr]
    messages[-1].run.tool_calls = [ToolCall("c", "name" * 30, '{"a": "' + "v" * 500 + '"}')]  # type: ignore[union-attr]
    column.show_conversation(opened)
    for width, percent in ((820, 100), (420, 100), (420, 200)):
        column.resize(width, 700)
        theme.set_text_size(percent)
        await settled(column)
        assert column.horizontalScrollBar().maximum() == 0
        for shown in views(column):
            assert shown.width() <= column.viewport().width()
            assert shown.text_view.width() <= column.viewport().width()
            assert shown.text_view.horizontalScrollBar().maximum() == 0


async def test_rendered_text_follows_the_size_of_text(
    column: MessageColumn, opened: ConversationController, theme: Theme
) -> None:
    opened.conversation.messages[-1].run.text = RICH  # type: ignore[union-attr]
    column.show_conversation(opened)
    await settled(column)
    answer = views(column)[-1]
    document = answer.text_view.document()

    def points() -> float:
        return block_of(document, "Two cards").begin().fragment().charFormat().fontPointSize()

    before, height = points(), answer.text_view.height()
    theme.set_text_size(200)
    await settled(column)
    assert points() == pytest.approx(2 * before)
    assert answer.text_view.height() > 1.6 * height
    theme.set_text_size(100)
    await settled(column)
    assert points() == pytest.approx(before)


async def test_a_question_above_an_answer_lower_than_estimated_is_shown(
    column: MessageColumn, opened: ConversationController, scripted: ScriptedEngine
) -> None:
    column.resize(820, 1_700)  # so high that both fit
    for count in range(1, 7):
        calls = [ToolCall(f"c{n}", "add", '{"a": 1, "b": 2}') for n in range(count)]
        results = [CallResult(one.id, CallState.DONE, "3\n" * 4) for one in calls]
        answer = finished_run(thinking="", tool_calls=calls, results=results)
        said = [
            ConversationMessage("user", "What is 1 + 2?"),
            ConversationMessage("assistant", run=answer),
        ]
        column.show_conversation(opened_in(column, scripted, Conversation("Sums", said)))
        await eventually(lambda: len(views(column)) == 2)
