"""Answers a question of the open conversation twice, and keeps one answer. Main thread."""

from collections.abc import Sequence

from PySide6.QtCore import QObject

from ui.chat.session.side_by_side import Side
from ui.chat.session.workspace import Workspace
from ui.records.attachments import Attachment
from ui.records.conversations import Variant
from ui.records.runs import Run


class AskingTwice(QObject):
    """Begins two answers in the open conversation, and keeps one of them.

    Args:
        workspace: What the window shows.
        parent: Its owner.
    """

    def __init__(self, workspace: Workspace, parent: QObject) -> None:
        super().__init__(parent)
        self._workspace = workspace

    def begin(self, variant: Variant, text: str, files: Sequence[Attachment] = ()) -> bool:
        """Answer a question twice: with the conversation's own settings, and with a variant.

        Args:
            variant: The settings of the second answer.
            text: The question; the last one is answered again if this is empty.
            files: The files of the question.

        Returns:
            Whether the answers were begun.
        """
        workspace, current = self._workspace, self._workspace.current
        asked = [one for one in current.conversation.messages if one.run is None]
        is_new = bool(text.strip() or files)
        if current.is_busy or not (is_new or asked) or not workspace.answering.settle():
            return False
        sides = current.begin_sides(Variant.of(current.conversation), variant)
        if not (sides.ask(text, files) if is_new else sides.ask_again(asked[-1])):
            current.end_sides(None)
            return False
        workspace.conversations.name_after(current.conversation, text)
        workspace.conversations.touch(current.conversation)
        for one in sides.sides:
            one.session.run_changed.connect(self._show_again)
            one.session.run_finished.connect(self._show_again)
        workspace.show_run(sides.runs[0])
        current.sides_changed.emit()
        return True

    def keep(self, side: Side | None) -> None:
        """Continue with one of two answers, its model, settings and stops; None keeps both."""
        workspace, current = self._workspace, self._workspace.current
        sides = current.sides
        if sides is None or sides.is_running:
            return
        kept = side or sides.sides[0]
        current.end_sides(kept)
        if kept.variant.model is not None:
            workspace.answering.remember(kept.variant.model)
        workspace.settings.change(kept.variant.settings)
        current.stops.replace_all(kept.variant.stops, "keep an answer's stops")
        workspace.show_run(kept.run)
        workspace.conversations.repaint(current.conversation)

    def _show_again(self, run: Run) -> None:
        """Update the shown run, if it is the run of one of the two answers."""
        if run is self._workspace.current.shown_run:
            self._workspace.run_shown.emit(run)
