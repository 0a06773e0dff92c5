"""Each window, dialog and card that the program opens: by Tab, by name, and back by a key."""

import ast
import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QImage, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QFileDialog,
    QLineEdit,
    QMenu,
    QTabWidget,
    QWidget,
)

from app.desktop import window as desktop
from engine.engine import Engine
from engine.values.request import TraceLevel
from tests.support.kept import preferences_state
from tests.support.outside import exports
from tests.support.outside.tool_hosts import SUMS, DictatedHost
from tests.support.shown import whole_window
from tests.support.sources import modules, nodes
from tests.ui.driving import Enter, Living, eventually, opened
from tests.ui.inspector.inspecting import run_entry
from tests.ui.walks import MAX_STEPS, answered, settled, wrong
from ui.chat.composer.pictures import show_picture
from ui.kit.colors import DARK, LIGHT, Colors
from ui.kit.theme import Theme
from ui.preferences import Preferences, ServerPreferences
from ui.records.attachments import Attachment
from ui.records.conversations import ConversationFolder
from ui.window.main_window import MainWindow
from ui.window.other_windows import ShortcutsDialog


def kinds() -> list[str]:
    """Return the names of all classes that are windows, dialogs or cards of their own."""
    classes = {
        node.name: node
        for _, text in modules("ui", "app")
        for node in nodes(text)
        if isinstance(node, ast.ClassDef)
    }
    bases = {
        name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for name, node in classes.items()
    }
    found = {"OwnWindow", "QDialog"} | {
        name for name, node in classes.items() if "WindowType.Popup" in ast.unparse(node)
    }
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return sorted(found & set(classes) - set().union(*bases.values()))


@pytest.fixture(scope="module")
def engine(demo_model_path: Path) -> Iterator[Engine]:
    """An engine of its own: the walks unload models and restart them."""
    engine = Engine()
    asyncio.run(engine.load(demo_model_path))
    yield engine
    engine.close()


