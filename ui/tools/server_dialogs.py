"""The dialogs that add or edit an MCP server: a form, and a field for JSON. Main thread."""

from collections.abc import Coroutine, Iterable
from dataclasses import replace
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QDialogButtonBox,
    QFormLayout,
    QLineEdit,
    QPlainTextEdit,
    QWidget,
)

from ui.kit.buttons import Choice, IconButton, push_button
from ui.kit.labels import label
from ui.kit.layouts import STRETCH, column, form, row, scrolling
from ui.kit.tasks import start_task
from ui.kit.theme import fixed_font
from ui.kit.windows import OwnDialog, fit_to_screen
from ui.records.tool_servers import NamedValue, ToolHost, ToolServerConfig, ToolsRefused

_EDIT, _ADD = ("Edit Server", "Save"), ("Add Server", "Add")
_EXAMPLE = '{\n  "mcpServers": {\n    "files": {"command": "npx", "args": ["-y", "…"]}\n  }\n}'


class NamedValueRows(QWidget):
    """A row for each value, and a button that adds one."""

    def __init__(self, noun: str) -> None:
        super().__init__()
        self._noun = noun
        self.rows: list[_Row] = []
        self._added = 0
        self.more = push_button(f"Add {noun.capitalize()}", f"Add a {noun}")
        self.more.setAutoDefault(False)
        self.more.clicked.connect(lambda: self._add(NamedValue("")).name.setFocus())
        self._column = column(row(self.more, STRETCH), STRETCH, spacing=6, on=self)

    def show_values(self, values: Iterable[NamedValue]) -> None:
        for value in values:
            self._add(value)

    def values(self) -> tuple[NamedValue, ...]:
        """Return the edited values; rows without a name are left out."""
        return tuple(row.value() for row in self.rows if row.name.text().strip())

    def _add(self, value: NamedValue) -> "_Row":
        self._added += 1
        row = _Row(f"{self._noun} {self._added}", value)
        row.remove.clicked.connect(lambda: self._remove(row))
        self.rows.append(row)
        self._column.insertWidget(len(self.rows) - 1, row)
        return row

    def _remove(self, row: "_Row") -> None:
        self.rows.remove(row)
        row.hide()
        row.deleteLater()
        self.more.setFocus()


class _Row(QWidget):
    """One name and value."""

    def __init__(self, default_name: str, value: NamedValue) -> None:
        super().__init__()
        self._default_name = default_name
        self._is_kept = value.is_secret and not value.value
        self.name = QLineEdit(value.name)
        self.name.setPlaceholderText("Name")
        self.name.setAccessibleName(f"Name of {default_name}")
        self.text = QLineEdit(value.value)
        self.secret = QCheckBox("Secret")
        self.secret.setToolTip(
            "Secrets are kept in the keychain, or in a private file if there is none"
        )
        self.remove = IconButton("close", "")
        self.name.textChanged.connect(self._show_message)
        self._show_message(value.name)
        self.secret.toggled.connect(self._show_kind)
        self.secret.setChecked(value.is_secret)
        self._show_kind(value.is_secret)
        row((self.name, 2), (self.text, 3), self.secret, self.remove, on=self)

    def _show_message(self, typed: str) -> None:
        """Name the other controls by the name that was typed."""
        called = typed.strip() or self._default_name
        self.text.setAccessibleName(f"Value of {called}")
        self.secret.setAccessibleName(f"{called} is a secret")
        self.remove.show_icon("close", f"Remove {called}")

    def value(self) -> NamedValue:
        return NamedValue(self.name.text().strip(), self.text.text(), self.secret.isChecked())

    def _show_kind(self, is_secret: bool) -> None:
        modes = QLineEdit.EchoMode
        self.text.setEchoMode(modes.Password if is_secret else modes.Normal)
        kept = self._is_kept and is_secret
        self.text.setPlaceholderText("Leave empty to keep the saved value" if kept else "Value")


class _KeptDialog(OwnDialog):
    """A dialog that stays open, with the typed text, while its action runs or if it fails."""

    def __init__(self, title: str, done: str, parent: QWidget) -> None:
        super().__init__(title, parent)
        self.problem = label("", "fault", 0.95, is_wrapped=True)
        self.problem.hide()
        kinds = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(kinds.Save | kinds.Cancel)
        self.save = self.buttons.button(kinds.Save)
        self.save.setText(done)
        self.save.setProperty("kind", "primary")
        self.buttons.rejected.connect(self.reject)

    def reject(self) -> None:
        if self.buttons.isEnabled():
            super().reject()

    def _begin(self, work: Coroutine[Any, Any, object]) -> None:
        self.buttons.setEnabled(False)
        start_task(self, self._do(work), "keep an MCP server")

    async def _do(self, work: Coroutine[Any, Any, object]) -> None:
        try:
            await work
        except ToolsRefused as refused:
            self.problem.setText(str(refused))
            self.problem.show()
        else:
            self.accept()
        finally:
            self.buttons.setEnabled(True)


