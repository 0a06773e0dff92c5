import sys
from pathlib import Path

import pytest

from app.commands import window


def test_missing_system_libraries_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x11 = {"libno-such.so.1": "libno-such1", "libnone.so.2": "libnone2"}
    monkeypatch.setattr(window, "SYSTEM_LIBRARIES", {"libc.so.6": "libc6"})
    monkeypatch.setattr(window, "X11_LIBRARIES", x11)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    assert window.qt_problem() is None
    monkeypatch.setenv("QT_QPA_PLATFORM", "xcb")
    problem = window.qt_problem()
    assert problem is not None
    assert "apt-get install libno-such1 libnone2" in problem


def test_readme_names_the_system_libraries() -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    for libraries in (window.SYSTEM_LIBRARIES, window.X11_LIBRARIES):
        assert " ".join(libraries.values()) in readme


def test_unimportable_qt_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PySide6.QtWidgets", None)
    problem = window.qt_problem()
    assert problem is not None
    assert problem.startswith("Qt cannot be loaded")
