"""The server's pane of Settings: access, API key, origins and names. Main thread."""

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QLabel,
    QLayout,
    QLineEdit,
    QWidget,
)

from ui.kit.buttons import IconButton, ToggleSwitch, copy_button, push_button
from ui.kit.labels import ElidedLabel, clear_layout, label
from ui.kit.layouts import STRETCH, Item, Margins, card, column, row
from ui.kit.theme import fixed_font, restyle
from ui.preferences import declaration
from ui.server.local_server import LocalServerState
from ui.words import THIS_COMPUTER


class RemovableTexts(QWidget):
    """A row for each text, with a button that removes it."""

    edited = Signal(object)  # tuple of texts

    def __init__(self, accessible_name: str, none: str = "") -> None:
        super().__init__()
        self.setAccessibleName(accessible_name)
        self._texts: tuple[str, ...] = ()
        self._rows = column(spacing=2)
        self._none = label(none, "muted")
        self._none.setVisible(bool(none))
        column(self._rows, self._none, spacing=6, on=self)

    def show_texts(self, texts: tuple[str, ...]) -> None:
        if texts == self._texts:
            return
        self._texts = texts
        clear_layout(self._rows)
        for text in texts:
            self._rows.addWidget(self._row(text))
        self._none.setVisible(bool(self._none.text()) and not texts)

    def _row(self, text: str) -> QWidget:
        made = QWidget()
        caption = "All web pages (*)" if text == "*" else text
        name = ElidedLabel(caption)
        name.setFont(fixed_font(name.font(), 0.92))
        name.setToolTip(caption)
        name.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        remove = IconButton("close", f"Remove {caption}", size=14)
        remove.clicked.connect(
            lambda: self._take(tuple(other for other in self._texts if other != text))
        )
        row((name, 1), remove, spacing=4, margins=(2, 0, 0, 0), on=made)
        return made

    def _take(self, texts: tuple[str, ...]) -> None:
        self.show_texts(texts)
        buttons = self.findChildren(IconButton)[-len(texts) :]
        if texts:  # the button that had the keyboard is gone
            buttons[0].setFocus()
        self.edited.emit(texts)


class ListEditor(RemovableTexts):
    """A list with a field that adds a text."""

    def __init__(
        self, noun: str, accessible_name: str, example: str, problem_of: Callable[[str], str | None]
    ) -> None:
        super().__init__(f"{noun}s")
        self._noun, self._problem_of = noun, problem_of
        self.field = QLineEdit()
        self.field.setPlaceholderText(example)
        self.field.setAccessibleName(accessible_name)
        self.field.setFont(fixed_font(self.field.font(), 0.92))
        self.add = push_button("Add", f"Add the {noun}")
        self._problem = label("", "fault", 0.92, is_wrapped=True)
        self._problem.hide()
        inside = self.layout()
        assert isinstance(inside, QBoxLayout)
        inside.addLayout(row((self.field, 1), self.add, spacing=6))
        inside.addWidget(self._problem)
        self.field.returnPressed.connect(self._add)
        self.add.clicked.connect(self._add)
        self.field.textEdited.connect(lambda: self._show_problem(None))

    def _add(self) -> None:
        text = self.field.text().strip().rstrip("/")
        if not text:
            return
        problem = self._problem_of(text)
        if problem is None and text in self._texts:
            problem = f"This {self._noun} is already in the list."
        self._show_problem(problem)
        if problem is None:
            self.field.clear()
            self.show_texts((*self._texts, text))
            self.edited.emit(self._texts)

    def _show_problem(self, problem: str | None) -> None:
        self._problem.setText(problem or "")
        self._problem.setVisible(problem is not None)
        restyle(self.field, "invalid", problem is not None)


def host_problem(text: str) -> str | None:
    """Return the problem of a host name; None if it is valid."""
    if set(text) & set("/:?#@ *,") or not text.isprintable():
        return "Write the name alone, such as my-computer.example.org, without http:// or a port."
    return None


def origin_problem(text: str) -> str | None:
    """Return why a text is no scheme and host, nor one of ``*`` and ``chrome-extension://*``."""
    if text == "*":
        return None
    scheme, separator, rest = text.partition("://")
    if not separator or not scheme:
        return "An origin begins with its scheme, such as https://example.org."
    if rest == "*":
        if scheme.lower() in ("http", "https", "ws", "wss"):
            return "Write * to let every web page call, or one such as https://example.org."
        return None
    if not rest or set(rest) & set("/?#@ *"):
        return "An origin is scheme and host only, such as https://example.org, without a path."
    return None


