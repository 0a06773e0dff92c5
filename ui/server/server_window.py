"""The server's own window: switch, address and requests. Main thread."""

from functools import partial

from PySide6.QtCore import QEvent, QPoint, QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent, QTextOption
from PySide6.QtWidgets import (
    QFrame,
    QMenu,
    QPlainTextEdit,
    QScrollArea,
    QSizePolicy,
    QSplitter,
    QTabWidget,
    QWidget,
)

from engine.files.causes import os_cause
from engine.values.figures import figures
from engine.values.verdict import sentence
from engine.wording import counted, format_size, seconds
from ui.kit.buttons import Choice, IconButton, ToggleSwitch, copy_button, push_button
from ui.kit.commands import Command, Submenu, context_menu, fill_menu
from ui.kit.dates import format_day, format_time
from ui.kit.dialogs import confirm
from ui.kit.icon_engine import themed_icon
from ui.kit.labels import (
    ElidedLabel,
    FactTable,
    StatusPill,
    label,
    plain_tooltip,
    show_text,
)
from ui.kit.layouts import STRETCH, column, row, scrolling
from ui.kit.menus import copy_text, show_copied
from ui.kit.tasks import start_task
from ui.kit.theme import HEAD_PX, fixed_font
from ui.kit.windows import OwnWindow
from ui.kit.wire_text import WireHighlighter
from ui.server.agent_menu import AgentMenu
from ui.server.local_server import LocalServerState
from ui.server.request_log import RequestLogPanel
from ui.server.requests import (
    CLIENT_LEFT,
    Headers,
    RequestBody,
    RequestEntry,
    as_curl,
    error_message,
    example_curl,
    readable,
)
from ui.server.server_switch import WINDOW_TITLE, free_port, pill_of

_KEY_FIRST = "Other computers on your network need it. Then make the server visible to them."
_REACHES = [("", "This Computer Only"), ("network", "My Network")]
_ADVICE = (
    "While the server is on, requests of other apps appear here, with why each answer stopped."
)
_CUT_BODY = "Not available: the request’s body was not kept whole"
_NO_PICTURES = "Not available: the pictures of the request were not kept"
_RUNNING = "Not available while the request is being answered"


