"""What a desktop expects of a window: shortcuts, closing and coming back, its place restored."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QApplication, QLabel

from engine.service import Engine
from tests.ui.driving import RunOnLoop
from ui.main_window import MainWindow
from ui.panels.shortcuts import ShortcutsDialog, keys_of, plain
from ui.theme import Theme
from ui.viewmodels.api_key import ApiKeyState, KeyPlace
from ui.viewmodels.preferences import Preferences, PreferencesState
from ui.viewmodels.requests import RequestEntry, RequestLog
from ui.viewmodels.server import ServerSwitch
from ui.viewmodels.server_desk import ServerDesk

Use = Callable[[Callable[[MainWindow], Coroutine[Any, Any, None]]], None]


class _Server:
    async def start(self) -> str:
        return "http://127.0.0.1:4711"

    async def stop(self) -> None:
        pass

    async def replay(self, entry: RequestEntry) -> None:
        pass


class _Keeper:
    async def place(self) -> KeyPlace:
        return "none"

    async def renew(self) -> str:
        return "key"

    async def forget(self) -> None:
        pass


def made(engine: Engine, theme: Theme) -> MainWindow:
    server = _Server()
    preferences = PreferencesState(Preferences(theme="light"))

    def desk(switch: ServerSwitch) -> ServerDesk:
        return ServerDesk(switch, preferences, ApiKeyState(_Keeper()), RequestLog(), server)

    return MainWindow(engine, theme, server=server, preferences=preferences, desk=desk)


@pytest.fixture
def use(run: RunOnLoop, engine: Engine, theme: Theme, qapp: QApplication) -> Use:
    """Show a window with everything in it, use it, and quit."""

    def use_window(steps: Callable[[MainWindow], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            window = made(engine, theme)
            window.show()
            window.start()
            try:
                await steps(window)
            finally:
                window.quit()
                await window.finish()
                window.deleteLater()

        run(whole())

    return use_window


def test_the_list_of_shortcuts_has_every_shortcut_of_the_window(use: Use) -> None:
    async def steps(window: MainWindow) -> None:
        dialog = ShortcutsDialog(window.menuBar(), window)
        said = {one.accessibleName() for one in dialog.findChildren(QLabel)}
        wanted = {
            f"{plain(action.text())}: {keys_of(action)}"
            for action in window.findChildren(QAction)
            if action.shortcuts()
        }
        assert len(wanted) > 10
        assert wanted <= said
        dialog.deleteLater()

    use(steps)


def test_no_two_actions_share_a_shortcut(use: Use) -> None:
    async def steps(window: MainWindow) -> None:
        keys = Counter(
            sequence.toString(QKeySequence.SequenceFormat.PortableText)
            for action in window.findChildren(QAction)
            for sequence in action.shortcuts()
        )
        assert {key: count for key, count in keys.items() if count > 1} == {}

    use(steps)


def test_closing_hides_the_window_where_it_goes_on_and_quitting_ends_it(use: Use) -> None:
    async def steps(window: MainWindow) -> None:
        ended: list[int] = []
        window.closed.connect(lambda: ended.append(1))
        window.goes_on_when_closed = lambda: True
        window.close()
        assert (window.isVisible(), ended) == (False, [])
        window.come_forward()
        assert window.isVisible()
        window.close()
        window.quit()
        assert (window.isVisible(), ended) == (False, [1])

    use(steps)


def test_closing_ends_it_where_there_is_nothing_to_go_on_for(use: Use) -> None:
    async def steps(window: MainWindow) -> None:
        ended: list[int] = []
        window.closed.connect(lambda: ended.append(1))
        window.close()
        assert ended == [1]

    use(steps)


def test_the_servers_window_opens_from_the_card_and_only_once(use: Use) -> None:
    async def steps(window: MainWindow) -> None:
        assert window.server_window is None
        window.show_server()
        first = window.server_window
        assert first is not None
        assert first.isVisible()
        first.close()
        window.show_server()
        assert window.server_window is first

    use(steps)


def test_size_and_columns_are_restored(use: Use, engine: Engine, theme: Theme) -> None:
    async def steps(window: MainWindow) -> None:
        window.stop_panel.hide()
        window.sidebar.hide()
        await asyncio.sleep(0.05)  # only then may it become so narrow
        window.resize(751, 633)
        layout = window.save_layout()
        other = made(engine, theme)
        other.restore_layout(layout)
        other.show()
        assert other.size() == window.size()
        assert other.width() < 800
        assert not other.stop_panel.isVisible()
        assert not other.sidebar.isVisible()
        other.restore_layout(b"nonsense")
        assert other.size() == window.size()
        other.quit()
        await other.finish()
        other.deleteLater()

    use(steps)


def test_a_new_conversation_begins_as_the_preferences_say(use: Use) -> None:
    async def steps(window: MainWindow) -> None:
        begin = window.preferences.now.new_conversation
        changed = type(begin)(system_prompt="Be brief.", max_tokens=33)
        window.preferences.change(new_conversation=changed)
        window.workspace.current.conversation.draft = "not unused"
        window.workspace.new_conversation()
        assert window.workspace.current.conversation.settings == changed

    use(steps)


def test_all_text_grows_shrinks_and_comes_back(use: Use, qapp: QApplication) -> None:
    async def steps(window: MainWindow) -> None:
        before = {w: w.font().pointSizeF() for w in window.findChildren(QLabel)}
        usual = qapp.font().pointSizeF()
        (larger,) = (a for a in window.findChildren(QAction) if a.text() == "&Larger Text")
        larger.trigger()
        larger.trigger()
        assert window.preferences.now.text_percent == 125
        assert qapp.font().pointSizeF() == pytest.approx(usual * 1.25)
        for widget, points in before.items():
            assert widget.font().pointSizeF() == pytest.approx(points * 1.25, abs=0.1)
        window.preferences.resize_text(0)
        for widget, points in before.items():
            assert widget.font().pointSizeF() == pytest.approx(points, abs=0.1)
        for _ in range(20):
            window.preferences.resize_text(-1)
        assert window.preferences.now.text_percent == 70
        window.preferences.resize_text(0)

    use(steps)


def test_the_appearance_menu_and_the_preferences_agree(use: Use) -> None:
    async def steps(window: MainWindow) -> None:
        (dark,) = (a for a in window.findChildren(QAction) if a.text() == "Dark")
        dark.trigger()
        assert window.preferences.now.theme == "dark"
        assert window.theme.colors.is_dark
        window.preferences.change(theme="light")
        assert not dark.isChecked()

    use(steps)
