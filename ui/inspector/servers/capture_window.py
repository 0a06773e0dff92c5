"""A window for an answer that some server gave: paste it or open it, and see what is wrong.

Main thread.
"""

import asyncio
from html import escape
from pathlib import Path

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QGuiApplication, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QFileDialog,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from engine import counted
from engine.files.causes import os_cause
from ui.inspector.run.pages import align, reading_page
from ui.inspector.run.tools import CaptureFinding, CaptureView, InspectorTools
from ui.inspector.servers.capture_source import SHOWN_CHARS, CaptureSource
from ui.kit.background.tasks import Tasks
from ui.kit.controls.reading_order import move_focus
from ui.kit.look.theme import Theme, fixed_font
from ui.kit.text.labels import label
from ui.words.visible import unescaped, visible

MAX_BYTES = 16 * 1024 * 1024
# A page takes a moment for each row: of a long stream it shows both ends and what is wrong.
FIRST_EVENTS, LAST_EVENTS, MOST_WRONG = 24, 16, 16
MAX_FINDINGS = 50
MAX_SHOWN_CHARS = 4_000
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
        self.setWindowTitle("Captured Answer")
        QShortcut(QKeySequence.StandardKey.Close, self, self.close)
        self.setAcceptDrops(True)
        self.resize(1080, 720)
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
        self.stops.setAccessibleName("The stops that were asked for")
        self.stops.setPlaceholderText(r"Stops that were asked for, separated by spaces: END \n\n")
        self.page = reading_page("What the answer says and what is wrong with it")
        align(self.source)
        self.clear = QPushButton("Clear")
        self.clear.setAccessibleName("Forget the captured answer")
        self.open = QPushButton("Open…")
        self.paste = QPushButton("Paste")
        self.copy = QPushButton("Copy report")
        self._delay = QTimer(self, singleShot=True, interval=_DELAY_MS)
        self._lay_out()
        self._delay.timeout.connect(self._read)
        self.source.capture_changed.connect(self._delay.start)
        self.stops.textChanged.connect(lambda _: self._delay.start())
        self.open.clicked.connect(self._choose_file)
        self.paste.clicked.connect(self.paste_capture)
        self.copy.clicked.connect(self._copy)
        self.clear.clicked.connect(lambda: self.source.set_capture(""))
        theme.changed.connect(self._show)
        self._show()

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        """Go on with Tab as one reads."""
        return move_focus(self, is_next)

    def paste_capture(self) -> None:
        """Take what is on the clipboard."""
        self.source.set_capture(QGuiApplication.clipboard().text())

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
        for part in (self.open, self.paste, self.copy, self.clear):
            top.addWidget(part)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 14, 18, 16)
        layout.setSpacing(12)
        layout.addLayout(top)
        layout.addWidget(splitter, 1)

    async def _open(self, path: Path) -> None:
        def read() -> str | None:
            if path.stat().st_size > MAX_BYTES:
                return None
            # What is no UTF-8 is part of what was captured: it is shown, not refused.
            return path.read_bytes().decode("utf-8", "replace")

        try:
            text = await asyncio.to_thread(read)
        except OSError as error:
            self.title.setText(f"{path.name} cannot be read: {os_cause(error)}.")
            return
        if text is None:
            self.title.setText(f"{path.name} is larger than {MAX_BYTES >> 20} MiB.")
        else:
            self.source.set_capture(text)

    def _read(self) -> None:
        """Read what stands in the source; what was being read before no longer matters."""
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
            self.title.setText("What did that server really say?")
            self.page.clear()
            return
        self.title.setText(view.title)
        self.page.setHtml(self._html(view))

    def _html(self, view: CaptureView) -> str:
        colors = self._theme.colors
        parts = [self._finding(finding) for finding in view.findings[:MAX_FINDINGS]]
        if len(view.findings) > MAX_FINDINGS:
            more = counted(len(view.findings) - MAX_FINDINGS, "more finding")
            parts.append(f"<p>… {more}; the report has them all</p>")
        if view.is_answer and not view.findings:
            parts.append(f'<p style="color:{colors.done}"><b>Nothing is wrong with it.</b></p>')
        rows = "".join(
            f'<tr><td valign="middle" style="padding:1px 14px 1px 0;color:{colors.muted}">'
            f'{escape(name)}</td><td valign="middle">'
            f"<code>{escape(_shortened(value))}</code></td></tr>"
            for name, value in view.facts
        )
        parts.append(f'<table cellspacing="0" cellpadding="0">{rows}</table>')
        for name, text in (("Thinking", view.thinking), ("Text", view.text)):
            if text:
                parts.append(
                    f'<p style="color:{colors.muted};margin-bottom:2px">{name}</p>'
                    f"<p><code>{_text(_shortened(text))}</code></p>"
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
        shown = visible(_shortened(finding.excerpt))
        excerpt = f"<br><code>{escape(shown)}</code>" if finding.excerpt else ""
        sentence = escape(_shortened(finding.sentence))
        return (
            f'<p style="margin:4px 0"><span style="background:{ground};color:{ink}">'
            f"&nbsp;<b>{word}</b>&nbsp;</span>&nbsp; {sentence}{place}{excerpt}</p>"
        )

    def _events(self, view: CaptureView) -> str:
        colors = self._theme.colors
        wrong = {one.event_index for one in view.findings if one.severity == "error"}
        count = len(view.events)
        told = sorted(index for index in wrong if index is not None)[:MOST_WRONG]
        ends = {*range(min(count, FIRST_EVENTS)), *range(max(0, count - LAST_EVENTS), count)}
        rows, following = [], 0
        for index in sorted({*ends, *(one for one in told if one < count)}):
            if index > following:
                left = counted(index - following, "event")
                rows.append(f'<tr><td colspan="3" style="color:{colors.muted}">… {left}</td></tr>')
            following = index + 1
            name, raw = view.events[index]
            ground = f"background:{colors.fault_soft};" if index in wrong else ""
            rows.append(
                f'<tr><td style="{ground}padding:1px 8px 1px 0;color:{colors.muted}">{index + 1:,}'
                f'</td><td style="{ground}padding:1px 8px 1px 0"><code>{escape(name)}</code></td>'
                f'<td style="{ground}"><code>{escape(raw[:300])}</code></td></tr>'
            )
        head = f'<p style="color:{colors.muted};margin-bottom:2px">Events</p>'
        return f'{head}<table cellspacing="0">{"".join(rows)}</table>'

    def _copy(self) -> None:
        if self.view is not None:
            QGuiApplication.clipboard().setText(self.view.report)

    def _choose_file(self) -> None:
        dialog = QFileDialog(self, "Open a captured answer")
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(lambda path: self.open_file(Path(path)))
        dialog.open()


def _shortened(text: str) -> str:
    """Return as much of a text as a page can show at once."""
    if len(text) <= MAX_SHOWN_CHARS:
        return text
    return f"{text[:MAX_SHOWN_CHARS]} … {counted(len(text) - MAX_SHOWN_CHARS, 'more character')}"


def _text(text: str) -> str:
    return escape(visible(text)).replace("⏎", "⏎<br>").replace("·", " ")
