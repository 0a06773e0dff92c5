"""Comparing two answers of one question. Main thread."""

from pathlib import Path

from PySide6.QtCore import QObject

from ui.chat.session.conversation_controller import ConversationController
from ui.chat.sides import CompareDialog
from ui.records.variants import Variant
from ui.window.window_parts import WindowParts
from ui.words import display_name


class ComparingAnswers(QObject):
    """Asks what two answers differ in, begins both, and keeps one of them."""

    def __init__(self, window: WindowParts) -> None:
        super().__init__(window)
        self._workspace, self._chat, self._parent = window.workspace, window.chat, window
        self._library = window.model_library
        self.dialog: CompareDialog | None = None
        sides = window.chat.sides
        sides.kept.connect(self._keep)
        sides.compare_requested.connect(window.others.show_comparison)
        sides.run_requested.connect(window.workspace.show_run)

    def ask(self) -> None:
        """Ask what differs; the question is the draft, or else the last one."""
        current, composer = self._workspace.current, self._chat.composer
        questions = [message for message in current.conversation.messages if message.run is None]
        draft = composer.text.strip() or ", ".join(f.name for f in composer.attachments.files)
        if current.is_busy:
            composer.show_notice("Wait until the answer is finished.")
        elif not self._workspace.model_selection.state.can_answer:
            composer.show_notice("Choose a model first.")
        elif not draft and not questions:
            composer.show_notice("Type a message first. Both answers are for it.")
            self._chat.focus_composer()
        else:
            self.dialog = CompareDialog(
                draft or questions[-1].typed,
                Variant.of(current.conversation),
                self._models(),
                self._parent,
            )
            self.dialog.submitted.connect(self._begin)
            self.dialog.destroyed.connect(self._clear_dialog)
            self.dialog.open()

    def _models(self) -> list[tuple[str, Path | None]]:
        """Return the models with their folders; the conversation's own model comes first."""
        choice, info = self._workspace.model_selection.choice, self._workspace.models.status().info
        own = choice.folder if choice is not None else None if info is None else info.path
        models = [
            (display_name(model.found.name), model.folder)
            for model in self._library.local
            if model.found.can_be_loaded
        ]
        others = [(name, folder) for name, folder in models if folder != own]
        return [(self._workspace.model_selection.state.title, own), *others]

    def _begin(self, variant: Variant) -> None:
        composer, dialog = self._chat.composer, self.dialog
        if self._workspace.compare(variant, composer.text, composer.attachments.files):
            composer.clear()
            if dialog is not None:
                dialog.accept()
        elif dialog is not None:
            dialog.show_problem("No answer can be started now.")

    def _keep(self, side: ConversationController | None) -> None:
        self._workspace.end_comparison(side)
        self._chat.focus_composer()

    def _clear_dialog(self) -> None:
        self.dialog = None