class PasteDialog(_KeptDialog):
    """Takes an ``mcpServers`` JSON."""

    added = Signal(object)  # AddedServers

    def __init__(self, parent: QWidget, host: ToolHost) -> None:
        super().__init__("Paste JSON", "Add", parent)
        self._host = host
        self.text = QPlainTextEdit()
        self.text.setAccessibleName("mcpServers JSON")
        self.text.setPlaceholderText(_EXAMPLE)
        self.text.setTabChangesFocus(True)
        self.text.setFont(fixed_font(self.font(), 0.95))
        self.buttons.accepted.connect(lambda: self._begin(self._add()))
        hint = (
            "Paste the mcpServers JSON that a server’s page shows. Its servers start and are on in "
            "this chat and in new ones."
        )
        column(
            label(hint, "muted", is_wrapped=True),
            (self.text, 1),
            self.problem,
            self.buttons,
            spacing=12,
            margins=(18, 16, 18, 16),
            on=self,
        )
        fit_to_screen(self, 560, 420)

    async def _add(self) -> None:
        self.added.emit(await self._host.add_text(self.text.toPlainText()))


class ServerForm(_KeptDialog):
    """Edits one server, or adds one."""

    def __init__(
        self, parent: QWidget, config: ToolServerConfig, host: ToolHost, replaced: str = ""
    ) -> None:
        super().__init__(*(_EDIT if replaced else _ADD), parent)
        self._config = shown = config
        self._host = host
        self._replaced = replaced
        self.name = _line(shown.name, "Name", "files")
        self.kind = Choice(
            "Type",
            [("program", "Local (stdio)"), ("address", "Remote (HTTP)")],
        )
        self.kind.choose("program" if shown.is_program else "address")
        self.command = _line(shown.command, "Program", "npx")
        self.args = QPlainTextEdit("\n".join(shown.args))
        self.args.setAccessibleName("Arguments, one on each line")
        self.args.setPlaceholderText("One argument on each line")
        self.args.setTabChangesFocus(True)
        self.args.setFixedHeight(84)
        self.cwd = _line(shown.cwd, "Working directory", "The home folder")
        self.env = NamedValueRows("variable")
        self.env.show_values(shown.env)
        self.url = _line(shown.url, "Address", "https://example.org/mcp")
        self.headers = NamedValueRows("header")
        self.headers.show_values(shown.headers)
        self._form = form(
            ("Name", self.name),
            ("Type", self.kind),
            ("Program", self.command),
            ("Arguments", self.args),
            ("Folder", self.cwd),
            ("Variables", self.env),
            ("Address", self.url),
            ("Headers", self.headers),
            spacing=(14, 9),
            growth=QFormLayout.FieldGrowthPolicy.ExpandingFieldsGrow,
            wraps=True,
        )
        scroll = scrolling(self._form, "")
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        column(
            *((scroll, 1), self.problem, self.buttons),
            spacing=12,
            margins=(18, 16, 18, 16),
            on=self,
        )
        fit_to_screen(self, 620, 460)
        self.kind.currentIndexChanged.connect(lambda _: self._show_kind())
        self.buttons.accepted.connect(self._keep)
        self._show_kind()
        self.name.setFocus()

    def edited(self) -> ToolServerConfig:
        is_program = self.kind.currentData() == "program"
        args = self.args.toPlainText()
        return replace(
            self._config,
            name=self.name.text(),
            command=self.command.text().strip() if is_program else "",
            args=tuple(args.split("\n")) if args and is_program else (),
            cwd=self.cwd.text().strip() if is_program else "",
            env=self.env.values() if is_program else (),
            url="" if is_program else self.url.text().strip(),
            headers=() if is_program else self.headers.values(),
        )

    def _keep(self) -> None:
        target = self.command if self.kind.currentData() == "program" else self.url
        empty = (field for field in (self.name, target) if not field.text().strip())
        if (field := next(empty, None)) is not None:
            self.problem.setText(f"{field.accessibleName()} is required.")
            self.problem.show()
            field.setFocus()
            return
        self._begin(self._host.put(self.edited(), self._replaced))

    def _show_kind(self) -> None:
        is_program = self.kind.currentData() == "program"
        for field in (self.command, self.args, self.cwd, self.env):
            self._form.setRowVisible(field, is_program)
        for field in (self.url, self.headers):
            self._form.setRowVisible(field, not is_program)


def _line(text: str, accessible_name: str, example: str) -> QLineEdit:
    field = QLineEdit(text)
    field.setAccessibleName(accessible_name)
    field.setPlaceholderText(example)
    return field
