"""A window with a conversation that is long enough to scroll, answered by a script."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Finished, Timing, Usage
from tests.support.answers.said import finished_run
from tests.support.shown import Use, main_window, shown
from tests.ui.driving import RunOnLoop, ScriptedEngine, eventually, push
from ui.kit.look.theme import Theme
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage
from ui.window.main_window import MainWindow

END = Finished(StopInfo(StopKind.EOS), Usage(7, 0, 12), Timing())


def long_conversation(turns: int = 24) -> Conversation:
    messages: list[ConversationMessage] = []
    for number in range(turns):
        messages.append(ConversationMessage("user", f"Question {number}"))
        text = f"Answer {number}: **bold** words.\n\n" + "More words follow.\n\n" * 6
        run = finished_run(text, thinking="", thinking_s=None, tool_calls=[])
        messages.append(ConversationMessage("assistant", text, run))
    return Conversation("Long", messages)


@pytest.fixture
def use(run: RunOnLoop, scripted: ScriptedEngine, theme: Theme) -> Use:
    """Show a window, use it, and quit."""

    def use_window(steps: Callable[[MainWindow], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            window = main_window(scripted, theme)  # type: ignore[arg-type]
            async with shown(window, quits=True):
                window.activateWindow()
                await eventually(window.isActiveWindow)
                try:
                    await steps(window)
                finally:
                    for generation in scripted.generations:
                        push(generation, [END])

        run(whole())

    return use_window
