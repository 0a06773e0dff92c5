"""The dock at the right: the stop list and why the shown answer ended. Main thread."""

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QCoreApplication, QEvent, QObject, QSize, Qt
from PySide6.QtGui import QFont, QShowEvent
from PySide6.QtWidgets import (
    QDockWidget,
    QFrame,
    QMainWindow,
    QWidget,
)

from ui.chat.session.open_conversations import OpenConversation
from ui.chat.session.workspace import Workspace
from ui.kit.buttons import IconButton
from ui.kit.labels import label
from ui.kit.layouts import STRETCH, column, row, scrolling
from ui.kit.theme import HEAD_PX, current_theme
from ui.records.conversations import StopEntry
from ui.records.runs import Run
from ui.stops.stop_list_editor import StopListEditor
from ui.stops.verdict_view import VerdictView

WIDTH_PX = 366


class StopPanel(QDockWidget):
    """Follows the open conversation and the shown run; can be closed and detached."""

    def __init__(self, workspace: Workspace, window: QMainWindow) -> None:
        super().__init__("Stops", window)
        self.setObjectName("stop_dock")
        self._workspace = workspace
        self._opened: OpenConversation | None = None
        self.editor = StopListEditor()
        self.verdict = VerdictView(workspace.model)
        self.source = label("", "muted", 0.93, is_wrapped=True)
        self.setTitleBarWidget(self._build_title())
        self.setWidget(self._build_content())
        self.setAllowedAreas(
            Qt.DockWidgetArea.RightDockWidgetArea | Qt.DockWidgetArea.LeftDockWidgetArea
        )
        self.editor.apply_now.clicked.connect(self._apply)
        self.editor.end_tokens.added.connect(
            lambda one: self._change_tokens(lambda ids: tuple(dict.fromkeys((*ids, one))))
        )
        self.editor.end_tokens.removed.connect(
            lambda one: self._change_tokens(lambda ids: tuple(i for i in ids if i != one))
        )
        workspace.settings.changed.connect(self._show_model)
        workspace.settings.changed.connect(self._offer_to_apply)
        workspace.answering_changed.connect(self._offer_to_apply)
        workspace.stops_edited.connect(self._offer_to_apply)
        workspace.stops_edited.connect(self._say_source)
        workspace.conversations.folders.changed.connect(self._say_source)
        workspace.presets.changed.connect(self._say_source)
        workspace.opened.connect(self._show)
        workspace.run_shown.connect(self._show_run)
        workspace.answering.changed.connect(self._show_model)
        self._show(workspace.current)
        self._show_model()

    def show_list(self) -> None:
        """Show the stop list, ready for another sequence."""
        self.show()
        self.raise_()
        self._area.ensureWidgetVisible(self.editor.input)
        self.editor.input.setFocus()
        if self.isFloating():
            self.activateWindow()

    def showEvent(self, event: QShowEvent) -> None:
        """Bring the verdict up to date: a hidden panel does not follow the run."""
        super().showEvent(event)
        self.verdict.follow()

    def _build_title(self) -> QWidget:
        bar = _TitleBar()
        bar.setObjectName("dock_title")
        detach = IconButton("detach", "Detach or attach the stop panel")
        close = IconButton("close", "Close the stop panel", keys="Ctrl+I")
        detach.clicked.connect(lambda: self.setFloating(not self.isFloating()))
        close.clicked.connect(self.close)
        row(
            label("Stops", "title", 1.08, weight=QFont.Weight.DemiBold),
            STRETCH,
            detach,
            close,
            spacing=2,
            margins=(16, 0, 8, 0),
            on=bar,
        )
        return bar

    def _build_content(self) -> QWidget:
        inner = QWidget()
        inner.setObjectName("scrolled")
        line = QFrame()
        line.setFixedHeight(1)
        line.setStyleSheet("background: palette(mid);")
        column(
            self.source,
            self.editor,
            line,
            (self.verdict, 1),
            spacing=16,
            margins=(16, 14, 16, 18),
            on=inner,
        )
        frame = _Sized(inner, self)
        self._area = frame.area
        return frame

    def _show(self, opened: OpenConversation) -> None:
        if self._opened is not None:
            self._opened.session.run_changed.disconnect(self._follow)
            self._opened.session.run_finished.disconnect(self._follow)
            self._opened.session.text_appended.disconnect(self._follow)
        self._opened = opened
        opened.session.run_changed.connect(self._follow)
        opened.session.run_finished.connect(self._follow)
        opened.session.text_appended.connect(self._follow)
        self.editor.show_model(opened.stops)
        self._show_model()
        self._offer_to_apply()
        self._say_source()
        self._show_run(opened.shown_run)

    def _say_source(self) -> None:
        """Say where the stop list came from, and whether it was changed since."""
        conversation = self._workspace.current.conversation
        kind, _, name = conversation.stops_from.partition(":")
        words, stops = "", tuple[StopEntry, ...]()
        if kind == "preset" and (preset := self._workspace.presets.get(name)) is not None:
            words, stops = f"From the preset “{preset.name}”", preset.stops
        folder = self._workspace.conversations.folders.source_of(conversation)
        if folder is not None:
            words, stops = f"From the folder “{folder.name}”", folder.stops
        if words and tuple(conversation.stops) != tuple(stops):
            words += ", changed here"
        self.source.setText(words)
        self.source.setVisible(bool(words))

    def _show_run(self, run: Run | None) -> None:
        question = ""
        for message in self._workspace.current.conversation.messages:
            if message.role == "user":
                question = message.text
            elif message.run is run:
                break
        self.verdict.show_run(run, question)

    def _show_model(self) -> None:
        added = self._workspace.current.conversation.settings.stop_token_ids
        model = self._workspace.answering
        self.editor.end_tokens.show_tokens(model.info, added, model.name)

    def _change_tokens(self, change: Callable[[tuple[int, ...]], tuple[int, ...]]) -> None:
        settings = self._workspace.current.conversation.settings
        ids = change(settings.stop_token_ids)
        self._workspace.settings.change(replace(settings, stop_token_ids=ids))

    def _offer_to_apply(self) -> None:
        workspace = self._workspace
        can_apply = workspace.current.has_other_stops(workspace.answering.info)
        self.editor.offer_to_apply(can_apply)

    def _apply(self) -> None:
        self._workspace.current.apply_stops()

    def _follow(self, run: Run, _text: str = "") -> None:
        if run is self.verdict.run and self.isVisible():
            self.verdict.follow()


