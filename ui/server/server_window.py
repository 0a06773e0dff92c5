"""The server's own window: switch and address above, settings at the left, requests at the right.

Main thread. The window is created when it is first opened, and does no work while it is hidden.
"""

import asyncio

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QFont, QHideEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QScrollArea,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from engine.files.causes import os_cause
from ui.kit.background.tasks import Tasks
from ui.kit.controls.buttons import ToggleSwitch
from ui.kit.controls.copy_button import CopyButton
from ui.kit.controls.own_window import OwnWindow
from ui.kit.look.theme import Theme, fixed_font
from ui.kit.text.labels import label
from ui.kit.text.pill import StatusPill
from ui.server.request_detail import RequestDetail
from ui.server.request_log import RequestLogPanel
from ui.server.requests import RequestEntry
from ui.server.server_panel import ServerPanel
from ui.server.server_settings import ServerSettings
from ui.server.server_words import pill_of, reach_words

_SETTINGS_PX = 316


class ServerWindow(OwnWindow):
    """Everything about serving other programs.

    Args:
        theme: The look.
        panel: The server's state.
        parent: The window that it belongs to.
    """

    def __init__(self, theme: Theme, panel: ServerPanel, parent: QWidget | None = None) -> None:
        super().__init__(theme, "Server", (1420, 800), parent)
        self._theme = theme
        self._panel = panel
        self._tasks = Tasks()
        self._replaying: set[asyncio.Task[None]] = set()
        self.switch = ToggleSwitch(theme, "Server")
        self.pill = StatusPill(theme, "Server")
        self.address = label("", "", 1.0)
        self.address.setFont(fixed_font(self.address.font(), 0.98))
        self.address.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.copy = CopyButton(theme, "Copy the server’s address", lambda: panel.switch.url)
        self._reach = label("", "muted", 0.95)
        self.notice = label("", "fault", 0.95, is_wrapped=True)
        self.settings = ServerSettings(theme, panel)
        self.log = RequestLogPanel(theme, panel.log)
        self.detail = RequestDetail(theme, lambda: panel.switch.url or self._usual_url())
        self.detail.hide()
        self._lay_out()
        self._connect_signals()
        self._refresh()

    async def finish(self) -> None:
        """Cancel the background work and wait for its end."""
        for task in list(self._replaying):
            task.cancel()
        await self._tasks.finish()
        await self.log.finish()

    def hideEvent(self, event: QHideEvent) -> None:
        """Hide a new key: it is shown only once."""
        super().hideEvent(event)
        if not event.spontaneous():
            self._panel.key.hide_key()

    def changeEvent(self, event: QEvent) -> None:
        """Stop following the log while the window is minimized, too."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.WindowStateChange:
            self.log.table.set_shown(self.isVisible() and not self.isMinimized())

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setContentsMargins(20, 12, 20, 12)
        head.setSpacing(10)
        head.addWidget(label("Server", "title", 1.15, weight=QFont.Weight.DemiBold))
        head.addWidget(self.switch)
        head.addWidget(self.pill)
        head.addSpacing(6)
        head.addWidget(self.address)
        head.addWidget(self.copy)
        head.addWidget(self._reach)
        head.addStretch(1)
        bar = QFrame()
        bar.setObjectName("chat_header")
        bar.setLayout(head)
        right = QSplitter(Qt.Orientation.Vertical)
        right.setHandleWidth(10)
        right.setChildrenCollapsible(False)
        right.addWidget(self.log)
        right.addWidget(self.detail)
        right.setSizes([380, 300])
        body = QHBoxLayout()
        body.setContentsMargins(0, 0, 20, 14)
        body.setSpacing(6)
        body.addWidget(self._settings_column())
        column = QVBoxLayout()
        column.setContentsMargins(0, 14, 0, 0)
        column.setSpacing(8)
        column.addWidget(self.notice)
        column.addWidget(right, 1)
        body.addLayout(column, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(bar)
        layout.addLayout(body, 1)

    def _settings_column(self) -> QScrollArea:
        holder = QWidget()
        holder.setObjectName("scrolled")
        inner = QVBoxLayout(holder)
        inner.setContentsMargins(20, 14, 12, 14)
        inner.addWidget(self.settings)
        area = QScrollArea()
        area.setAccessibleName("Settings of the server")
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(holder)
        self._theme.follow(area, lambda: area.setFixedWidth(self._settings_px(holder)))
        return area

    def _settings_px(self, holder: QWidget) -> int:
        return max(self._theme.gap(_SETTINGS_PX + 32), holder.minimumSizeHint().width())

    def _connect_signals(self) -> None:
        panel = self._panel
        self.switch.clicked.connect(panel.switch.turn)
        panel.switch.changed.connect(self._refresh)
        panel.preferences.keeping_failed.connect(self._say)
        self.log.entry_chosen.connect(self._show_entry)
        self.log.entry_changed.connect(self._follow_entry)
        self.log.export_failed.connect(self._say)
        self.detail.replay_wanted.connect(self._replay)
        self.detail.close_button.clicked.connect(self._close_detail)

    # -- intents ---------------------------------------------------------------------------

    def _replay(self, entry: RequestEntry) -> None:
        task = self._tasks.start(self._send(entry), "request sent again")
        self._replaying.add(task)
        task.add_done_callback(self._replaying.discard)

    async def _send(self, entry: RequestEntry) -> None:
        try:
            await self._panel.replay.replay(entry)
        except OSError as error:
            self._say(f"The request could not be sent again: {os_cause(error)}.")

    def _show_entry(self, entry: RequestEntry) -> None:
        self.detail.show_entry(entry)
        self.detail.show()

    def _follow_entry(self, entry: RequestEntry | None) -> None:
        """Show what has changed in the request; a closed pane stays closed."""
        if entry is None:
            self.detail.hide()
        elif not self.detail.isHidden():
            self.detail.show_entry(entry)

    def _close_detail(self) -> None:
        self.detail.hide()
        self.log.view.setFocus()

    # -- look ------------------------------------------------------------------------------

    def _refresh(self) -> None:
        switch = self._panel.switch
        self.switch.setChecked(switch.is_wanted)
        self.pill.show_state(*pill_of(switch))
        is_on = switch.stage == "on"
        self.address.setText(switch.url)
        self.address.setAccessibleName(f"Server address {switch.url}")
        self._reach.setText(reach_words(switch) if is_on else "")
        for widget in (self.address, self.copy, self._reach):
            widget.setVisible(is_on)
        self._say(switch.message)

    def _say(self, problem: str) -> None:
        self.notice.setText(problem)
        self.notice.setVisible(bool(problem))

    def _usual_url(self) -> str:
        return f"http://127.0.0.1:{self._panel.preferences.now.server.port}"
