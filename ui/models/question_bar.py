"""A question inside a window, with its answers as buttons. Main thread."""

from collections.abc import Callable

from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton

from ui.kit.text.labels import label


class QuestionBar(QFrame):
    """Asks a question or shows a message; hidden otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("question_bar")
        self.words = label("", "", 1.0, is_wrapped=True)
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(14, 9, 10, 9)
        self._row.setSpacing(8)
        self._row.addWidget(self.words, 1)
        self.buttons: list[QPushButton] = []
        self.hide()

    def ask(
        self,
        question: str,
        answers: list[tuple[str, Callable[[], None]]],
        *,
        prefers_cancel: bool = False,
    ) -> None:
        """Ask a question; each answer, and Cancel, hides the bar."""
        self._show(question, [*answers, ("Cancel", _nothing)])
        self.buttons[-1 if prefers_cancel else 0].setFocus()

    def offer(self, words: str, answer: tuple[str, Callable[[], None]]) -> None:
        """Show a message with one action; leaves the focus where it is."""
        self._show(words, [answer, ("Close", _nothing)])

    def tell(self, words: str, *, takes_focus: bool = True) -> None:
        """Show a message that a person closes with OK."""
        self._show(words, [("OK", _nothing)])
        if takes_focus:
            self.buttons[0].setFocus()

    def _show(self, words: str, answers: list[tuple[str, Callable[[], None]]]) -> None:
        for button in self.buttons:
            button.hide()
            button.deleteLater()
        self.buttons = []
        self.words.setText(words)
        for says, act in answers:
            button = QPushButton(says)
            button.clicked.connect(self.hide)
            button.clicked.connect(act)
            self._row.addWidget(button)
            self.buttons.append(button)
        self.show()


def _nothing() -> None:
    pass
