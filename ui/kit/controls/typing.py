"""Distinguishes typed text from other keys. Main thread."""

import sys

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent

_HARMLESS = (
    Qt.KeyboardModifier.ShiftModifier
    | Qt.KeyboardModifier.KeypadModifier
    | Qt.KeyboardModifier.GroupSwitchModifier
)
# On a Mac, Option types letters; elsewhere Alt opens menus.
_WRITES = _HARMLESS | Qt.KeyboardModifier.AltModifier if sys.platform == "darwin" else _HARMLESS


def is_typed_text(event: QKeyEvent) -> bool:
    """Return whether a key types something visible; a space does not count: it presses buttons."""
    text = event.text()
    is_plain = not event.modifiers() & ~_WRITES
    return is_plain and bool(text) and text.isprintable() and not text.isspace()
