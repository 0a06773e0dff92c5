"""What belongs to the program and not to a conversation. Main thread."""

from dataclasses import replace
from typing import Any, cast

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QPlainTextEdit,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from ui.kit.controls.check_box import CheckBox
from ui.kit.controls.choice import Choice
from ui.kit.controls.growing_input import never_sideways
from ui.kit.controls.number_field import NumberField
from ui.kit.controls.reading_order import move_focus
from ui.kit.look.theme import Theme
from ui.kit.look.theme_mode import ThemeMode
from ui.kit.text.labels import label
from ui.preferences.preferences import TEXT_PERCENTS, PreferencesState, ServerAtLaunch

MODES: tuple[tuple[ThemeMode, str], ...] = (
    ("system", "Same as the system"),
    ("light", "Light"),
    ("dark", "Dark"),
)
_AT_LAUNCH: tuple[tuple[ServerAtLaunch, str], ...] = (
    ("as_left", "As last time"),
    ("on", "Always on"),
    ("off", "Always off"),
)
_MOST_TOKENS = 1_000_000
_NAMES_PX = 150
_FIELD_PX = 190


class PreferencesDialog(QDialog):
    """Appearance, server, and what new conversations begin with; changes act at once."""

    def __init__(self, theme: Theme, preferences: PreferencesState, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Preferences")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._theme = theme
        self._preferences = preferences
        self._shown_prompt = ""
        self.tabs = QTabWidget()
        self.tabs.setAccessibleName("Preferences")
        self.tabs.addTab(self._general(), "General")
        self.tabs.addTab(self._server(), "Server")
        self.tabs.addTab(self._new_conversations(), "New conversations")
        self._problem = label("", "fault", 0.95, is_wrapped=True)
        self._problem.hide()
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.close)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 16, 18, 16)
        layout.setSpacing(14)
        layout.addWidget(self.tabs, 1)
        layout.addWidget(self._problem)
        layout.addWidget(buttons)
        theme.follow(self, self._fit)
        preferences.keeping_failed.connect(self._say)

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        """Go on with Tab as one reads."""
        return move_focus(self, is_next)

    def _fit(self) -> None:
        self.setMinimumWidth(self._theme.px(500))
        QTimer.singleShot(0, self, self.adjustSize)  # when the layout knows the larger words

    def hideEvent(self, event: QHideEvent) -> None:
        """Take over the system prompt when the window closes."""
        super().hideEvent(event)
        # A text field keeps some characters in another form: only what was edited is taken.
        prompt = self.system_prompt.toPlainText()
        if prompt != self._shown_prompt:
            self._shown_prompt = prompt
            self._change_new(system_prompt=prompt)

    def _general(self) -> QWidget:
        now = self._preferences.now
        self.appearance = Choice(self._theme, "Appearance", MODES)
        self.appearance.choose(now.theme)
        self.appearance.currentIndexChanged.connect(
            lambda row: self._preferences.change(
                theme=cast(ThemeMode, self.appearance.itemData(row))
            )
        )
        self.contrast = CheckBox(self._theme, "Stronger lines and text", "High contrast")
        self.contrast.setChecked(now.has_high_contrast)
        self.contrast.toggled.connect(
            lambda is_on: self._preferences.change(has_high_contrast=is_on)
        )
        page = _Page(self._theme)
        page.add("Appearance", self.appearance)
        page.add("Contrast", self.contrast)
        self.text_size = Choice(
            self._theme, "Text size", tuple((str(p), f"{p} %") for p in TEXT_PERCENTS)
        )
        self.text_size.choose(str(now.text_percent))
        self.text_size.currentIndexChanged.connect(
            lambda row: self._preferences.change(text_percent=int(self.text_size.itemData(row)))
        )
        page.add("Text size", self.text_size)
        return page

    def _server(self) -> QWidget:
        now = self._preferences.now
        self.at_launch = Choice(self._theme, "The server at launch", _AT_LAUNCH)
        self.at_launch.choose(now.server.at_launch)
        self.at_launch.currentIndexChanged.connect(
            lambda row: self._preferences.change_server(
                at_launch=cast(ServerAtLaunch, self.at_launch.itemData(row))
            )
        )
        self.stays = CheckBox(self._theme, "Keep serving in the background")
        self.stays.setChecked(now.stays_in_tray)
        self.stays.toggled.connect(lambda is_on: self._preferences.change(stays_in_tray=is_on))
        page = _Page(self._theme)
        page.add("At launch", self.at_launch)
        page.add("When the window closes", self.stays)
        hint = (
            "While the server is on, the icon in the tray brings the window back. Quit always "
            "ends everything. Port, network, key and origins are in the Server window."
        )
        page.add_hint(hint)
        return page

    def _new_conversations(self) -> QWidget:
        now = self._preferences.now.new_conversation
        self.system_prompt = QPlainTextEdit(now.system_prompt)
        self._shown_prompt = self.system_prompt.toPlainText()
        self.system_prompt.setAccessibleName("System prompt of new conversations")
        self.system_prompt.setPlaceholderText("Instructions that precede the conversation")
        self.system_prompt.setTabChangesFocus(True)
        never_sideways(self.system_prompt)
        prompt = self.system_prompt
        self._theme.follow(prompt, lambda: prompt.setFixedHeight(self._theme.px(92)))
        self.temperature = NumberField(
            "Temperature of new conversations", "Model default", 0, 2, 0.05
        )
        self.max_tokens = NumberField(
            "Longest answer of new conversations, in tokens",
            "No limit",
            1,
            _MOST_TOKENS,
            64,
            is_whole=True,
        )
        self.max_tokens.setSuffix(" tokens")
        self.temperature.show_number(now.temperature)
        self.max_tokens.show_number(now.max_tokens)
        self.temperature.number_edited.connect(lambda number: self._change_new(temperature=number))
        self.max_tokens.number_edited.connect(lambda number: self._change_new(max_tokens=number))
        self.thinking = CheckBox(self._theme, "Let the model reason first, if it can")
        self.thinking.setChecked(now.is_thinking)
        self.thinking.toggled.connect(lambda is_on: self._change_new(is_thinking=is_on))
        page = _Page(self._theme)
        page.add("System prompt", self.system_prompt)
        page.add("Temperature", self.temperature)
        page.add("Longest answer", self.max_tokens)
        page.add("Thinking", self.thinking)
        return page

    def _change_new(self, **fields: Any) -> None:
        now = self._preferences.now.new_conversation
        self._preferences.change(new_conversation=replace(now, **fields))

    def _say(self, problem: str) -> None:
        self._problem.setText(problem)
        self._problem.show()


