"""The memory that models take, below their list. Main thread."""

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.wording import format_size
from ui.kit.buttons import Choice
from ui.kit.labels import label
from ui.kit.layouts import row
from ui.kit.theme import current_theme
from ui.models.model_library import ModelLibrary
from ui.preferences import declaration


class _Bar(QWidget):
    """A segment for each model in memory, of the memory for all models."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.limit = 0
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        return QSize(120, 24)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors, area = current_theme().colors, QRectF(self.rect()).adjusted(0.5, 6.5, -0.5, -6.5)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        outline = QPainterPath()
        outline.addRoundedRect(area, area.height() / 2, area.height() / 2)
        painter.fillPath(outline, QColor(colors.sunken))
        painter.setPen(QColor(colors.strong_line))
        painter.drawPath(outline)
        painter.setClipPath(outline)
        left, whole = area.left(), max(self.limit, sum(self.sizes), 1)
        for size in self.sizes:
            width = max(2.0, area.width() * size / whole)
            painter.fillRect(QRectF(left, area.top(), width - 1, area.height()), colors.accent)
            left += width
        painter.end()


class MemoryBar(QWidget):
    """Shows the memory of all loaded models, and sets the time until idle ones are unloaded."""

    def __init__(self, library: ModelLibrary) -> None:
        super().__init__()
        self._library = library
        self.bar = _Bar()
        self.total = label("", "muted", 0.95)
        preferences = library.preferences
        idle = declaration("models.rests_after_min")
        minutes = preferences.now.models.rests_after_min
        offered = {minutes: f"Unload After {minutes} min"} | dict(idle.choices)
        choices = [(str(after), offered[after]) for after in sorted(offered)]
        self.idle_unload = Choice(idle.label, choices)
        self.idle_unload.choose(str(minutes))
        self.idle_unload.setToolTip("The next request loads it again")
        self.idle_unload.currentIndexChanged.connect(
            lambda row: preferences.change_value(
                "models.rests_after_min", int(self.idle_unload.itemData(row))
            )
        )
        row(
            label("Memory", "muted", 0.95),
            (self.bar, 1),
            self.total,
            8,
            label("When Idle", "muted", 0.95),
            self.idle_unload,
            spacing=12,
            margins=(26, 8, 16, 8),
            on=self,
        )
        library.models.changed.connect(self.refresh)
        library.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        models = self._library.models.in_memory
        limit = self._library.memory.usable
        self.bar.sizes, self.bar.limit = [model.memory_bytes for model in models], limit
        taken = format_size(sum(self.bar.sizes)) if self.bar.sizes else "0"
        self.total.setText(f"{taken} of {format_size(limit)}" if limit else taken)
        self.bar.setAccessibleName(f"Memory that models take: {self.total.text()}")
        self.bar.setToolTip("\n".join(f"{m.id}: {format_size(m.memory_bytes)}" for m in models))
        self.bar.update()
