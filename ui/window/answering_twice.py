"""Answering a question side by side: from the sheet to the answer that is kept. Main thread."""

from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from ui.chat.columns.chat_panel import ChatPanel
from ui.chat.session.asking_twice import AskingTwice
from ui.chat.session.side_by_side import Side
from ui.chat.session.workspace import Workspace
from ui.chat.sides.sides_sheet import SidesSheet
from ui.kit.look.theme import Theme
from ui.kit.system.boxes import tell
from ui.models.model_library import ModelLibrary
from ui.records.conversations import Variant
from ui.records.runs import Run


class Comparing(Protocol):
    """The part of the other windows that compares runs."""

    def show_comparison(self, run: Run, other: Run) -> None:
        """Show the inspector's comparison of two runs."""


class AnsweringTwice(QObject):
    """Opens the sheet, begins both answers, and keeps one of them."""

    def __init__(
        self,
        theme: Theme,
        workspace: Workspace,
        library: ModelLibrary,
        chat: ChatPanel,
        others: Comparing,
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._workspace = workspace
        self._asking = AskingTwice(workspace, self)
        self._library = library
        self._chat = chat
        self._parent = parent
        self.sheet: SidesSheet | None = None
        chat.sides.kept.connect(self._keep)
        chat.sides.compare_wanted.connect(others.show_comparison)
        chat.sides.run_wanted.connect(workspace.show_run)

    def ask(self) -> None:
        """Ask what is to differ; the question is the draft, or else the last one."""
        current, composer = self._workspace.current, self._chat.composer
        asked = [one for one in current.conversation.messages if one.run is None]
        written = composer.text.strip() or ", ".join(f.name for f in composer.attachments.files)
        if current.is_busy or not self._workspace.answering.can_answer:
            words = (
                "Wait until the answer has ended." if current.is_busy else "Choose a model first."
            )
            tell(self._parent, "You cannot ask a question now.", words)
        elif not written and not asked:
            tell(self._parent, "There is no question yet.", "Write one, then choose this again.")
        else:
            self.sheet = SidesSheet(
                self._theme,
                written or asked[-1].typed,
                Variant.of(current.conversation),
                self._models(),
                self._begin,
                self._parent,
                has_tools=bool(current.conversation.tools.servers),
            )
            self.sheet.destroyed.connect(self._forget_sheet)
            self.sheet.open()

    def _models(self) -> list[tuple[str, Path | None]]:
        """Return the models with their folders; the conversation's own model comes first."""
        answering = self._workspace.answering
        choice, info = answering.choice, answering.loaded.info
        own = choice.folder if choice is not None else None if info is None else info.path
        found = [
            (one.found.name, one.found.folder.resolve())
            for one in self._library.models
            if not (one.found.is_partial or one.found.problem)
        ]
        others = [(name, folder) for name, folder in found if folder != own]
        return [(answering.name, own), *others]

    def _begin(self, variant: Variant) -> bool:
        composer = self._chat.composer
        text, files = composer.text, composer.attachments.files
        if not self._asking.begin(variant, text, files):
            return False
        composer.clear()
        return True

    def _keep(self, side: Side | None) -> None:
        self._asking.keep(side)
        self._chat.focus_composer()

    def _forget_sheet(self) -> None:
        self.sheet = None
