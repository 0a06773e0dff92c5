"""A window that finds out what a server does with stops. Main thread."""

from pathlib import Path

from PySide6.QtWidgets import (
    QFormLayout,
    QHBoxLayout,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from ui.inspector.run.pages import reading_page
from ui.inspector.run.tools import InspectorTools, ProbeTarget
from ui.inspector.servers.probe_page import probe_page
from ui.inspector.servers.probing import Probing
from ui.kit.background.files import FileRefused, write_text
from ui.kit.background.tasks import Tasks
from ui.kit.controls.choice import Choice
from ui.kit.controls.own_window import OwnWindow
from ui.kit.look.theme import Theme
from ui.kit.system.clipboard import copy_from
from ui.kit.system.file_dialogs import choose_target
from ui.kit.text.labels import label
from ui.preferences.groups import DEFAULT_PORT


class ProbeWindow(OwnWindow):
    """Address, dialect, model and key above; progress and results below.

    Args:
        theme: The look.
        tools: The API's part of the inspector.
        parent: The window that it belongs to.
    """

    def __init__(self, theme: Theme, tools: InspectorTools, parent: QWidget | None = None) -> None:
        super().__init__(theme, "Probe a Server", (860, 760), parent)
        self._theme = theme
        self.probing = Probing(tools, self)
        self._tasks = Tasks()
        self.url = QLineEdit(f"http://127.0.0.1:{DEFAULT_PORT}")
        dialects = [(name, name) for name in tools.probe_dialects]
        self.dialect = Choice(theme, "API", [("", "Detect Automatically"), *dialects])
        self.model = QLineEdit()
        self.model.setPlaceholderText("The first model that the server lists")
        self.key = QLineEdit()
        self.key.setEchoMode(QLineEdit.EchoMode.Password)
        self.key.setPlaceholderText("None. Keys are never saved.")
        self.start = QPushButton("Probe")
        self.start.setProperty("kind", "primary")
        self.start.setDefault(True)
        self.cancel = QPushButton("Cancel")
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(4)
        self.bar.setAccessibleName("Progress of the probe")
        self.note = label("", "", 1.0, is_wrapped=True)
        self.page = reading_page("Results")
        self.copy = QPushButton("Copy as Markdown")
        self.save = QPushButton("Save…")
        self.save.setAccessibleName("Save the report as a page or as JSON")
        self._lay_out()
        self.start.clicked.connect(self._start)
        self.url.returnPressed.connect(self._start)
        self.cancel.clicked.connect(self.probing.cancel)
        self.copy.clicked.connect(self._copy)
        self.save.clicked.connect(self._choose_target)
        self.probing.changed.connect(self._refresh)
        theme.changed.connect(self._refresh)
        self._refresh()

    async def finish(self) -> None:
        """Cancel the running probe, and wait for its end."""
        await self.probing.finish()
        await self._tasks.finish()

    def _lay_out(self) -> None:
        form = QFormLayout()
        form.setHorizontalSpacing(14)
        form.setVerticalSpacing(8)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        names = ("Address", "API", "Model", "Key")
        for name, field in zip(names, (self.url, self.dialect, self.model, self.key), strict=True):
            field.setAccessibleName(name)
            form.addRow(label(name, "muted"), field)
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addWidget(self.start)
        row.addWidget(self.cancel)
        row.addWidget(self.note, 1)
        row.addWidget(self.copy)
        row.addWidget(self.save)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 18, 20, 18)
        layout.setSpacing(12)
        layout.addWidget(
            label(
                "Sends up to three hundred small requests, with and without stops, and compares "
                "the answers.",
                "muted",
                0.97,
                is_wrapped=True,
            )
        )
        layout.addLayout(form)
        layout.addLayout(row)
        layout.addWidget(self.bar)
        layout.addWidget(self.page, 1)

    def _start(self) -> None:
        self.probing.start(
            ProbeTarget(
                self.url.text().strip(),
                str(self.dialect.currentData() or ""),
                self.model.text().strip(),
                self.key.text().strip(),
            )
        )

    def _refresh(self) -> None:
        probing = self.probing
        is_running = probing.stage == "running"
        self.start.setEnabled(not is_running)
        self.cancel.setVisible(is_running)
        self.bar.setVisible(is_running)
        self.bar.setRange(0, probing.total)
        self.bar.setValue(probing.done)
        self.note.setText(probing.message)
        self.copy.setEnabled(probing.outcome is not None)
        self.save.setEnabled(probing.outcome is not None)
        self.page.setHtml(probe_page(probing.rows, self._theme.colors))

    def _copy(self) -> None:
        if self.probing.outcome is not None:
            copy_from(self.copy, self.probing.outcome.markdown)

    def _choose_target(self) -> None:
        kinds = ["Page (*.html)", "JSON (*.json)"]
        choose_target(self, "Save the Report", self._save, name="probe.html", filters=kinds)

    def _save(self, path: Path) -> None:
        self._tasks.start(self._write(path), "save a probe's report")

    async def _write(self, path: Path) -> None:
        outcome = self.probing.outcome
        if outcome is None:
            return
        text = outcome.json if path.suffix == ".json" else outcome.html
        try:
            await write_text(path, lambda: text)
        except FileRefused as refusal:
            self.note.setText(str(refusal))
