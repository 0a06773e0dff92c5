"""The report of a problem: its content, and the dialog that copies or saves it. Main thread."""

import os
import platform
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import PySide6
from PySide6.QtCore import QUrl, Signal
from PySide6.QtWidgets import QDialogButtonBox, QWidget

from engine.files.causes import os_cause
from ui.kit.buttons import push_button
from ui.kit.dialogs import choose_target, confirm_link, show_in_files
from ui.kit.fields import TextArea
from ui.kit.labels import label
from ui.kit.layouts import STRETCH, column, row
from ui.kit.menus import copy_from
from ui.kit.windows import OwnDialog

_QUESTIONS = ("What I did", "What I expected", "What happened instead")


def report_details(program_version: str, window: QWidget, model: str, verdict: str) -> str:
    """Return versions, system, model and the last reason; no key, no text of a conversation."""
    screen = window.screen()
    size = screen.size()
    scale = f"{screen.devicePixelRatio():.0%}"
    lines = [
        f"- Fullstop {program_version}, Python {platform.python_version()}",
        f"- MLX {_installed('mlx')}, mlx-lm {_installed('mlx-lm')}, Qt {PySide6.__version__}",
        f"- {platform.platform()}, {platform.machine()}, {os.cpu_count()} cores",
        f"- Screen {size.width()} × {size.height()} at {scale}",
        f"- Model: {model or 'none'}",
    ]
    return "\n".join([*lines, f"- Last answer: {verdict}"] if verdict else lines)


def program_version() -> str:
    """Return the version of the installation."""
    found = _installed("fullstop-chat")
    return "(development)" if found == "?" else found


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "?"


class ReportDialog(OwnDialog):
    """A report that the user completes, then copies or saves; nothing is sent."""

    saved = Signal(object)  # Path

    def __init__(
        self, details: str, address: str, log_folder: Path | None, parent: QWidget
    ) -> None:
        super().__init__("Report Problem", parent)
        self.answers = [TextArea(question, "", 56) for question in _QUESTIONS]
        self.details = TextArea("Details", "", 116, details)
        about = (
            "Nothing is sent: copy or save the report. It has no key, and nothing of your "
            "conversations except why the last answer ended."
        )
        self.problem = label("", "fault", 0.95, is_wrapped=True)
        self.problem.hide()
        copy = push_button("Copy Report", kind="primary")
        copy.setDefault(True)
        copy.clicked.connect(lambda: copy_from(copy, self.report))
        save = push_button("Save…", "Save the report")
        save.clicked.connect(self._choose_file)
        log = push_button("Show Log", "Show the folder of the program's log")
        log.setVisible(log_folder is not None and log_folder.is_dir())
        if log_folder is not None:
            log.clicked.connect(partial(show_in_files, self, log_folder))
        page = push_button("Open Project Page…", f"Open {address}")
        page.setVisible(bool(address))
        page.clicked.connect(lambda: confirm_link(self, QUrl(address)))
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        fields = (*self.answers, self.details)
        titles = (label(field.accessibleName(), "title") for field in fields)
        column(
            label(about, "muted", is_wrapped=True),
            *(column(*pair, spacing=4) for pair in zip(titles, fields, strict=True)),
            self.problem,
            row(log, page, STRETCH, buttons, save, copy, spacing=8),
            spacing=12,
            margins=(24, 20, 24, 16),
            on=self,
        )
        self.setMinimumWidth(560)
        self.answers[0].setFocus()

    @property
    def report(self) -> str:
        """The report as Markdown."""
        fields = (*self.answers, self.details)
        return "\n\n".join(f"## {one.accessibleName()}\n\n{one.text}" for one in fields) + "\n"

    def _choose_file(self) -> None:
        filters = ["Text (*.md *.txt)"]
        choose_target(self, "Save Report", self._save, name="Fullstop Report.md", filters=filters)

    def _save(self, path: Path) -> None:
        try:
            path.write_text(self.report, encoding="utf-8")
        except OSError as error:
            self.problem.setText(f"“{path.name}” could not be written: {os_cause(error)}.")
            self.problem.show()
        else:
            self.saved.emit(path)
            self.accept()