class _Page(QWidget):
    """Rows of a name and a control."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(20)
        self._grid.setVerticalSpacing(11)
        self._grid.setColumnStretch(1, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 16, 0, 6)
        layout.addLayout(self._grid)
        layout.addStretch(1)

    def add(self, name: str, control: QWidget) -> None:
        """Add a row; a control of several lines has its name at its top."""
        row = self._grid.rowCount()
        is_tall = isinstance(control, QPlainTextEdit)
        if isinstance(control, Choice | NumberField):
            self._theme.follow(control, lambda: control.setFixedWidth(self._theme.px(_FIELD_PX)))
        title = label(name, is_wrapped=True)
        self._theme.follow(title, lambda: title.setFixedWidth(self._theme.px(_NAMES_PX)))
        title.setContentsMargins(0, 6 if is_tall else 0, 0, 0)
        # Without a side, a widget of a fixed width stands in the middle of its cell.
        left, middle = Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignVCenter
        top = Qt.AlignmentFlag.AlignTop
        self._grid.addWidget(title, row, 0, left | (top if is_tall else middle))
        self._grid.addWidget(control, row, 1, Qt.AlignmentFlag(0) if is_tall else left | middle)

    def add_hint(self, words: str) -> None:
        """Add an explanation."""
        row = self._grid.rowCount()
        self._grid.addWidget(label(words, "faint", 0.92, is_wrapped=True), row, 0, 1, 2)
