"""The toast of a running export, import or recovery. Main thread."""

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QTimer, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication, QFrame, QWidget

from ui.chat.session.transfers import Transfer
from ui.chat.session.workspace import Workspace
from ui.kit.buttons import push_button
from ui.kit.dialogs import show_file, show_in_files_label
from ui.kit.labels import WrappedLabel, thin_bar
from ui.kit.layouts import column, row
from ui.kit.motion import fade
from ui.kit.windows import lay_out_hidden


class TransferBar(QFrame):
    """Lies on the messages, above the composer: a running transfer, or the result for a moment."""

    def __init__(self, workspace: Workspace, above: QWidget) -> None:
        super().__init__(above.parentWidget())
        self.setObjectName("undo_bar")
        self._workspace, self._transfers = workspace, workspace.files.transfers
        self._above = above
        self.caption = WrappedLabel()
        self.progress = thin_bar("Progress of the export or import")
        self.cancel = push_button("Cancel", "Cancel the export or import")
        self.buttons = [push_button(""), push_button("")]
        self._actions: list[Callable[[], object]] = []
        # A shorter transfer shows no bar, which would only flicker.
        self._delay = QTimer(self, singleShot=True, interval=400)
        self._delay.timeout.connect(self._appear)
        self._outcome = QTimer(self, singleShot=True, interval=10_000)
        self._outcome.timeout.connect(lambda: fade(self, is_in=False, then=self.hide))
        texts = row((self.caption, 1), self.cancel, *self.buttons, spacing=8)
        progress = row(self.progress, margins=(0, 0, 6, 2))
        column(texts, progress, spacing=4, margins=(12, 6, 6, 6), on=self)
        self.cancel.clicked.connect(self._transfers.cancel)
        for number, button in enumerate(self.buttons):
            button.clicked.connect(lambda _=False, number=number: self._act(number))
        self._transfers.changed.connect(self._refresh)
        self._transfers.ended.connect(self._show_outcome)
        above.installEventFilter(self)
        self.hide()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if event.type() in (QEvent.Type.Move, QEvent.Type.Resize) and self.isVisible():
            self._place()
        return super().eventFilter(watched, event)

    def _appear(self) -> None:
        # The dialog of an import shows its progress itself.
        if self._transfers.now is not None and QApplication.activeModalWidget() is None:
            self._show_parts([], is_running=True)

    def _refresh(self) -> None:
        now = self._transfers.now
        if now is None:
            self._delay.stop()
            if not self._outcome.isActive():
                self.hide()
            return
        self._outcome.stop()
        if not self.isVisible() and not self._delay.isActive():
            self._delay.start()
        self.caption.setText(now.position)
        self.progress.setRange(0, now.total if now.total > 1 else 0)
        self.progress.setValue(now.done)

    def _show_outcome(self, transfer: Transfer) -> None:
        if not transfer.outcome or self._transfers.now is not None:
            return
        self.caption.setText(transfer.outcome)
        self._actions = []
        titles: list[str] = []
        if (path := transfer.exported) is not None:
            url = QUrl.fromLocalFile(str(path))
            titles = [show_in_files_label(), "Open"]
            self._actions = [
                lambda: show_file(self.window(), path),
                lambda: QDesktopServices.openUrl(url),
            ]
        elif transfer.imported:
            first = transfer.imported[0]
            titles = ["Undo", "Show"]
            self._actions = [transfer.undo, lambda: self._workspace.open(first)]
        self._show_parts(titles, is_running=False)
        fade(self, is_in=True)
        self._outcome.start()

    def _show_parts(self, titles: list[str], *, is_running: bool) -> None:
        self.progress.setVisible(is_running)
        self.cancel.setVisible(is_running)
        for number, button in enumerate(self.buttons):
            button.setVisible(number < len(titles))
            button.setText(titles[number] if number < len(titles) else "")
        self.show()
        lay_out_hidden(self)  # the height of the new text
        self._place()
        self.raise_()

    def _place(self) -> None:
        # At the left: the buttons of the last answer are at the right.
        above = self._above.layout()
        side = 0 if above is None else above.contentsMargins().left()
        available_px = self._above.width() - 2 * side
        width = min(560, max(available_px - 160, 320))
        layout = self.layout()
        self.resize(width, self.height() if layout is None else layout.totalHeightForWidth(width))
        left = self._above.x() + side
        top, panel = self._above.y() - self.height() - 8, self._above.parentWidget()
        bottom = top if panel is None else panel.height()
        # The message field of an empty chat has its heading above it.
        if bottom - self._above.geometry().bottom() > self.height():
            top = bottom - self.height() - 16
        self.move(left, top)

    def _act(self, number: int) -> None:
        self._outcome.stop()
        self.hide()
        self._actions[number]()
