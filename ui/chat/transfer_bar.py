"""The status bar of a running export, import or recovery. Main thread."""

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QProgressBar, QStatusBar

from ui.chat.session.transfers import Transfers
from ui.kit.buttons import push_button
from ui.kit.labels import ElidedLabel


class TransferBar(QStatusBar):
    """The running transfer, its progress, and a Cancel button; then the result for a moment.

    Hidden while nothing runs.
    """

    def __init__(self, transfers: Transfers) -> None:
        super().__init__()
        self._transfers = transfers
        self.caption = ElidedLabel()
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName("Progress of the export or import")
        self.cancel = push_button("Cancel", "Cancel the export or import")
        # A shorter transfer shows no bar, which would only flicker.
        self._delay = QTimer(self, singleShot=True, interval=400)
        self._delay.timeout.connect(self._appear)
        self._outcome = QTimer(self, singleShot=True, interval=8_000)
        self._outcome.timeout.connect(self._refresh)
        self.setSizeGripEnabled(False)
        self.setContentsMargins(14, 4, 10, 4)
        self.addWidget(self.caption, 2)
        self.addWidget(self.progress, 1)
        self.addPermanentWidget(self.cancel)
        self.cancel.clicked.connect(transfers.cancel)
        transfers.changed.connect(self._refresh)
        transfers.ended.connect(self._show_outcome)
        self.hide()

    def _appear(self) -> None:
        self.setVisible(self._transfers.now is not None)

    def _refresh(self) -> None:
        now = self._transfers.now
        self._outcome.stop()
        if now is None:
            self._delay.stop()
            self.hide()
            return
        self._show_parts(is_running=True)
        if not self.isVisible() and not self._delay.isActive():
            self._delay.start()
        position = f": {now.done:,} so far…" if now.done else "…"
        position = f": {now.done:,} of {now.total:,}" if now.total > 1 else position
        self.caption.setText(f"{now.label}{position}")
        self.progress.setRange(0, now.total if now.total > 1 else 0)
        self.progress.setValue(now.done)

    def _show_outcome(self, outcome: str) -> None:
        if self._transfers.now is None:
            self.caption.setText(outcome)
            self._show_parts(is_running=False)
            self.show()
            self._outcome.start()

    def _show_parts(self, *, is_running: bool) -> None:
        self.progress.setVisible(is_running)
        self.cancel.setVisible(is_running)
