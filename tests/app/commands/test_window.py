import sys

import pytest

from app.commands import window


def test_unimportable_qt_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PySide6.QtWidgets", None)
    problem = window.qt_problem()
    assert problem is not None
    assert problem.startswith("Qt cannot be loaded")
