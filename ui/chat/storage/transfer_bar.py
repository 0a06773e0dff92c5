"""The bar at the foot of the window that shows the progress of an export or import. Main thread."""

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QProgressBar, QPushButton, QStatusBar

from ui.chat.storage.transfers import Transfers
from ui.kit.text.labels import ElidedLabel

# A shorter transfer shows no bar, which would only flicker.
_SHOWN_AFTER_MS = 400
_OUTCOME_MS = 8_000


class TransferBar(QStatusBar):
    """The running transfer, its progress, and a Cancel button; then the result for a moment.

    Hidden while nothing runs.
    """

    def __init__(self, transfers: Transfers) -> None:
        super().__init__()
        self._transfers = transfers
        self.words = ElidedLabel()
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName("Progress of the export or import")
        self.cancel = QPushButton("Cancel")
        self.cancel.setAccessibleName("Cancel the export or import")
        self._delay = QTimer(self, singleShot=True, interval=_SHOWN_AFTER_MS)
        self._delay.timeout.connect(self._appear)
        self._outcome = QTimer(self, singleShot=True, interval=_OUTCOME_MS)
        self._outcome.timeout.connect(self._refresh)
        self.setSizeGripEnabled(False)
        self.setContentsMargins(14, 4, 10, 4)
        self.addWidget(self.words, 2)
        self.addWidget(self.progress, 1)
        self.addPermanentWidget(self.cancel)
        self.cancel.clicked.connect(transfers.cancel)
        transfers.changed.connect(self._refresh)
        transfers.ended.connect(self._tell)
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
        place = f": {now.done:,} of {now.total:,}" if now.total > 1 else "…"
        self.words.setText(f"{now.words}{place}")
        self.progress.setRange(0, now.total if now.total > 1 else 0)
        self.progress.setValue(now.done)

    def _tell(self, outcome: str) -> None:
        if self._transfers.now is None:
            self.words.setText(outcome)
            self._show_parts(is_running=False)
            self.show()
            self._outcome.start()

    def _show_parts(self, *, is_running: bool) -> None:
        self.progress.setVisible(is_running)
        self.cancel.setVisible(is_running)
