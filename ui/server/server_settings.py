"""Who may use the server: reach, port, key and web pages. Main thread."""

from PySide6.QtGui import QFont
from PySide6.QtWidgets import (
    QButtonGroup,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QRadioButton,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from ui.kit.controls.check_box import CheckBox
from ui.kit.controls.copy_button import CopyButton
from ui.kit.look.theme import Theme, fixed_font, restyle
from ui.kit.text.labels import label
from ui.preferences.preferences import declaration
from ui.server.origins_editor import OriginsEditor
from ui.server.server_panel import ServerPanel


class ServerSettings(QWidget):
    """Every change acts at once; a running server restarts with it."""

    def __init__(self, theme: Theme, panel: ServerPanel) -> None:
        super().__init__()
        self._panel = panel
        self.this_computer = _radio("This computer only")
        self.network = _radio(declaration("server.is_on_network").label)
        self.reach = QButtonGroup(self)
        self.reach.addButton(self.this_computer)
        self.reach.addButton(self.network)
        self._reach_hint = label("", "faint", 0.92, is_wrapped=True)
        self._in_clear = label(
            "Traffic is not encrypted. Use a network that you trust: anyone on it can read the API "
            "key, the prompts and the answers.",
            "notice",
            0.92,
            is_wrapped=True,
        )
        port = declaration("server.port")
        assert port.least is not None
        assert port.most is not None
        self.port = QSpinBox()
        self.port.setAccessibleName(port.label)
        self.port.setRange(int(port.least), int(port.most))
        self.port.setGroupSeparatorShown(False)
        self.port.setKeyboardTracking(False)
        self.port.lineEdit().setTextMargins(8, 0, 8, 0)
        theme.follow(self.port, lambda: self.port.setFixedWidth(theme.px(96)))
        self.requires_key = CheckBox(theme, declaration("server.is_key_required").label)
        self.chooses_model = CheckBox(theme, declaration("server.is_model_chosen").label)
        self._key_state = label("", "muted", 0.95, is_wrapped=True)
        self.key_field = QLineEdit()
        self.key_field.setReadOnly(True)
        self.key_field.setAccessibleName("The new API key")
        self.key_field.setFont(fixed_font(self.key_field.font(), 0.9))
        self._copy_key = CopyButton(theme, "Copy the key", lambda: panel.key.fresh_key)
        self._once = label(
            "Copy it now: it will not be shown again.", "notice", 0.92, is_wrapped=True
        )
        self.renew = QPushButton("Create a Key")
        self.renew.setAccessibleName("Create an API key")
        self.forget = QPushButton("Remove")
        self.forget.setAccessibleName("Remove the API key")
        self.origins = OriginsEditor(theme)
        self._lay_out()
        self._connect_signals()
        self._show_preferences()
        self._show_key()

    def _lay_out(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(12)
        inner = _card(layout, "Who can use it")
        inner.addWidget(self.this_computer)
        inner.addWidget(self.network)
        inner.addWidget(self._reach_hint)
        inner.addWidget(self._in_clear)
        row = QHBoxLayout()
        row.addWidget(label(declaration("server.port").label))
        row.addStretch(1)
        row.addWidget(self.port)
        inner.addSpacing(2)
        inner.addLayout(row)
        inner = _card(layout, "API key")
        inner.addWidget(self._key_state)
        shown = QHBoxLayout()
        shown.setSpacing(4)
        shown.addWidget(self.key_field, 1)
        shown.addWidget(self._copy_key)
        inner.addLayout(shown)
        inner.addWidget(self._once)
        buttons = QHBoxLayout()
        buttons.addWidget(self.renew)
        buttons.addWidget(self.forget)
        buttons.addStretch(1)
        inner.addLayout(buttons)
        inner.addWidget(self.requires_key)
        inner = _card(layout, "Which model answers")
        inner.addWidget(self.chooses_model)
        hint = (
            "A model that is not in memory is loaded for the request. If this is off, the model "
            "that was loaded last answers every request, whatever name it gives."
        )
        inner.addWidget(label(hint, "muted", 0.95, is_wrapped=True))
        inner = _card(layout, declaration("server.allowed_origins").label)
        hint = (
            "Web pages can call this server only if their origin is listed here. For desktop apps "
            "list their scheme: app://*, tauri://* or vscode-webview://*."
        )
        inner.addWidget(label(hint, "muted", 0.95, is_wrapped=True))
        inner.addWidget(self.origins)
        layout.addStretch(1)

    def _connect_signals(self) -> None:
        preferences, key = self._panel.preferences, self._panel.key
        self.network.clicked.connect(lambda: preferences.change_server(is_on_network=True))
        self.this_computer.clicked.connect(lambda: preferences.change_server(is_on_network=False))
        self.port.valueChanged.connect(lambda port: preferences.change_server(port=port))
        self.requires_key.clicked.connect(
            lambda is_on: preferences.change_server(is_key_required=is_on)
        )
        self.chooses_model.clicked.connect(
            lambda is_on: preferences.change_server(is_model_chosen=is_on)
        )
        self.origins.edited.connect(
            lambda origins: preferences.change_server(allowed_origins=origins)
        )
        self.renew.clicked.connect(key.renew)
        self.forget.clicked.connect(key.forget)
        preferences.changed.connect(self._show_preferences)
        key.changed.connect(self._show_key)

    def _show_preferences(self) -> None:
        server = self._panel.preferences.now.server
        self.network.setChecked(server.is_on_network)
        self.this_computer.setChecked(not server.is_on_network)
        self._in_clear.setVisible(server.is_on_network)
        for field in (self.port, self.requires_key, self.chooses_model):
            field.blockSignals(True)
        self.port.setValue(server.port)
        self.requires_key.setChecked(server.is_key_required)
        self.chooses_model.setChecked(server.is_model_chosen)
        for field in (self.port, self.requires_key, self.chooses_model):
            field.blockSignals(False)
        self.origins.show_origins(server.allowed_origins)
        self._show_key()

    def _show_key(self) -> None:
        key, server = self._panel.key, self._panel.preferences.now.server
        places = {
            "none": "There is no API key yet.",
            "keychain": "There is a key, kept in this system’s keychain.",
            "file": "There is a key. No keychain was found here, so it is kept in a file that "
            "only you can read.",
        }
        self._key_state.setText(key.message or places[key.place])
        restyle(self._key_state, "role", "fault" if key.message else "muted")
        is_fresh = bool(key.fresh_key)
        self.key_field.setText(key.fresh_key)
        self.key_field.setCursorPosition(0)
        for widget in (self.key_field, self._copy_key, self._once):
            widget.setVisible(is_fresh)
        self.renew.setText("Replace the Key" if key.has_key else "Create a Key")
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


def _radio(words: str) -> QRadioButton:
    made = QRadioButton(words)
    made.setAccessibleName(words)
    return made


def _card(layout: QVBoxLayout, title: str) -> QVBoxLayout:
    card = QFrame()
    card.setObjectName("card")
    inner = QVBoxLayout(card)
    inner.setContentsMargins(14, 12, 14, 13)
    inner.setSpacing(8)
    inner.addWidget(label(title, "title", 1.0, weight=QFont.Weight.DemiBold))
    layout.addWidget(card)
    return inner
