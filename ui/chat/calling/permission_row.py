"""Asks whether a call may run: once, in this conversation, always, or never. Main thread."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLineEdit, QPushButton, QVBoxLayout, QWidget

from ui.kit.controls.flow_layout import FlowLayout
from ui.kit.text.labels import label
from ui.records.tools import Decision, Permission


class PermissionRow(QWidget):
    """The question, its answers, and a field for the reason that the model gets with a denial.

    Signals:
        decided: Carries the ``Decision``.
    """

    decided = Signal(object)

    def __init__(self, server: str, tool: str, has_arguments: bool) -> None:
        super().__init__()
        self.reason = QLineEdit()
        self.reason.setPlaceholderText("Reason for the model; Return denies the call")
        self.reason.setAccessibleDescription("The model reads it. Return denies the call.")
        self.reason.setAccessibleName(f"Reason for not allowing {tool}")
        self.reason.setMaxLength(2_000)
        self._is_decided = False
        self.buttons: dict[Permission, QPushButton] = {}
        answers: tuple[tuple[Permission, str, str], ...] = (
            ("once", "Allow Once", "once"),
            ("conversation", "Allow in This Conversation", "in this conversation"),
            ("always", "Always Allow", "always, in every conversation"),
            ("denied", "Deny", ""),
        )
        row = QWidget()
        flow = FlowLayout(row)
        for permission, words, when in answers:
            button = QPushButton(words)
            says = f"Allow {tool} of {server} {when}" if when else f"Deny {tool} of {server}"
            button.setAccessibleName(says)
            button.setAutoDefault(False)
            button.clicked.connect(lambda _=False, chosen=permission: self._decide(chosen))
            flow.addWidget(button)
            self.buttons[permission] = button
        self.reason.returnPressed.connect(lambda: self._decide("denied"))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 2, 0, 0)
        layout.setSpacing(7)
        how = " with these arguments" if has_arguments else ""
        words = f"May the tool server “{server}” run {tool}{how}?"
        self.question = label(words, "", 0.95, is_wrapped=True)
        layout.addWidget(self.question)
        layout.addWidget(row)
        layout.addWidget(self.reason)

    def _decide(self, permission: Permission) -> None:
        # Disabling a button moves the focus to another widget, and the chat would scroll there.
        if not self._is_decided:
            self._is_decided = True
            self.decided.emit(Decision(permission, self.reason.text()))
