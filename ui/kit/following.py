"""Connections to an object that is replaced by another one. Main thread."""

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QMetaObject, QObject, SignalInstance


class Following:
    """The connections to the followed object; following another one ends them."""

    def __init__(self) -> None:
        self._connections: list[QMetaObject.Connection] = []

    def follow(self, *pairs: tuple[Any, Callable[..., object] | SignalInstance]) -> None:
        """Replace the connections: each pair is a signal and its slot."""
        for connection in self._connections:
            QObject.disconnect(connection)
        self._connections = [signal.connect(slot) for signal, slot in pairs]
