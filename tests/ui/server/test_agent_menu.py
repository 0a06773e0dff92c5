"""Lines for coding agents: the server is turned on, the lines are copied, what lacks is said."""

import errno
from collections.abc import Iterator
from dataclasses import replace

import pytest
from PySide6.QtWidgets import QMenu, QMessageBox, QWidget
from pytestqt.qtbot import QtBot

from app.agents.commands import CopiedLines
from engine.library.model_info import ModelInfo
from tests.support.kept import preferences_state
from tests.support.shown import NoKey, SilentServer
from tests.ui.driving import MODEL, eventually
from ui.kit.commands import fill_menu
from ui.kit.menus import copied_text, copy_text
from ui.kit.theme import Theme
from ui.preferences import Preferences, ServerPreferences
from ui.server.agent_menu import AgentMenu
from ui.server.local_server import ApiKeyState, LocalServerState
from ui.server.requests import RequestLog
from ui.server.server_switch import ServerControl

LARGE = replace(MODEL, context_length=65_536)


class PortTakenServer:
    """A port that another program has."""

    async def start(self) -> str:
        raise OSError(errno.EADDRINUSE, "taken")

    async def apply(self) -> str:
        raise OSError("it is off")

    async def stop(self) -> None:
        pass


@pytest.fixture
def parent(theme: Theme, qtbot: QtBot) -> Iterator[QWidget]:
    made = QWidget()
    qtbot.addWidget(made)
    copy_text("")
    yield made
    copy_text("")


def menu_of(
    parent: QWidget,
    model: ModelInfo | None,
    control: ServerControl | None = None,
    *,
    is_key_required: bool = False,
) -> tuple[AgentMenu, LocalServerState]:
    server = ServerPreferences(is_key_required=is_key_required)
    preferences = preferences_state(Preferences(server=server))
    server = LocalServerState(
        preferences, ApiKeyState(NoKey()), RequestLog(), control or SilentServer(), parent
    )
    return AgentMenu(server, CopiedLines(), lambda: model, parent), server


def said(parent: QWidget) -> list[str]:
    boxes = parent.findChildren(QMessageBox)
    return [f"{box.text()} {box.informativeText()}" for box in boxes]


async def test_an_entry_turns_the_server_on_and_copies_the_lines(parent: QWidget) -> None:
    agents, server = menu_of(parent, LARGE)
    menu = QMenu(parent)
    fill_menu(menu, agents.entries())
    assert "Claude Code" in [action.text() for action in menu.actions()]

    menu.actions()[0].trigger()
    await eventually(lambda: bool(copied_text()))
    assert server.switch.stage == "on"
    await server.switch.finish()
    assert "export ANTHROPIC_BASE_URL=http://127.0.0.1:4711\n" in copied_text()
    assert "export ANTHROPIC_MODEL=scripted\n" in copied_text()
    assert "The local server was off and is on now." in said(parent)[0]
    (words,) = said(parent)
    assert "Setup command for Claude Code copied." in words
    assert "is not suitable" not in words


async def test_a_key_is_named_and_a_small_model_is_said_in_words(parent: QWidget) -> None:
    agents, server = menu_of(parent, MODEL, is_key_required=True)

    agents.copy("codex")
    await eventually(lambda: bool(copied_text()))
    await server.switch.finish()
    assert "export FULLSTOP_API_KEY\n" in copied_text()
    (words,) = said(parent)
    assert "Set FULLSTOP_API_KEY" in words
    assert "its context holds 4,096 tokens, and Codex needs at least" in words


async def test_without_a_model_or_a_server_nothing_is_copied(theme: Theme, parent: QWidget) -> None:
    without, _ = menu_of(parent, None)
    taken, server = menu_of(parent, LARGE, PortTakenServer())

    without.copy("claude")
    assert "No model is loaded." in said(parent)[0]
    taken.copy("claude")
    await eventually(lambda: len(said(parent)) == 2)
    assert "The server could not be started." in said(parent)[1]
    buttons = [each.text() for each in parent.findChildren(QMessageBox)[1].buttons()]
    assert any(text.startswith("Use Port ") for text in buttons) == server.switch.is_port_taken
    await server.switch.finish()
    assert copied_text() == ""
