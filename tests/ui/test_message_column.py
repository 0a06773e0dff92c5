"""A long conversation: views near the screen only, and a reader who is never moved."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication

from tests.support.said import finished_run
from tests.ui.driving import RunOnLoop, ScriptedEngine, eventually
from ui.panels.answer_view import AnswerView
from ui.panels.message_column import MessageColumn
from ui.panels.question_view import QuestionView
from ui.theme import Theme
from ui.viewmodels.conversations import Conversation
from ui.viewmodels.inspector.traces import Traces
from ui.viewmodels.messages import ChatMessage
from ui.viewmodels.open_conversation import OpenConversation
from ui.viewmodels.storing import MemoryConversationStore

Use = Callable[[Callable[[MessageColumn, OpenConversation], Coroutine[Any, Any, None]]], None]


def long_conversation(turns: int = 250) -> Conversation:
    messages: list[ChatMessage] = []
    for number in range(turns):
        messages.append(ChatMessage("user", f"Question {number}"))
        text = f"Answer {number}: **bold** and `code`.\n\n" + "More words follow. " * (number % 40)
        messages.append(ChatMessage("assistant", text, finished_run(text, thinking="")))
    return Conversation("Long", messages)


@pytest.fixture
def use(run: RunOnLoop, theme: Theme, scripted: ScriptedEngine, qapp: QApplication) -> Use:
    def use_column(
        steps: Callable[[MessageColumn, OpenConversation], Coroutine[Any, Any, None]],
    ) -> None:
        async def whole() -> None:
            column = MessageColumn(theme)
            column.resize(820, 700)
            column.show()
            opened = OpenConversation(
                scripted,
                long_conversation(),
                MemoryConversationStore(),
                Traces(),
                column,  # type: ignore[arg-type]
            )
            await steps(column, opened)
            column.close()
            column.deleteLater()

        run(whole())

    return use_column


def views(column: MessageColumn) -> list[AnswerView | QuestionView]:
    return [slot.view for slot in column._slots if slot.view is not None]  # type: ignore[misc]


async def settled() -> None:
    for _ in range(6):
        await asyncio.sleep(0.02)


def test_a_long_conversation_opens_at_its_end_with_few_views(use: Use) -> None:
    async def steps(column: MessageColumn, opened: OpenConversation) -> None:
        column.show_conversation(opened)
        column.grab()
        await settled()
        bar = column.verticalScrollBar()
        assert bar.maximum() > 20_000
        assert bar.value() == bar.maximum()
        assert len(views(column)) < 60
        last = column.answer_view(opened.conversation.messages[-1].run)  # type: ignore[arg-type]
        assert last is not None
        assert not last.visibleRegion().isEmpty()

    use(steps)


def test_whoever_scrolls_sees_every_message_and_far_views_are_given_up(use: Use) -> None:
    async def steps(column: MessageColumn, opened: OpenConversation) -> None:
        column.show_conversation(opened)
        await settled()
        bar = column.verticalScrollBar()
        for _ in range(15):
            bar.setValue(bar.value() - 500)
            await asyncio.sleep(0)
            middle = column.viewport().rect().center()
            spot = column._inner.mapFrom(column.viewport(), middle)
            slot = min(column._slots, key=lambda s: abs(s.geometry().center().y() - spot.y()))
            assert slot.view is not None
        await settled()
        assert len(views(column)) < 120
        assert bar.value() < bar.maximum() - 3000

    use(steps)


def test_a_reader_is_not_moved_by_views_that_are_made_above(use: Use) -> None:
    async def steps(column: MessageColumn, opened: OpenConversation) -> None:
        column.show_conversation(opened)
        await settled()
        bar = column.verticalScrollBar()
        for target in (0.5, 0.2):
            bar.setValue(round(bar.maximum() * target))
            await settled()
            for _ in range(4):
                before = {s: s.y() - bar.value() for s in column._slots}
                bar.setValue(bar.value() - 90)
                await settled()
                seen = [s for s in before if 100 <= before[s] <= 500]
                assert seen
                moved = {s.y() - bar.value() - before[s] for s in seen}
                assert len(moved) == 1, "all that is seen moves together"
                assert abs(moved.pop() - 90) <= 2

    use(steps)


def test_a_message_is_brought_into_sight_wherever_it_is(use: Use) -> None:
    async def steps(column: MessageColumn, opened: OpenConversation) -> None:
        column.show_conversation(opened)
        bar = column.verticalScrollBar()
        await settled()
        for number in (3, 440, 201):
            message = opened.conversation.messages[number]
            column.show_message(message)
            await asyncio.sleep(0.2)
            slot = next(s for s in column._slots if s.message is message)
            await eventually(lambda s=slot: s.view is not None)
            await eventually(lambda s=slot: 0 <= s.y() - bar.value() < 200)

    use(steps)
