"""One request of the log: its figures, its bodies, and what can be done with it. Main thread."""

from collections.abc import Callable
from datetime import datetime

from PySide6.QtCore import Signal
from PySide6.QtGui import QFont, QTextOption
from PySide6.QtWidgets import (
    QFrame,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QTabWidget,
    QWidget,
)

from engine import counted, figures, seconds, sentence
from ui.kit.buttons import CopyButton, IconButton
from ui.kit.labels import ElidedLabel, FactTable, label
from ui.kit.layouts import STRETCH, column, row, scrolling
from ui.kit.menus import copy_from
from ui.kit.theme import fixed_font
from ui.server.requests import (
    CLIENT_LEFT,
    Headers,
    RequestBody,
    RequestEntry,
    as_curl,
    error_message,
    readable,
)

# A text view takes time for each long line, and again whenever its width changes.
_SHOWN_CHARS = 60_000
_LINE_CHARS = 4_000


class RequestDetail(QFrame):
    """Overview, request and response.

    Signals:
        replay_wanted: A person wants to send the request again; carries its ``RequestEntry``.
        inspector_wanted: The inspector should show its answer; carries its ``RequestEntry``.
        stop_wanted: A person wants to end its answer; carries its ``RequestEntry``.
    """

    replay_wanted = Signal(object)
    inspector_wanted = Signal(object)
    stop_wanted = Signal(object)

    def __init__(self, url: Callable[[], str]) -> None:
        super().__init__()
        self.setObjectName("card")
        self._url = url
        self.entry: RequestEntry | None = None
        self.title = ElidedLabel()
        font = QFont(self.title.font())
        font.setWeight(QFont.Weight.DemiBold)
        self.title.setFont(font)
        self.stop = QPushButton("Stop")
        self.stop.setAccessibleName("End the answer to this request")
        self.replay = QPushButton("Send Again")
        self.replay.setAccessibleName("Send the request again")
        self.inspect = QPushButton("Inspect…")
        self.inspect.setAccessibleName("Open the answer in the Stop Inspector")
        self.curl = QPushButton("Copy as curl")
        self.curl.setAccessibleName("Copy the request as a curl command")
        self.close_button = IconButton("close", "Close the request")
        self.facts = FactTable(fixed_font(self.font(), 0.92))
        self.asked = _MessageView("request")
        self.answered = _MessageView("response")
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.setAccessibleName("Parts of the request")
        self.tabs.addTab(_scrolled(self.facts), "Overview")
        self.tabs.addTab(self.asked, "Request")
        self.tabs.addTab(self.answered, "Response")
        column(
            row(
                (self.title, 1),
                self.stop,
                self.inspect,
                self.replay,
                self.curl,
                self.close_button,
                spacing=6,
                margins=(14, 8, 8, 0),
            ),
            (self.tabs, 1),
            spacing=4,
            margins=(1, 1, 1, 1),
            on=self,
        )
        self.stop.clicked.connect(lambda: self.stop_wanted.emit(self.entry))
        self.replay.clicked.connect(lambda: self.replay_wanted.emit(self.entry))
        self.inspect.clicked.connect(lambda: self.inspector_wanted.emit(self.entry))
        self.curl.clicked.connect(self._copy_curl)

    def show_entry(self, entry: RequestEntry) -> None:
        if entry is self.entry:
            return
        self.entry = entry
        status = "answering" if entry.status is None else _status_words(entry.status)
        self.title.setText(f"{entry.method} {entry.path}  ·  {status}")
        self.title.setToolTip(f"{entry.method} {entry.path}")
        self.stop.setVisible(bool(entry.running))
        self.replay.setEnabled(entry.asked.is_whole and not entry.is_open)
        self.inspect.setEnabled(bool(entry.ends))
        self._show_facts(entry)
        self.asked.show_message(entry.headers, entry.asked)
        self.answered.show_message(entry.answer_headers, entry.answered)

    def curl_command(self) -> str | None:
        """Return the shown request as a command for a shell."""
        return None if self.entry is None else as_curl(self.entry, self._url())

    def _copy_curl(self) -> None:
        command = self.curl_command()
        if command is not None:
            copy_from(self.curl, command)

    def _show_facts(self, entry: RequestEntry) -> None:
        facts = self.facts
        facts.clear()
        for number, end in enumerate(entry.ends, 1):
            name = "Why it stopped" if len(entry.ends) == 1 else f"Answer {number}"
            facts.add(name, sentence(end))
            facts.add("", " · ".join(figures(end)))
        if message := error_message(entry):
            facts.add("Error", message)
        if not entry.ends and entry.status == CLIENT_LEFT:
            facts.add("Why it stopped", "The client disconnected before the answer was ready")
        began = datetime.fromtimestamp(entry.began_at)
        facts.add("Time", began.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3])
        if entry.took_s is not None:
            facts.add("Took", seconds(entry.took_s))
        agent = entry.agent or "unknown client"
        facts.add("Client", f"{agent}, from {entry.client}")
        if entry.model:
            facts.add("Model", entry.model)
        if entry.ends:
            cached = f", {entry.cached_tokens:,} of them cached" if entry.cached_tokens else ""
            facts.add(
                "Tokens",
                f"prompt {entry.prompt_tokens:,}{cached}; answer {entry.output_tokens:,}",
            )
        facts.add("Request id", entry.id)


class _MessageView(QWidget):
    """Headers and body."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._body = RequestBody()
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setProperty("kind", "code")
        self.text.setAccessibleName(f"Headers and body of the {name}")
        self.text.setFont(fixed_font(self.text.font(), 0.92))
        self.text.setWordWrapMode(QTextOption.WrapMode.WrapAnywhere)
        self._copy = CopyButton(f"Copy the body of the {name}", lambda: self._body.text)
        self._note = label("", "faint", 0.92)
        column(
            (self.text, 1),
            row(self._note, STRETCH, self._copy, margins=(12, 0, 8, 4)),
            spacing=2,
            on=self,
        )

    def show_message(self, headers: Headers, body: RequestBody) -> None:
        self._body = body
        lines = [f"{name}: {value}" for name, value in headers]
        text = readable(body)
        shown = "\n".join(map(_shortened, text[:_SHOWN_CHARS].split("\n")))
        cut = shown != text
        whole = "\n".join([*lines, "", shown]) if text else "\n".join(lines)
        if whole != self.text.toPlainText():
            self.text.setPlainText(whole)
        self._copy.setEnabled(bool(body.text))
        note = counted(body.size_bytes, "byte") if body.size_bytes else "no body"
        if cut:
            note += " · long parts are cut here; the copy is complete"
        elif not body.is_whole:
            note += " · only the first part is kept"
        self._note.setText(note)


def _shortened(line: str) -> str:
    return line if len(line) <= _LINE_CHARS else line[:_LINE_CHARS] + " …"


def _status_words(status: int) -> str:
    return "client disconnected" if status == CLIENT_LEFT else str(status)


def _scrolled(widget: QWidget) -> QScrollArea:
    holder = QWidget()
    holder.setObjectName("scrolled")
    column(widget, STRETCH, margins=(14, 12, 14, 12), on=holder)
    return scrolling(holder, "Overview of the request")