class ServerSettings(QWidget):
    """Every change acts at once; running answers of the server go on."""

    def __init__(self, server: LocalServerState) -> None:
        super().__init__()
        self._server = server
        self.network = ToggleSwitch(declaration("server.is_on_network").label)
        self._reach_hint = label("", "faint", 0.92, is_wrapped=True)
        self._in_clear = label(
            "Traffic is not encrypted. Use a network that you trust: anyone on it can read the API "
            "key, the prompts and the answers.",
            "notice",
            0.92,
            is_wrapped=True,
        )
        self.requires_key = ToggleSwitch(declaration("server.is_key_required").label)
        self._key_state = label("", "muted", 0.95, is_wrapped=True)
        self.key_field = QLineEdit()
        self.key_field.setReadOnly(True)
        self.key_field.setAccessibleName("The new API key")
        self.key_field.setFont(fixed_font(self.key_field.font(), 0.9))
        self._copy_key = copy_button("Copy the key", lambda: server.key.fresh_key)
        self._once = label(
            "Copy it now: it will not be shown again.", "notice", 0.92, is_wrapped=True
        )
        self.renew = push_button("Create Key", "Create an API key")
        self.forget = push_button("Delete", "Delete the API key")
        self.origins = ListEditor(
            "origin", "Origin of web pages that may call", "https://example.org", origin_problem
        )
        self.hosts = ListEditor(
            "name",
            "Name by which other computers reach this one",
            "my-computer.example.org",
            host_problem,
        )
        self._lay_out()
        self._connect_signals()
        self._show_preferences()
        self._show_key()

    def hideEvent(self, event: QHideEvent) -> None:
        """Hide a new key: it is shown only once."""
        super().hideEvent(event)
        if not event.spontaneous():
            self._server.key.hide_key()

    def _lay_out(self) -> None:
        pages = (
            f"Pages of {THIS_COMPUTER} and desktop apps (app://, tauri://, vscode-webview://) can "
            "call this server. Other web pages can only if their origin is listed here."
        )
        names = (
            "Other computers reach this one by its address, its own name and names that end in "
            ".local. Add another name, such as that of a proxy, if a request was refused because "
            "of its Host header."
        )
        column(
            titled_card(
                "Access",
                _switched(self.network),
                self._reach_hint,
                self._in_clear,
            ),
            titled_card(
                "API Key",
                self._key_state,
                row((self.key_field, 1), self._copy_key, spacing=4),
                self._once,
                row(self.renew, self.forget, STRETCH),
                _switched(self.requires_key),
            ),
            titled_card(declaration("server.allowed_origins").label, _hint(pages), self.origins),
            titled_card(declaration("server.allowed_hosts").label, _hint(names), self.hosts),
            spacing=16,
            on=self,
        )

    def _connect_signals(self) -> None:
        preferences, key = self._server.preferences, self._server.key
        for signal, name in (
            (self.network.toggled, "is_on_network"),
            (self.requires_key.clicked, "is_key_required"),
            (self.origins.edited, "allowed_origins"),
            (self.hosts.edited, "allowed_hosts"),
        ):
            # No partial: PySide would not pass the argument of clicked.
            signal.connect(
                lambda value, path=f"server.{name}": preferences.change_value(path, value)
            )
        self.renew.clicked.connect(key.renew)
        self.forget.clicked.connect(key.forget)
        preferences.changed.connect(self._show_preferences)
        key.changed.connect(self._show_key)

    def _show_preferences(self) -> None:
        server = self._server.preferences.now.server
        self.network.setChecked(server.is_on_network)
        self._in_clear.setVisible(server.is_on_network)
        self.requires_key.setChecked(server.is_key_required)
        self.origins.show_texts(server.allowed_origins)
        self.hosts.show_texts(server.allowed_hosts)
        self._show_key()

    def _show_key(self) -> None:
        key, server = self._server.key, self._server.preferences.now.server
        positions = {
            "none": "There is no API key yet.",
            "keychain": "There is a key, kept in this system’s keychain.",
            "file": "There is a key. No keychain was found here, so it is kept in a file that "
            "only you can read.",
        }
        self._key_state.setText(key.message or positions[key.location])
        restyle(self._key_state, "role", "fault" if key.message else "muted")
        is_fresh = bool(key.fresh_key)
        self.key_field.setText(key.fresh_key)
        self.key_field.setCursorPosition(0)
        for widget in (self.key_field, self._copy_key, self._once):
            widget.setVisible(is_fresh)
        self.renew.setText("Replace Key" if key.has_key else "Create Key")
        self.renew.setAccessibleName("Replace the API key" if key.has_key else "Create an API key")
        self.renew.setEnabled(not key.is_busy)
        self.forget.setVisible(key.has_key)
        # A server that other computers can reach always needs a key.
        self.forget.setEnabled(not key.is_busy and not server.is_on_network)
        self.requires_key.setEnabled(key.has_key)
        self.network.setEnabled(key.has_key or server.is_on_network)
        if key.has_key:
            hint = "Other computers on your network need the API key."
        else:
            hint = "Create an API key first: other computers on your network need it."
        self._reach_hint.setText(hint)


def _switched(switch: ToggleSwitch) -> QLayout:
    return row(label(switch.accessibleName()), STRETCH, switch)


def _hint(text: str) -> QLabel:
    return label(text, "muted", 0.95, is_wrapped=True)


def titled_card(
    title: str, *items: Item, spacing: int = 8, margins: Margins = (17, 13, 17, 13)
) -> QWidget:
    """Return items in a frame, below the title of the group if it has one."""
    whole, heading = QWidget(), label(title, "title")
    whole.setObjectName("group")
    heading.setVisible(bool(title))
    column(heading, card(*items, spacing=spacing, margins=margins), spacing=8, on=whole)
    return whole