class RequestDetail(QFrame):
    """Overview, request and response."""

    replay_requested = Signal(object)  # RequestEntry
    inspector_requested = Signal(object)  # RequestEntry
    stop_requested = Signal(object)  # RequestEntry

    def __init__(self, server: LocalServerState) -> None:
        super().__init__()
        self.setObjectName("card")
        self._server = server
        self.entry: RequestEntry | None = None
        self.title = ElidedLabel("", "title")
        self.stop = push_button("Stop", "End the answer to this request")
        self.inspect = push_button("Inspect", "Open the answer in the Stop Inspector")
        self.replay = push_button("Send Again", "Send the request again")
        self.curl = push_button("Copy as curl", "Copy the request as a curl command")
        self._buttons = (self.stop, self.inspect, self.replay, self.curl)
        self.close_button = IconButton("close", "Close the request")
        self.facts = FactTable(fixed_font(self.font(), 0.92))
        self.request_body = _MessageView("request")
        self.response_body = _MessageView("response")
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        for part in (self.tabs, self.tabs.tabBar()):
            part.setProperty("kind", "flush")
        self.tabs.setAccessibleName("Parts of the request")
        self.tabs.addTab(_scrolled(self.facts), "Overview")
        self.tabs.addTab(self.request_body, "Request")
        self.tabs.addTab(self.response_body, "Response")
        column(
            row(
                (self.title, 1),
                *self._buttons,
                self.close_button,
                spacing=6,
                margins=(16, 8, 8, 0),
            ),
            (row(self.tabs, margins=(16, 0, 1, 0)), 1),
            spacing=4,
            margins=(1, 1, 1, 1),
            on=self,
        )
        for number, button in enumerate(self._buttons):
            button.clicked.connect(partial(self._trigger, number))
        self.curl.clicked.connect(lambda: show_copied(self.curl))

    def show_entry(self, entry: RequestEntry) -> None:
        if entry is self.entry:
            return
        self.entry = entry
        status = "answering" if entry.status is None else _status_text(entry.status)
        self.title.setText(f"{entry.method} {entry.path} · {status}")
        self.title.setToolTip(plain_tooltip(f"{entry.method} {entry.path}"))
        for button, command in zip(self._buttons, self.commands(entry), strict=False):
            button.setEnabled(command.is_enabled)
            button.setToolTip(command.tool_tip)
        self.stop.setVisible(bool(entry.running))
        self._show_facts(entry)
        self.request_body.show_message(entry.headers, entry.request_body)
        self.response_body.show_message(entry.answer_headers, entry.response_body)

    def commands(self, entry: RequestEntry) -> list[Command]:
        """Return the actions on a request, the first of which have buttons."""
        body = entry.request_body
        unsendable = ""
        if entry.whole_body is None:
            unsendable = _NO_PICTURES if body.is_whole else _CUT_BODY
        copy_body = "Copy Request Body" if body.is_whole else "Copy Kept Part of Request Body"
        return [
            Command(
                "Stop",
                partial(self.stop_requested.emit, entry),
                visible=lambda: bool(entry.running),
            ),
            Command(
                "Inspect",
                partial(self.inspector_requested.emit, entry),
                enabled=bool(entry.ends),
            ),
            Command(
                "Send Again",
                partial(self.replay_requested.emit, entry),
                enabled=not unsendable and not entry.is_open,
                tool_tip=_RUNNING if entry.is_open else unsendable,
            ),
            Command(
                "Copy as curl",
                lambda: copy_text(as_curl(entry, self._server.url)),
                enabled=not unsendable,
                tool_tip=unsendable,
            ),
            Command(
                copy_body,
                lambda: copy_text(entry.whole_body or body.text),
                enabled=bool(body.text),
            ),
        ]

    def _trigger(self, number: int) -> None:
        if self.entry is not None:
            self.commands(self.entry)[number].trigger()

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
        time_of_day = format_time(entry.began_at, has_seconds=True)
        took = "" if entry.took_s is None else f", took {seconds(entry.took_s)}"
        facts.add("Time", f"{format_day(entry.began_at)} {time_of_day}{took}")
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
        if entry.read_again:
            facts.add("Cache", entry.read_again)
        if entry.no_effect:
            facts.add("No effect", ", ".join(entry.no_effect))
        facts.add("Request ID", entry.id)


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
        self._highlighter = WireHighlighter(self.text.document())
        self._copy = copy_button(f"Copy the body of the {name}", lambda: self._body.text)
        self.note = label("", "faint", 0.92)
        column(
            (self.text, 1),
            row(self.note, STRETCH, self._copy, margins=(0, 0, 8, 4)),
            spacing=2,
            on=self,
        )

    def show_message(self, headers: Headers, body: RequestBody) -> None:
        self._body = body
        lines = [f"{name}: {value}" for name, value in headers]
        text = readable(body)
        # A text view takes time for each long line, and again whenever its width changes.
        shown = "\n".join(map(_shortened, text[:60_000].split("\n")))
        cut = shown != text
        whole = "\n".join([*lines, "", shown]) if text else "\n".join(lines)
        if whole != self.text.toPlainText():
            self.text.setPlainText(whole)
        self._copy.setEnabled(bool(body.text))
        note = counted(body.size_bytes, "byte") if body.size_bytes else "no body"
        if not body.is_whole:
            kept = format_size(len(body.text.encode()))
            note += f" · {kept} of them were kept; the copy is without pictures and long ends"
        elif "[picture of " in body.text:
            note += " · pictures are shown as their size and digest"
        elif cut:
            note += " · long parts are cut here; the copy is complete"
        self.note.setText(note)


def _shortened(line: str) -> str:
    return line if len(line) <= 4_000 else line[:4_000] + " …"


def _status_text(status: int) -> str:
    return "client disconnected" if status == CLIENT_LEFT else str(status)