class _TitleBar(QFrame):
    """A title as high as the other columns' heads; a dock uses only its size hint."""

    def __init__(self) -> None:
        super().__init__()
        current_theme().changed.connect(self.updateGeometry)

    def sizeHint(self) -> QSize:
        return QSize(WIDTH_PX, current_theme().gap(HEAD_PX))


class _Sized(QFrame):
    """The content: asks for the panel's usual width, and at least for the width it needs."""

    def __init__(self, content: QWidget, panel: QDockWidget) -> None:
        super().__init__(panel)
        self.setObjectName("stop_panel")
        self._content = content
        self.area = scrolling(content, "Stop panel", self)
        column(self.area, on=self)
        content.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Ask for another width if the content needs it, because a scroll area does not do so."""
        if event.type() == QEvent.Type.LayoutRequest:
            self.updateGeometry()
        return False

    def showEvent(self, event: QShowEvent) -> None:
        """Give the content its height before the first frame; the parts know theirs only now."""
        QCoreApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest.value)
        QCoreApplication.sendEvent(self.area, QEvent(QEvent.Type.LayoutRequest))
        super().showEvent(event)

    def sizeHint(self) -> QSize:
        return QSize(WIDTH_PX, 600)

    def minimumSizeHint(self) -> QSize:
        # Asked for each time, because the area may have replaced its first scroll bar.
        bar = self.area.verticalScrollBar().sizeHint().width()
        return QSize(max(340, self._content.minimumSizeHint().width() + bar), 240)