@pytest.fixture
def window(
    enter: Enter, engine: Engine, theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Living[MainWindow]:
    """The window with all that belongs to it, as in the program, and with an MCP server."""
    monkeypatch.setenv("FULLSTOP_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(desktop, "ToolServers", lambda *_, **__: DictatedHost(SUMS))

    def make() -> MainWindow:
        chosen = Preferences(server=ServerPreferences(port=0))
        window = whole_window(engine, theme, preferences_state(chosen))
        window.workspace.traces.level = TraceLevel.FULL
        window.resize(1280, 900)
        return window

    return enter(lambda: opened(make(), quits=True, is_ready=True, is_in_front=True))


Open = Callable[[MainWindow, Path], Coroutine[Any, Any, None]]


async def open_import(window: MainWindow, folder: Path) -> None:
    path = folder / "conversations.json"
    path.write_text(json.dumps([exports.chatgpt()]))
    window.workspace.files.imports.look_into(path)
    await eventually(lambda: bool(shown("ImportDialog")))


async def open_folder(window: MainWindow, _: Path) -> None:
    folder = ConversationFolder("Fruit")
    window.workspace.conversations.folders.keep(folder)
    window.sidebar.edit_folder(folder)


async def open_documents(window: MainWindow, _: Path) -> None:
    folder = ConversationFolder("Fruit")
    window.workspace.conversations.folders.keep(folder)
    window.sidebar.edit_documents(folder)


async def open_preview(window: MainWindow, _: Path) -> None:
    row = window.chat.composer.attachments
    row.files = (Attachment("a.txt", "words"),)
    row._show()
    await settled()
    chip = row.chip(0)
    assert chip is not None
    chip.setFocus()
    chip.opened.emit()


async def open_picture(window: MainWindow, folder: Path) -> None:
    path = folder / "p.png"
    image = QImage(96, 64, QImage.Format.Format_RGB32)
    image.fill(Qt.GlobalColor.cyan)  # otherwise it has the pixels of a window that was freed
    image.save(str(path))
    show_picture(window.chat, path.name, path)


async def open_form(window: MainWindow, _: Path) -> None:
    window.others.show_tool_servers()
    servers = window.others.tool_servers
    await settled()
    servers.list.setCurrentRow(0)
    servers.detail.edit.setFocus()
    servers.detail.edit.click()


async def open_paste(window: MainWindow, _: Path) -> None:
    window.others.show_tool_servers()
    servers = window.others.tool_servers
    assert servers is not None
    await settled()
    servers.show_gallery()
    servers.paste.setFocus()
    servers.paste.click()


async def open_template(window: MainWindow, _: Path) -> None:
    window.others.show_models()
    models = window.others.models
    await eventually(lambda: bool(window.model_library.local))
    model = window.model_library.local[0]
    models.template_requested.emit(model)


async def open_sheet(window: MainWindow, _: Path) -> None:
    window.comparing.ask()
    dialog = window.comparing.dialog
    assert dialog is not None


async def open_several(window: MainWindow, _: Path) -> None:
    run = window.workspace.current.latest_run
    assert run is not None
    window.others.answer_several(run)
    ends = window.others.ends
    await eventually(ends.start.isEnabled)
    ends.count.show_number(2)
    ends.compares.setChecked(True)
    ends.other.stops.add_sequence("4")
    ends.start.click()
    await eventually(lambda: ends.answers.stage == "done")


def by(name: str) -> Open:
    async def open_one(window: MainWindow, _: Path) -> None:
        part: Any = window
        for word in name.split("."):
            part = getattr(part, word)
        part()

    return open_one


# How each is opened: what this list lacks fails, as what has gone does.
OPENED: dict[str, Open] = {
    "CaptureWindow": by("others.show_capture"),
    "EndsWindow": open_several,
    "FilePreview": open_preview,
    "FolderDialog": open_folder,
    "FolderDocumentsDialog": open_documents,
    "ImportDialog": open_import,
    "InspectorWindow": by("others.show_inspector"),
    "ModelSwitcher": by("choosing_model.pop_up"),
    "ModelsWindow": by("others.show_models"),
    "HelpWindow": by("others.show_help"),
    "AboutDialog": by("others.show_about"),
    "PasteDialog": open_paste,
    "PictureDialog": open_picture,
    "PreferencesDialog": by("others.show_preferences"),
    "ProbeWindow": by("others.show_probe"),
    "ReportDialog": by("others.report_problem"),
    "ServerForm": open_form,
    "ServerWindow": by("others.show_server"),
    "ShortcutsDialog": by("others.show_shortcuts"),
    "CompareDialog": open_sheet,
    "TemplateWindow": open_template,
    "ToolServersWindow": by("others.show_tool_servers"),
    "UpdateDialog": by("others.check_for_updates"),
}


def shown(name: str) -> list[QWidget]:
    return [
        one
        for one in QApplication.topLevelWidgets()
        if type(one).__name__ == name and one.isVisible()
    ]


async def wrong_in(top: QWidget) -> list[str]:
    """Name all that is wrong in a window, on each of its tabs."""
    if isinstance(top, ShortcutsDialog):  # its names are of shortcuts
        return [fault for fault in await wrong(top) if "shortcut" not in fault]
    tabs = getattr(top, "tabs", None)
    if not isinstance(tabs, QTabWidget):
        return await wrong(top)
    found: list[str] = []
    for index in range(tabs.count()):
        tabs.setCurrentIndex(index)
        found += [f"{tabs.tabText(index)}: {fault}" for fault in await wrong(top)]
    return found


async def left(top: QWidget) -> None:
    """Close a window by its key: Escape, or that of the system."""
    is_card = isinstance(top, QDialog) or top.windowType() == Qt.WindowType.Popup
    field = top.focusWidget() or top
    if is_card:
        QTest.keyClick(field, Qt.Key.Key_Escape)
    else:
        QTest.keySequence(field, QKeySequence(QKeySequence.StandardKey.Close))
    await settled()


async def focus_in(window: QWidget) -> QWidget | None:
    """Return what has the keyboard once a window is active again; here nothing manages windows."""
    window.activateWindow()
    await settled()
    return QApplication.focusWidget()


def test_every_window_has_a_way_to_open_it() -> None:
    assert kinds() == sorted(OPENED)


@pytest.mark.parametrize("name", kinds())
async def test_tab_reads_a_window_its_controls_are_named_and_a_key_leads_back(
    window: MainWindow, tmp_path: Path, name: str
) -> None:
    await answered(window)
    await OPENED[name](window, tmp_path)
    await settled()
    (top,) = shown(name)
    assert top.isAncestorOf(QApplication.focusWidget()), "it has the keyboard"
    parent = top.parentWidget()
    assert parent is not None
    was = parent.window().focusWidget()
    assert await wrong_in(top) == []
    await left(top)
    assert shown(name) == []
    assert await focus_in(parent.window()) is was


@pytest.mark.parametrize("index", range(3))
async def test_tab_reads_a_page_of_the_right_pane_and_its_controls_are_named(
    window: MainWindow, index: int
) -> None:
    await answered(window)
    _, page, _ = window.pane.pages[index]
    window.pane.open(page)
    await settled()
    found = await wrong(window)
    # The button of a new chat has its shortcut in its label.
    assert [fault for fault in found if "shortcut" not in fault] == []


def pixels_of(top: QWidget, colors: Colors, other: Colors) -> int:
    """Count the pixels in colors that only the first of two palettes has.

    One row does not count: a line in a scaled picture may have such a color by chance.
    """
    image = top.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    pixels = memoryview(image.constBits()).cast("B").cast("I")
    width = image.bytesPerLine() // 4
    only = {QColor(value).rgb() for value in vars_of(colors) - vars_of(other)}
    rows = [pixels[start : start + width] for start in range(0, len(pixels), width)]
    counts = [sum(pixel in only for pixel in row) for row in rows]
    return sum(counts) - max(counts)


def vars_of(colors: Colors) -> set[str]:
    return {value for value in asdict(colors).values() if isinstance(value, str)}


async def test_every_window_follows_the_theme(
    window: MainWindow, theme: Theme, tmp_path: Path
) -> None:
    await answered(window)
    tops: dict[str, QWidget] = {"MainWindow": window}
    for name, open_one in OPENED.items():
        await open_one(window, tmp_path)
        await settled()
        (tops[name],) = shown(name)
    stale: dict[str, int] = {}
    for mode, now, before in (("dark", DARK, LIGHT), ("light", LIGHT, DARK)):
        theme.set_mode(mode)
        await settled()
        for name, top in tops.items():
            assert pixels_of(top, now, before) > 10
            count = pixels_of(top, before, now)
            if count > 10:  # blended edges of letters have a few such colors by chance
                stale[f"{name} turned {mode}"] = count
    assert stale == {}


def menus(window: MainWindow) -> dict[str, QMenu]:
    found = {action.text(): action.menu() for action in window.menuBar().actions()}
    return {name: menu for name, menu in found.items() if isinstance(menu, QMenu)}


async def reached(top: QWidget, name: str) -> QWidget:
    """Press Tab until a control of that name has the keyboard."""
    top.activateWindow()
    for _ in range(MAX_STEPS):
        now = QApplication.focusWidget() or top
        if name in (now.accessibleName(), getattr(now, "text", str)()):
            return now
        QTest.keyClick(now, Qt.Key.Key_Tab)
    raise AssertionError(f"Tab does not reach {name!r}")


async def test_the_keyboard_saves_a_run_and_copies_the_servers_address(
    window: MainWindow, tmp_path: Path
) -> None:
    await answered(window)
    kept = tmp_path / "run.json"
    window.others.show_inspector()
    await eventually(lambda: bool(shown("InspectorWindow")))
    await settled()
    (inspector,) = shown("InspectorWindow")
    await reached(inspector, "More actions for this run")
    run_entry(window.others.inspector, "Save Run").trigger()
    await eventually(lambda: bool(inspector.findChildren(QFileDialog)))
    (dialog,) = inspector.findChildren(QFileDialog)
    dialog.activateWindow()
    await eventually(lambda: isinstance(dialog.focusWidget(), QLineEdit) and dialog.isVisible())
    await settled()
    field = QApplication.focusWidget()
    assert isinstance(field, QLineEdit)
    assert dialog.isAncestorOf(field)
    QTest.keySequence(field, QKeySequence(QKeySequence.StandardKey.SelectAll))
    QTest.keyClicks(field, str(kept))
    QTest.keyClick(field, Qt.Key.Key_Return)
    await eventually(kept.exists)
    assert "Count from 1 to 10" in kept.read_text()
    panel = window.local_server
    assert panel is not None
    switch = panel.switch
    switch.turn(True)
    await eventually(lambda: switch.stage == "on")
    window.others.show_server()
    await eventually(lambda: bool(shown("ServerWindow")))
    await settled()
    (server,) = shown("ServerWindow")
    QTest.keyClick(await reached(server, "Copy the server’s address"), Qt.Key.Key_Space)
    assert QApplication.clipboard().text() == switch.url
