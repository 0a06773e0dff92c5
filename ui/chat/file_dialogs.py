"""The dialogs that export and import conversations. Main thread."""

import re
from collections.abc import Callable, Sequence
from datetime import date
from functools import partial

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from engine.wording import format_size
from ui.chat.import_dialog import ImportDialog
from ui.chat.session.conversation_list import named
from ui.chat.session.workspace import Workspace
from ui.kit.commands import Command
from ui.kit.dialogs import choose_file, choose_folder, choose_target, confirm, show_error
from ui.kit.tasks import start_task
from ui.records.conversations import Conversation
from ui.records.exchange.contents import FileContents
from ui.records.exchange.exported_file import ARCHIVE_SUFFIX, TEXT_FORMATS

_IMPORTED = (
    "Conversations of Fullstop, ChatGPT, Claude, LM Studio, Jan or Open WebUI (*.json *.zip)"
)
_JSON = "Conversation (*.json)"
_BACKUPS = "Backups (*.db)"
_WITH_FILES = "Archive with Pictures and Tokens"
EXPORT_CONTENTS = {
    "Markdown": "Text and code, to read or edit",
    "PDF": "Pages, to print or send",
    "JSON": "All versions and settings, to import again",
    _WITH_FILES: "All of it with pictures and recorded tokens, to import again",
}
"""What each kind of exported file is for."""


class FileDialogs(QObject):
    """Asks for the files of exports and imports, and shows why one could not be read or written."""

    def __init__(self, workspace: Workspace, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._files = workspace.files
        self._again: Callable[[], object] = self.import_file  # the last export or import
        self._store = workspace.store
        workspace.files.refused.connect(self._report)
        workspace.presets.refused.connect(self._report)
        workspace.files.imports.looked.connect(self._choose_imported)

    def export(self, conversations: Sequence[Conversation], kind: str) -> None:
        """Ask for a file of one of ``export_kinds``."""
        self._again = partial(self.export, conversations, kind)
        single = conversations[0] if len(conversations) == 1 else None
        kinds = export_kinds()
        others = [other for other in kinds if other != kind]
        choose_target(
            self._window,
            f"Export {named(conversations)}",
            lambda path: self._files.export_to(path, *conversations),
            name=(_dated() if single is None else file_name(single.title)) + kinds[kind][0],
            filters=[_pattern(one, kinds[one]) for one in (kind, *others)],
        )

    def export_all(self) -> None:
        self._again = self.export_all
        start_task(self, self._export_all(), "measure an export")

    def import_file(self) -> None:
        self._again = self.import_file
        choose_file(
            self._window, "Import Conversations", self._files.imports.look_into, [_IMPORTED]
        )

    def import_folder(self) -> None:
        self._again = self.import_folder
        choose_folder(self._window, "Import from Folder", self._files.imports.look_into)

    def restore_backup(self) -> None:
        """Ask for a backup, and add the conversations in it."""
        self._again = self.restore_backup
        dialog = choose_file(self._window, "Restore Backup", self._files.recover, [_BACKUPS])
        if self._store.backups_folder is not None:
            dialog.setDirectory(str(self._store.backups_folder))

    async def _export_all(self) -> None:
        """Ask for a file; it has pictures and tokens unless the user chooses otherwise."""
        kinds, name = [_JSON], f"{_dated()}.json"
        if size_bytes := await self._files.bytes_beside():
            name = f"{_dated()}.zip"
            kinds = [f"{_WITH_FILES}, {format_size(size_bytes)} (*.zip)", "Text only (*.json)"]
        write = self._files.export_all_to
        choose_target(self._window, "Export All Conversations", write, name=name, filters=kinds)

    def _choose_imported(self, contents: FileContents) -> None:
        dialog = ImportDialog(contents, self._files.transfers, self._window)
        dialog.chosen.connect(partial(self._files.imports.take, contents))
        dialog.open()

    def _report(self, problem: str) -> None:
        """Show a failure in bold, its cause below it, and a button that tries elsewhere."""
        what, _, why = problem.partition(": ")
        what, why = (f"{what}.", why[0].upper() + why[1:]) if why else (problem, "")
        transfer = self._files.transfers.now
        if transfer is None or transfer.exported is not None:
            show_error(self._window, what, why)
            return
        again = "Choose Another File…" if transfer.is_import else "Save Elsewhere…"
        answers = [Command(again, self._again)]
        confirm(self._window, what, why, answers=answers, is_warning=True)


def _pattern(kind: str, suffixes: Sequence[str]) -> str:
    contents = ": ".join(filter(None, (kind, EXPORT_CONTENTS.get(kind))))
    return f"{contents} ({' '.join(f'*{suffix}' for suffix in suffixes)})"


def export_kinds() -> dict[str, tuple[str, ...]]:
    """Return the kinds of files that conversations are exported to, with their suffixes."""
    texts = {name: suffixes for name, (suffixes, _) in TEXT_FORMATS.items()}
    return {**texts, "JSON": (".json",), _WITH_FILES: (ARCHIVE_SUFFIX,)}


def file_name(title: str) -> str:
    """Return a title as a file name that every file system accepts."""
    text = re.sub(r'[\x00-\x1f\x7f\\/:*?"<>|]+', " ", title).split()
    return " ".join(text)[:60].strip(" .") or "conversation"


def _dated() -> str:
    return f"Conversations {date.today().isoformat()}"
