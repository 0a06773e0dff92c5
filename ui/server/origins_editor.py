"""The list of web origins whose pages may call the server. Main thread."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from ui.kit.controls.buttons import IconButton
from ui.kit.look.theme import Theme, fixed_font, restyle
from ui.kit.text.labels import ElidedLabel, clear_layout_of, label


class OriginsEditor(QWidget):
    """A row for each origin, with a button that removes it, and a field that adds one.

    Signals:
        edited: A person changed the list; carries a tuple of origins.
    """

    edited = Signal(object)

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._origins: tuple[str, ...] = ()
        self._rows = QWidget()
        rows = QVBoxLayout(self._rows)
        rows.setContentsMargins(0, 0, 0, 0)
        rows.setSpacing(2)
        self.field = QLineEdit()
        self.field.setPlaceholderText("https://example.org")
        self.field.setAccessibleName("Origin of web pages that may call")
        self.field.setFont(fixed_font(self.field.font(), 0.92))
        self.add = QPushButton("Add")
        self.add.setAccessibleName("Add the origin")
        self._problem = label("", "fault", 0.92, is_wrapped=True)
        self._problem.hide()
        entry = QHBoxLayout()
        entry.setSpacing(6)
        entry.addWidget(self.field, 1)
        entry.addWidget(self.add)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addWidget(self._rows)
        layout.addLayout(entry)
        layout.addWidget(self._problem)
        self.field.returnPressed.connect(self._add)
        self.add.clicked.connect(self._add)
        self.field.textEdited.connect(lambda: self._say(None))

    @property
    def problem(self) -> str:
        """What is wrong with the typed origin; empty if it is valid."""
        return "" if self._problem.isHidden() else self._problem.text()

    def show_origins(self, origins: tuple[str, ...]) -> None:
        """Show origins without emitting ``edited``."""
        if origins == self._origins:
            return
        self._origins = origins
        clear_layout_of(self._rows)
        layout = self._rows.layout()
        assert layout is not None
        for origin in origins:
            layout.addWidget(self._row(origin))

    def _row(self, origin: str) -> QWidget:
        made = QWidget()
        line = QHBoxLayout(made)
        line.setContentsMargins(2, 0, 0, 0)
        line.setSpacing(4)
        words = "All web pages (*)" if origin == "*" else origin
        name = ElidedLabel(words)
        name.setFont(fixed_font(name.font(), 0.92))
        name.setToolTip(words)
        name.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        remove = IconButton(self._theme, "close", f"Remove {words}", size=14)
        remove.clicked.connect(
            lambda: self._take(tuple(one for one in self._origins if one != origin))
        )
        line.addWidget(name, 1)
        line.addWidget(remove)
        return made

    def _add(self) -> None:
        text = self.field.text().strip().rstrip("/")
        if not text:
            return
        problem = origin_problem(text)
        if problem is None and text in self._origins:
            problem = "This origin is already in the list."
        self._say(problem)
        if problem is None:
            self.field.clear()
            self._take((*self._origins, text))

    def _take(self, origins: tuple[str, ...]) -> None:
        self.show_origins(origins)
        self.edited.emit(origins)

    def _say(self, problem: str | None) -> None:
        self._problem.setText(problem or "")
        self._problem.setVisible(problem is not None)
        restyle(self.field, "invalid", problem is not None)


def origin_problem(text: str) -> str | None:
    """Return what is wrong with a web origin; None if it is valid.

    An origin is a scheme and a host, perhaps with a port, and nothing after it. ``*`` stands for
    every page, and ``app://*`` for every desktop app of that scheme.
    """
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
