import sys

import pytest

from app.commands import window

linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="about Linux displays")


def without_display(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)


@linux_only
def test_missing_display_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    without_display(monkeypatch)
    problem = window.display_problem()
    assert problem is not None
    assert "DISPLAY" in problem


@linux_only
def test_offscreen_platform_needs_no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    without_display(monkeypatch)
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    assert window.display_problem() is None
    assert window.qt_problem() is None


def test_unimportable_qt_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "PySide6.QtWidgets", None)
    problem = window.qt_problem()
    assert problem is not None
    assert problem.startswith("Qt cannot be loaded")
