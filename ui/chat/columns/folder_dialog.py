"""The dialog of a folder: its name, and settings for new conversations in it. Main thread."""

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QLineEdit,
    QPlainTextEdit,
    QVBoxLayout,
    QWidget,
)

from ui.kit.controls.growing_input import never_sideways
from ui.kit.controls.reading_order import move_focus
from ui.kit.look.theme import Theme
from ui.kit.text.labels import label
from ui.records.conversations import ConversationFolder
from ui.stops.stop_list import StopListModel
from ui.stops.stop_list_editor import StopListEditor

_PROMPT_PX = 96
_WIDTH_PX = 460


class FolderDialog(QDialog):
    """Edits a folder; the conversations in it stay unchanged."""

    def __init__(
        self,
        theme: Theme,
        folder: ConversationFolder,
        keep: Callable[[ConversationFolder], object],
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(f"Folder {folder.name}")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._folder = folder
        self._keep = keep
        self.name = QLineEdit(folder.name)
        self.name.setAccessibleName("Name of the folder")
        self.prompt = QPlainTextEdit(folder.system_prompt)
        self.prompt.setAccessibleName("System prompt of new conversations in the folder")
        self.prompt.setPlaceholderText("As in every other conversation")
        self.prompt.setTabChangesFocus(True)
        never_sideways(self.prompt)
        self._shown_prompt = self.prompt.toPlainText()
        self.stops = StopListModel(list(folder.stops), self)
        self.editor = StopListEditor(theme)
        self.editor.end_tokens.hide()  # end tokens belong to a model
        self.editor.show_model(self.stops)
        buttons = QDialogButtonBox(
            QDialogButtonBox.StandardButton.Save | QDialogButtonBox.StandardButton.Cancel
        )
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        hint = "New conversations in this folder begin with these. Existing ones do not change."
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 16, 18, 16)
        layout.setSpacing(8)
        layout.addWidget(label("Name"))
        layout.addWidget(self.name)
        layout.addWidget(label("System prompt"))
        layout.addWidget(self.prompt)
        layout.addWidget(self.editor, 1)
        layout.addWidget(label(hint, "faint", 0.92, is_wrapped=True))
        layout.addWidget(buttons)
        theme.follow(self, lambda: self._fit(theme))
        self.name.selectAll()

    def accept(self) -> None:
        """Save the edited folder."""
        # A stop sequence that was typed but not added yet belongs to the list.
        if self.editor.input.text():
            self.editor.add.click()
            if self.editor.input.text():
                return  # the typed sequence is invalid; the editor says why
        # A text field changes some characters, so its text is used only if a person edited it.
        prompt = self.prompt.toPlainText()
        if prompt == self._shown_prompt:
            prompt = self._folder.system_prompt
        name = " ".join(self.name.text().split()) or self._folder.name
        self._keep(
            replace(
                self._folder, name=name, system_prompt=prompt, stops=tuple(self.stops.entries())
            )
        )
        super().accept()

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        """Move the focus by Tab in reading order."""
        return move_focus(self, is_next)

    def _fit(self, theme: Theme) -> None:
        self.setMinimumWidth(theme.px(_WIDTH_PX))
        self.prompt.setFixedHeight(theme.px(_PROMPT_PX))