def _scrolled(widget: QWidget) -> QScrollArea:
    return scrolling(column(widget, STRETCH, margins=(0, 12, 14, 12)), "Overview of the request")


class ServerWindow(OwnWindow):
    """The switch, the address, and the requests of other programs."""

    settings_requested = Signal()

    def __init__(
        self, server: LocalServerState, setups: AgentMenu, parent: QWidget | None = None
    ) -> None:
        super().__init__(WINDOW_TITLE, (1180, 760), parent)
        self._server, self._setups = server, setups
        self.switch = ToggleSwitch("Server")
        self.pill = StatusPill("Server")
        self.address = label("", "", 1.0)
        self.address.setFont(fixed_font(self.address.font(), 0.98))
        self.address.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.copy = copy_button("Copy the server’s address", lambda: server.switch.url)
        self.model = ElidedLabel("", "muted", 0.95)
        self.reach = Choice("Who can reach the server", _REACHES)
        self.setup = push_button("Copy Setup Command\u2009", "Copy the setup of a coding agent")
        self.setup.setLayoutDirection(Qt.LayoutDirection.RightToLeft)  # the arrow after the words
        self.setup.setIconSize(QSize(12, 12))
        self.setup.setIcon(themed_icon("chevron-down"))
        menu = QMenu(self.setup)
        menu.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        menu.setAccessibleName("Coding agents")
        fill_menu(menu, setups.entries())
        self.setup.setMenu(menu)
        self._title = label(WINDOW_TITLE, "title", 1.15)
        self.settings = push_button("Settings…", "Settings of the server")
        self.notice = label("", "fault", 0.95, is_wrapped=True)
        self.log = RequestLogPanel(server.log)
        self.detail = RequestDetail(server)
        self.detail.hide()
        self._lay_out()
        self._connect_signals()
        self._refresh()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave out who reaches the server where that would be cut; use a wide window's width."""
        super().resizeEvent(event)
        sides = Qt.Orientation
        side = sides.Horizontal if self.width() >= 1_400 else sides.Vertical
        if side != self._splitter.orientation():
            self._splitter.setOrientation(side)
            self._splitter.setSizes([600, 400])
        self._fit_head()

    def show_model(self) -> None:
        """Name the model that answers."""
        name = self._setups.model_name
        self.model.setText(f"{name} answers" if name else "No model is loaded")

    def _fit_head(self) -> None:
        """Show in the head as much as there is room for."""
        is_on = self._server.switch.stage == "on"
        self.model.setVisible(is_on and self.width() >= 1_120)
        self.reach.setVisible(self.width() >= 760)
        self.setup.setVisible(self.width() >= 980)

    async def finish(self) -> None:
        await super().finish()
        await self.log.finish()

    def changeEvent(self, event: QEvent) -> None:
        """Stop following the log while the window is minimized, too."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.WindowStateChange:
            self.log.table.set_shown(self.isVisible() and not self.isMinimized())

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        head = row(
            self._title,
            self.switch,
            self.pill,
            6,
            self.address,
            self.copy,
            (self.model, 9),
            STRETCH,
            self.reach,
            self.setup,
            self.settings,
            spacing=10,
            margins=(20, 0, 20, 0),
        )
        bar = QFrame()
        bar.setObjectName("chat_header")
        bar.setLayout(head)
        right = self._splitter = QSplitter(Qt.Orientation.Vertical)
        right.setHandleWidth(10)
        right.setChildrenCollapsible(False)
        right.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)
        # A fixed height: the requests below keep their position when the address appears.
        bar.setFixedHeight(HEAD_PX)
        # Some rows of the list, and some lines of a request.
        right.setMinimumHeight(330)
        self.other_port = push_button("", "Use a free port", kind="primary")
        self.other_port.clicked.connect(self._use_other_port)
        self.other_port.hide()
        notice = row(self.notice, self.other_port, STRETCH, spacing=12)
        requests = column(notice, (right, 1), spacing=8, margins=(0, 14, 0, 0))
        area = scrolling(requests, "", self)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        column(bar, (row(area, margins=(20, 0, 20, 14)), 1), spacing=0, on=self)
        # Reparenting re-polishes the subtree; fill the splitter in place.
        right.addWidget(self.log)
        right.addWidget(self.detail)
        right.setSizes([380, 300])

    def _connect_signals(self) -> None:
        server = self._server
        self.switch.clicked.connect(server.switch.turn)
        self.settings.clicked.connect(self.settings_requested)
        self.reach.activated.connect(self._change_reach)
        server.switch.changed.connect(self._refresh)
        server.preferences.changed.connect(self._refresh)
        server.preferences.keeping_failed.connect(self._show_problem)
        self.log.start.clicked.connect(lambda: server.switch.turn(True))
        self.log.entry_chosen.connect(self._show_entry)
        self.log.entry_changed.connect(self._follow_entry)
        self.log.export_failed.connect(self._show_problem)
        self.log.menu_requested.connect(self._show_menu)
        self.detail.replay_requested.connect(
            lambda entry: start_task(self, self._send(entry), "request sent again")
        )
        self.detail.stop_requested.connect(server.log.stop)
        self.detail.close_button.clicked.connect(self._close_detail)

    # -- intents ---------------------------------------------------------------------------

    async def _send(self, entry: RequestEntry) -> None:
        try:
            await self._server.control.replay(entry)
        except OSError as error:
            self._show_problem(f"The request could not be sent again: {os_cause(error)}.")

    def _show_menu(self, entry: RequestEntry, position: QPoint) -> None:
        entries = [
            Command("Show Details", lambda: self._show_entry(entry)),
            *self.detail.commands(entry),
            None,
            Submenu("Columns", self.log.view.column_entries()),
        ]
        context_menu(self, "The request", entries).popup(position)

    def _show_entry(self, entry: RequestEntry) -> None:
        self.detail.show_entry(entry)
        self.detail.show()

    def _follow_entry(self, entry: RequestEntry | None) -> None:
        """Update the pane of the request, unless it is closed."""
        if entry is None:
            self.detail.hide()
        elif not self.detail.isHidden():
            self.detail.show_entry(entry)

    def _close_detail(self) -> None:
        self.detail.hide()
        self.log.view.setFocus()

    # -- look ------------------------------------------------------------------------------

    def _refresh(self) -> None:
        switch = self._server.switch
        self.switch.setChecked(switch.is_requested)
        self.pill.show_state(*pill_of(switch))
        is_on = switch.stage == "on"
        self.address.setText(switch.url)
        self.address.setAccessibleName(f"Server address {switch.url}")
        self.reach.setCurrentIndex(self._server.preferences.now.server.is_on_network)
        self.show_model()
        self._fit_head()
        self.address.setVisible(is_on)
        self.copy.setVisible(is_on)
        self._show_problem(switch.message)
        preferences = self._server.preferences.now.server
        if is_on:
            needs_key = preferences.is_on_network or preferences.is_key_required
            command = example_curl(switch.url, needs_key)
            self.log.show_next_step("Point an app at the address above, or try it:", command)
        else:
            is_off = switch.stage == "off"
            self.log.show_next_step(_ADVICE, is_off=is_off)
        self.other_port.setVisible(switch.is_port_taken)
        if switch.is_port_taken:
            self.other_port.setText(f"Use Port {free_port(preferences.port)}")

    def _change_reach(self, index: int) -> None:
        """Let the network in, which needs a key: without one, offer the settings of both."""
        if index and not self._server.key.has_key:
            self.reach.setCurrentIndex(0)
            answers = [Command("Open Settings", self.settings_requested.emit)]
            confirm(self, "Create an API key first.", _KEY_FIRST, answers=answers)
        else:
            self._server.preferences.change_value("server.is_on_network", bool(index))

    def _use_other_port(self) -> None:
        self._server.start_at(int(self.other_port.text().rpartition(" ")[2]))

    def _show_problem(self, problem: str) -> None:
        # Qt breaks even a short sentence where nothing asks for its width.
        line_px = self.notice.fontMetrics().horizontalAdvance(problem)
        self.notice.setMinimumWidth(min(line_px, 400))
        show_text(self.notice, problem)
