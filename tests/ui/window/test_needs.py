"""While a call waits for a person, list, models, icon and a notification say so."""

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication

from engine.stopping.record import StopKind
from engine.values.events import ToolCallCompleted
from tests.support.outside.tool_hosts import ADD, SUMS, SUMS_ON, DictatedHost
from tests.support.shown import main_window
from tests.ui.chat.calling.talking import adding, ended
from tests.ui.driving import Enter, Living, ScriptedEngine, eventually, opened
from ui.chat.session.conversation_controller import ConversationController
from ui.kit.theme import Theme
from ui.records.conversations import Conversation
from ui.records.tool_calls import Decision
from ui.records.tool_servers import ServerQuestion
from ui.window.main_window import MainWindow

CALL = adding(1, 2)


@pytest.fixture(autouse=True)
def badges(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    shown: list[int] = []
    monkeypatch.setattr(QGuiApplication, "setBadgeNumber", lambda _, count: shown.append(count))
    return shown


@pytest.fixture
def host() -> DictatedHost:
    return DictatedHost(replace(SUMS, tools=(replace(ADD, title="Delete <all>"),)))


@pytest.fixture
def window(
    enter: Enter, scripted: ScriptedEngine, theme: Theme, host: DictatedHost
) -> Living[MainWindow]:
    """The main window in front, with an MCP server in use."""

    def make() -> MainWindow:
        window = main_window(scripted, theme, tool_host=host)
        window.workspace.change_tools(SUMS_ON)
        return window

    return enter(lambda: opened(make(), quits=True, is_in_front=True, scripted=scripted))


async def asking(window: MainWindow, scripted: ScriptedEngine) -> ConversationController:
    """Ask something, and let the model call a tool; the call waits for a person."""
    session = window.workspace.current
    window.workspace.send("Go")
    await eventually(lambda: bool(scripted.generations))
    scripted.say(ToolCallCompleted(0, CALL), ended(StopKind.TOOL_CALL))
    run = window.workspace.current.conversation.messages[-1].run
    assert run is not None
    await eventually(lambda: run.needs_user)
    return session


async def test_a_waiting_call_is_marked_in_the_list_at_its_model_and_at_the_icon(
    window: MainWindow, scripted: ScriptedEngine, badges: list[int]
) -> None:
    session = await asking(window, scripted)
    conversation = window.workspace.current.conversation
    row = window.sidebar.rows.index_of(conversation)
    assert conversation.needs_user
    assert "needs you" in row.data(Qt.ItemDataRole.AccessibleTextRole)
    assert badges == [1]
    assert conversation.model is not None
    assert window.model_library.waiting == {conversation.model.folder}
    session.reply(CALL.id, Decision("once"))
    await eventually(lambda: len(scripted.generations) == 2)
    assert not conversation.needs_user
    assert badges == [1, 0]
    assert window.model_library.waiting == set()


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (None, "Needs you: May the model use Delete ‹all›?"),
        (ServerQuestion("sums", "Which <one>?"), "Needs you: sums asks a question."),
    ],
    ids=["call", "question"],
)
async def test_who_works_elsewhere_is_told_what_is_asked(
    window: MainWindow,
    scripted: ScriptedEngine,
    host: DictatedHost,
    question: ServerQuestion | None,
    words: str,
) -> None:
    told: list[tuple[str, str, Conversation]] = []
    window.notices.notified.connect(lambda *notice: told.append(notice))
    window.hide()
    await eventually(lambda: not window.isActiveWindow())
    host.question = question
    session = await asking(window, scripted)
    if question is not None:
        session.reply(CALL.id, Decision("once"))
        await eventually(lambda: len(told) == 2)
    title, text, chosen = told[-1]
    assert title == window.workspace.current.conversation.title
    assert text == words
    window.notices.show(chosen)
    assert window.isVisible()
