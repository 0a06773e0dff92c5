"""A file that was sent with a question: a chip that unfolds its text, or opens a picture.

Main thread.
"""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ui.chat.composing.file_chip import FileChip, words_of
from ui.chat.composing.file_preview import shown_text
from ui.kit.look.theme import Theme, fixed_font
from ui.kit.text.flow_text import FlowText
from ui.kit.text.searched import SearchedLabel, SearchedPart, SearchedText
from ui.records.attachments import Attachment
from ui.words.visible import lines_of


class AttachedFile(QWidget):
    """The chip, with the unfolded text below it.

    Signals:
        unfolded: The text is shown or hidden; carries whether it is shown.
        picture_wanted: A person wants to see a picture; carries the ``Attachment``.
    """

    unfolded = Signal(bool)
    picture_wanted = Signal(object)

    def __init__(self, theme: Theme, file: Attachment) -> None:
        super().__init__()
        self._file = file
        self.text_view: FlowText | None = None
        if file.picture_file:
            icon, says = "detach", f"Open {file.name}"
        else:
            icon, says = "chevron-right", f"Show the text of {file.name}"
        self.chip = FileChip(theme, file.name, words_of(file), icon, says)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(5)
        layout.addWidget(self.chip, 0, Qt.AlignmentFlag.AlignLeft)
        self.chip.opened.connect(self._open)
        self.chip.button.clicked.connect(self._open)

    @property
    def is_unfolded(self) -> bool:
        """Whether the text is shown."""
        return self.text_view is not None and not self.text_view.isHidden()

    def searched_parts(self) -> list[SearchedPart]:
        """Return its name and its text, for the search."""
        if self._file.picture_file:
            return [SearchedLabel(self.chip.name)]
        text = SearchedText(
            lambda: self.text_view, lambda: lines_of(shown_text(self._file.text)), self._toggle
        )
        return [SearchedLabel(self.chip.name), text]

    def _open(self) -> None:
        if self._file.picture_file:
            self.picture_wanted.emit(self._file)
        else:
            self._toggle()

    def _toggle(self) -> None:
        is_shown = not self.is_unfolded
        if self.text_view is None:
            self.text_view = self._made_view()
        self.text_view.setVisible(is_shown)
        icon, verb = ("chevron-down", "Hide") if is_shown else ("chevron-right", "Show")
        self.chip.show_button(icon, f"{verb} the text of {self._file.name}")
        self.unfolded.emit(is_shown)

    def _made_view(self) -> FlowText:
        view = FlowText()
        view.setFont(fixed_font(self.font(), 0.95))
        view.setPlainText(shown_text(self._file.text))
        view.setAccessibleName(f"Text of {self._file.name}")
        layout = self.layout()
        assert layout is not None
        layout.addWidget(view)
        return view
