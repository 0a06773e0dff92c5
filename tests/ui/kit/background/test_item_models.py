"""The tester that watches the item models of all other tests sees what it is meant to see."""

from typing import Any

import pytest
from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QPersistentModelIndex,
    Qt,
    qInstallMessageHandler,
)

from tests.support.looks.model_testers import model_classes, watched

Index = QModelIndex | QPersistentModelIndex


class Liar(QAbstractListModel):
    """Takes a row away without saying so in time."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 2

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else self.count

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        return None

    def take_away(self) -> None:
        self.beginRemoveRows(QModelIndex(), 0, 0)
        self.endRemoveRows()


def test_the_lists_and_tables_of_the_window_are_watched() -> None:
    names = {kind.__name__ for kind in model_classes()}
    assert {"ConversationList", "RequestTable", "Search", "StopListModel", "TokenTable"} <= names


def test_a_model_that_breaks_a_rule_is_seen(qapp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    before = qInstallMessageHandler(lambda _kind, _where, text: said.append(text))
    try:
        monkeypatch.setattr(Liar, "__init__", watched(Liar.__init__))
        Liar().take_away()
    finally:
        qInstallMessageHandler(before)
    assert any(text.startswith("FAIL!") for text in said)
