"""The keyboard goes to other conversations and panes, and Escape ends an answer only beside it."""

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from engine.values.events import TextDelta
from tests.ui.driving import ScriptedEngine, begun, entry, eventually
from ui.records.conversations import Conversation
from ui.window.main_window import MainWindow


def four(window: MainWindow) -> list[Conversation]:
    """The list with four conversations, from its top."""
    for title in ("d", "c", "b", "a"):
        window.workspace.take_in(Conversation(title))
    rows = window.sidebar.rows
    listed = [rows.at(n) for n in range(rows.rowCount())]
    return [one for one in listed if isinstance(one, Conversation)]


async def test_the_keys_of_numbers_open_the_first_conversations_of_the_list(
    window: MainWindow,
) -> None:
    listed = four(window)
    for number in (3, 1, 2):
        key = getattr(Qt.Key, f"Key_{number}")
        QTest.keyClick(window, key, Qt.KeyboardModifier.ControlModifier)
        await eventually(lambda n=number: window.workspace.current.conversation is listed[n - 1])
    QTest.keyClick(window, Qt.Key.Key_9, Qt.KeyboardModifier.ControlModifier)
    assert window.workspace.selected is listed[1]


async def test_next_conversation_wraps_around_the_list(
    window: MainWindow,
) -> None:
    listed = four(window)
    window.workspace.open(listed[0])
    await eventually(lambda: window.workspace.current.conversation is listed[0])
    seen = []
    for _ in listed:
        entry(window, "Next Conversation").trigger()
        seen.append(window.workspace.selected)
    assert seen == [*listed[1:], listed[0]]
    entry(window, "Previous Conversation").trigger()
    assert window.workspace.selected is listed[-1]


async def test_a_key_goes_through_the_panes_and_back(window: MainWindow) -> None:
    window.resize(1280, 800)  # in a narrow window the sidebar gives way to the pane
    window.pane.open(window.stop_panel)
    window.chat.focus_composer()
    composer, messages = window.chat.composer, window.chat.messages_pane
    order: list[QWidget] = [window.stop_panel, window.sidebar, messages, composer, window.pane]
    for pane in order:
        QTest.keyClick(QApplication.focusWidget() or window, Qt.Key.Key_F6)
        focused = QApplication.focusWidget()
        assert focused is not None
        assert pane.isAncestorOf(focused), pane
    shift = Qt.KeyboardModifier.ShiftModifier
    QTest.keyClick(QApplication.focusWidget() or window, Qt.Key.Key_F6, shift)
    assert composer.isAncestorOf(QApplication.focusWidget() or window)


async def test_keys_and_chips_show_and_hide_the_pages_of_the_pane(window: MainWindow) -> None:
    composer, pane = window.chat.composer, window.pane
    keys = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier
    chips = (composer.stops, composer.settings, composer.tools)
    for number, (chip, (title, page, _)) in enumerate(zip(chips, pane.pages, strict=True), 1):
        QTest.keyClick(window, getattr(Qt.Key, f"Key_{number}"), keys)
        assert (pane.page, pane.windowTitle()) == (page, title)
        focused = QApplication.focusWidget()
        assert focused is not None
        assert page.isAncestorOf(focused)
        QTest.keyClick(focused, Qt.Key.Key_Escape)
        assert composer.input.hasFocus()
        assert pane.page is page
        chip.click()
        assert pane.page is None
        assert composer.input.hasFocus()


async def saying(window: MainWindow, scripted: ScriptedEngine) -> None:
    run = await begun(window, scripted)
    scripted.say(TextDelta("One"))
    await eventually(lambda: bool(run.text))


async def test_escape_ends_an_answer_from_composer_and_messages_only(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    await saying(window, scripted)
    for elsewhere in (window.sidebar.list, window.chat.header.badge.name, window.sidebar.server):
        elsewhere.setFocus()
        QTest.keyClick(elsewhere, Qt.Key.Key_Escape)
        assert scripted.cancelled == []
    window.chat.column.setFocus()
    QTest.keyClick(window.chat.column, Qt.Key.Key_Escape)
    assert len(scripted.cancelled) == 1


async def test_escape_closes_what_is_open_before_it_ends_the_answer(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    await saying(window, scripted)
    bar, field = window.chat.find_bar, window.chat.composer.input
    bar.begin("One")
    field.setFocus()
    QTest.keyClick(field, Qt.Key.Key_Escape)
    assert bar.isHidden()
    assert scripted.cancelled == []
    QTest.keyClick(field, Qt.Key.Key_Escape)
    assert len(scripted.cancelled) == 1
