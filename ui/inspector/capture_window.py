"""A window for an answer that some server gave: paste it or open it, and see what is wrong.

Main thread.
"""

import asyncio
from html import escape
from pathlib import Path

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QGuiApplication
from PySide6.QtWidgets import (
    QFileDialog,
    QHBoxLayout,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from engine.causes import os_cause
from engine.verdict import counted
from ui.inspector.pages import align, reading_page
from ui.theme import Theme, fixed_font
from ui.viewmodels.inspector.tools import CaptureFinding, CaptureView, InspectorTools
from ui.viewmodels.tasks import Tasks
from ui.visible import unescaped, visible
from ui.widgets.labels import label

MAX_BYTES = 16 * 1024 * 1024
MAX_EVENTS = 400
_DELAY_MS = 250
_HINT = (
    "Paste an answer here: the JSON or the event stream of Messages, Chat Completions, "
    "Completions, Responses, /generate or Ollama. A curl command before it tells the stops "
    "that were asked for."
)


class CaptureWindow(QWidget):
    """What was captured at the left, what it says and what is wrong at the right."""

    def __init__(self, theme: Theme, tools: InspectorTools, parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setObjectName("canvas")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setWindowTitle("Captured Answer – Fullstop")
        self.setAcceptDrops(True)
        self.resize(1080, 720)
        self._theme = theme
        self._tools = tools
        self._tasks = Tasks()
        self.view: CaptureView | None = None
        self.title = label("", "title", 1.08, is_wrapped=True)
        self.source = QPlainTextEdit()
        self.source.setAccessibleName("The captured answer")
        self.source.setPlaceholderText(_HINT)
        self.source.setFont(fixed_font(self.source.font(), 0.93))
        self.source.setAcceptDrops(False)
        self.stops = QLineEdit()
        self.stops.setAccessibleName("The stops that were asked for")
        self.stops.setPlaceholderText(r"Stops that were asked for, separated by spaces: END \n\n")
        self.page = reading_page("What the answer says and what is wrong with it")
        align(self.source)
        self.open = QPushButton("Open…")
        self.paste = QPushButton("Paste")
        self.copy = QPushButton("Copy report")
        self._delay = QTimer(self, singleShot=True, interval=_DELAY_MS)
        self._lay_out()
        self._delay.timeout.connect(self._read)
        self.source.textChanged.connect(self._delay.start)
        self.stops.textChanged.connect(lambda _: self._delay.start())
        self.open.clicked.connect(self._choose_file)
        self.paste.clicked.connect(self.paste_capture)
        self.copy.clicked.connect(self._copy)
        theme.changed.connect(self._show)
        self._show()

    def paste_capture(self) -> None:
        """Take what is on the clipboard."""
        self.source.setPlainText(QGuiApplication.clipboard().text())

    def open_file(self, path: Path) -> None:
        """Read a file."""
        self._tasks.start(self._open(path), "open a capture")

    async def finish(self) -> None:
        """Wait for what is under way."""
        await self._tasks.finish()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Take files."""
        if event.mimeData().hasUrls():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """Open the first file."""
        for url in event.mimeData().urls():
            if url.isLocalFile():
                self.open_file(Path(url.toLocalFile()))
                return

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
        for part in (self.open, self.paste, self.copy):
            top.addWidget(part)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 14, 18, 16)
        layout.setSpacing(12)
        layout.addLayout(top)
        layout.addWidget(splitter, 1)

    async def _open(self, path: Path) -> None:
        try:
            size = (await asyncio.to_thread(path.stat)).st_size
            if size > MAX_BYTES:
                self.title.setText(f"{path.name} is larger than {MAX_BYTES >> 20} MiB.")
                return
            raw = await asyncio.to_thread(path.read_bytes)
        except OSError as error:
            self.title.setText(f"{path.name} cannot be read: {os_cause(error)}.")
            return
        # What is no UTF-8 is part of what was captured: it is shown, not refused.
        self.source.setPlainText(raw.decode("utf-8", "replace"))

    def _read(self) -> None:
        text = self.source.toPlainText()
        stops = []
        for typed in self.stops.text().split():
            try:
                stops.append(unescaped(typed))
            except ValueError:
                stops.append(typed)
        self.view = self._tools.read_capture(text, stops) if text.strip() else None
        self._show()

    def _show(self) -> None:
        view = self.view
        self.copy.setEnabled(view is not None and view.is_answer)
        if view is None:
            self.title.setText("What did that server really say?")
            self.page.clear()
            return
        self.title.setText(view.title)
        self.page.setHtml(self._html(view))

    def _html(self, view: CaptureView) -> str:
        colors = self._theme.colors
        parts = [self._finding(finding) for finding in view.findings]
        if view.is_answer and not view.findings:
            parts.append(f'<p style="color:{colors.done}"><b>Nothing is wrong with it.</b></p>')
        rows = "".join(
            f'<tr><td valign="middle" style="padding:1px 14px 1px 0;color:{colors.muted}">'
            f'{escape(name)}</td><td valign="middle"><code>{escape(value)}</code></td></tr>'
            for name, value in view.facts
        )
        parts.append(f'<table cellspacing="0" cellpadding="0">{rows}</table>')
        for name, text in (("Thinking", view.thinking), ("Text", view.text)):
            if text:
                parts.append(
                    f'<p style="color:{colors.muted};margin-bottom:2px">{name}</p>'
                    f"<p><code>{_text(text)}</code></p>"
                )
        if view.events:
            parts.append(self._events(view))
        return "".join(parts)

    def _finding(self, finding: CaptureFinding) -> str:
        colors = self._theme.colors
        ink, ground = {
            "error": (colors.fault, colors.fault_soft),
            "warning": (colors.limit, colors.limit_soft),
            "note": (colors.quiet, colors.quiet_soft),
        }[finding.severity]
        word = {"error": "Fault", "warning": "Suspicious", "note": "Note"}[finding.severity]
        place = "" if finding.event_index is None else f" (event {finding.event_index + 1})"
        shown = visible(finding.excerpt)
        excerpt = f"<br><code>{escape(shown)}</code>" if finding.excerpt else ""
        return (
            f'<p style="margin:4px 0"><span style="background:{ground};color:{ink}">'
            f"&nbsp;<b>{word}</b>&nbsp;</span>&nbsp; {escape(finding.sentence)}{place}{excerpt}</p>"
        )

    def _events(self, view: CaptureView) -> str:
        colors = self._theme.colors
        wrong = {one.event_index for one in view.findings if one.severity == "error"}
        rows = []
        for index, (name, raw) in enumerate(view.events[:MAX_EVENTS]):
            ground = f"background:{colors.fault_soft};" if index in wrong else ""
            rows.append(
                f'<tr><td style="{ground}padding:1px 8px 1px 0;color:{colors.faint}">{index + 1}'
                f'</td><td style="{ground}padding:1px 8px 1px 0"><code>{escape(name)}</code></td>'
                f'<td style="{ground}"><code>{escape(raw[:300])}</code></td></tr>'
            )
        more = len(view.events) - MAX_EVENTS
        rest = f"<p>… {counted(more, 'more event')}</p>" if more > 0 else ""
        head = f'<p style="color:{colors.muted};margin-bottom:2px">Events</p>'
        return f'{head}<table cellspacing="0">{"".join(rows)}</table>{rest}'

    def _copy(self) -> None:
        if self.view is not None:
            QGuiApplication.clipboard().setText(self.view.report)

    def _choose_file(self) -> None:
        dialog = QFileDialog(self, "Open a captured answer")
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(lambda path: self.open_file(Path(path)))
        dialog.open()


def _text(text: str) -> str:
    return escape(visible(text)).replace("⏎", "⏎<br>").replace("·", " ")
