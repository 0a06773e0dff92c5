"""Deleting many conversations takes time in proportion to their number."""

import sys
from collections.abc import Callable

from engine import Engine
from tests.support.shown import main_window, shown
from ui.kit.theme import Theme
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage


def calls_of(action: Callable[[], object]) -> int:
    """Return how many Python functions and generator steps an action runs."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


async def calls_to_delete(engine: Engine, theme: Theme, number: int) -> tuple[int, int]:
    """Return the calls of deleting half of the conversations, and those of the undo."""
    async with shown(main_window(engine, theme)) as window:
        workspace = window.workspace
        conversations = workspace.conversations
        conversations.add(
            *(Conversation(f"C{n}", [ConversationMessage("user", "x")]) for n in range(number))
        )
        before = conversations.every()
        workspace.open(before[0])
        gone = before[: number // 2]
        deleting = calls_of(lambda: workspace.delete(*gone))
        assert conversations.every() == before[number // 2 :]
        assert workspace.selected is before[number // 2]
        undoing = calls_of(conversations.undo_last)
        assert conversations.every() == before
        assert workspace.selected is before[0]
        return deleting, undoing


async def test_deleting_many_conversations_and_its_undo_are_linear(
    engine: Engine, theme: Theme
) -> None:
    small = await calls_to_delete(engine, theme, 300)
    large = await calls_to_delete(engine, theme, 1_200)
    for few, many in zip(small, large, strict=True):
        assert many < 6 * few  # four times as many conversations; quadratic is sixteen
