"""A window that checks an answer of any server: paste or open it to see its faults.

Main thread.
"""

import asyncio
from pathlib import Path

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from engine import counted
from ui.inspector.run.pages import align, reading_page
from ui.inspector.run.tools import CaptureView, InspectorTools
from ui.inspector.servers.capture_page import capture_page
from ui.inspector.servers.capture_source import SHOWN_CHARS, CaptureSource
from ui.kit.background.files import FileRefused, read_text
from ui.kit.background.tasks import Tasks
from ui.kit.controls.own_window import OwnWindow
from ui.kit.look.theme import Theme, fixed_font
from ui.kit.system.clipboard import copied_text, copy_from
from ui.kit.system.file_dialogs import choose_file
from ui.kit.text.labels import label
from ui.words.visible import unescaped

MAX_BYTES = 16 * 1024 * 1024
_DELAY_MS = 250
_HINT = (
    "Paste answers here, or open a file: JSON or event streams of any of the usual APIs, as curl "
    "or a program writes them, as HAR, quoted or packed. Where the request comes first, the stops "
    "are read from it."
)
_RESULT_HINT = (
    "What the answer says appears here: what is wrong with it, why it ended, its text and its "
    "events."
)


class CaptureWindow(OwnWindow):
    """The captured text at the left, the answer and its faults at the right.

    Args:
        theme: The look.
        tools: The API's part of the inspector.
        parent: The window that it belongs to.
    """

    def __init__(self, theme: Theme, tools: InspectorTools, parent: QWidget | None = None) -> None:
        super().__init__(theme, "Captured Answer", (1080, 720), parent, self.open_file)
        self._theme = theme
        self._tools = tools
        self._tasks = Tasks()
        self.view: CaptureView | None = None
        self.title = label("", "title", 1.08, is_wrapped=True)
        self._asked = 0
        self.source = CaptureSource()
        self.source.setTabChangesFocus(True)
        self.source.setAccessibleName("The captured answer")
        self.source.setPlaceholderText(_HINT)
        self.source.setFont(fixed_font(self.source.font(), 0.93))
        self.source.setAcceptDrops(False)
        self.stops = QLineEdit()
        self.stops.setAccessibleName("The requested stops")
        self.stops.setPlaceholderText(r"Requested stops, separated by spaces: END \n\n")
        self.page = reading_page("What the answer says and what is wrong with it")
        self.page.setPlaceholderText(_RESULT_HINT)
        align(self.source)
        self.clear = QPushButton("Clear")
        self.clear.setAccessibleName("Forget the captured answer")
        self.open = QPushButton("Open…")
        self.paste = QPushButton("Paste")
        self.copy = QPushButton("Copy Report")
        self._delay = QTimer(self, singleShot=True, interval=_DELAY_MS)
        self._lay_out()
        self._delay.timeout.connect(self._read)
        self.source.textChanged.connect(self._delay.start)
        self.stops.textChanged.connect(lambda _: self._delay.start())
        self.open.clicked.connect(self._choose_file)
        self.paste.clicked.connect(self.paste_capture)
        self.copy.clicked.connect(self._copy)
        self.clear.clicked.connect(lambda: self.source.set_capture(""))
        theme.changed.connect(self._show)
        self._show()
        self.source.setFocus()  # an answer can be pasted as soon as the window opens

    def paste_capture(self) -> None:
        """Read the text on the clipboard."""
        self.source.set_capture(copied_text())

    def open_file(self, path: Path) -> None:
        """Read a file."""
        self._tasks.start(self._open(path), "open a capture")

    async def finish(self) -> None:
        """Wait until the background work has ended."""
        await self._tasks.finish()

    def _lay_out(self) -> None:
        left = QWidget()
        column = QVBoxLayout(left)
        column.setContentsMargins(0, 0, 8, 0)
        column.setSpacing(8)
        column.addWidget(self.source, 1)
        column.addWidget(self.stops)
        splitter = QSplitter(Qt.Orientation.Horizontal)
        splitter.addWidget(left)
        splitter.addWidget(self.page)
        splitter.setStretchFactor(0, 1)
        splitter.setStretchFactor(1, 1)
        splitter.setChildrenCollapsible(False)
        top = QHBoxLayout()
        top.setSpacing(8)
        top.addWidget(self.title, 1)
        for part in (self.open, self.paste, self.copy, self.clear):
            top.addWidget(part)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 14, 18, 16)
        layout.setSpacing(12)
        layout.addLayout(top)
        layout.addWidget(splitter, 1)

    async def _open(self, path: Path) -> None:
        try:
            text = await read_text(path, MAX_BYTES, decode=self._tools.capture_text)
        except FileRefused as refusal:
            self.title.setText(str(refusal))
        else:
            self.source.set_capture(text)

    def _read(self) -> None:
        """Read the captured text; the result of an earlier reading is ignored."""
        text = self.source.capture
        self._asked += 1
        stops = []
        for typed in self.stops.text().split():
            try:
                stops.append(unescaped(typed))
            except ValueError:
                stops.append(typed)
        if not text.strip():
            self.view = None
            self._show()
            return
        if len(text) > SHOWN_CHARS:
            self.title.setText(f"Reading {counted(len(text), 'character')}…")
        self._tasks.start(self._judge(text, stops, self._asked), "read a capture")

    async def _judge(self, text: str, stops: list[str], asked: int) -> None:
        view = await asyncio.to_thread(self._tools.read_capture, text, stops)
        if asked == self._asked:
            self.view = view
            self._show()

    def _show(self) -> None:
        view = self.view
        self.copy.setEnabled(view is not None and view.is_answer)
        if view is None:
            self.title.setText("Check an answer of any server")
            self.page.clear()
            return
        self.title.setText(view.title)
        self.page.setHtml(capture_page(view, self._theme.colors))

    def _copy(self) -> None:
        if self.view is not None:
            copy_from(self.copy, self.view.report)

    def _choose_file(self) -> None:
        choose_file(self, "Open a Captured Answer", self.open_file)
