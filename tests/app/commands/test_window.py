import sys
from pathlib import Path

import pytest

from app.commands import window

linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="about Linux displays")


def without_display(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({}, ()),
        ({"DISPLAY": ":0"}, ("xcb",)),
        ({"DISPLAY": ""}, ()),
        ({"DISPLAY": ":0", "WAYLAND_DISPLAY": "wayland-0"}, ("wayland", "xcb")),
        ({"DISPLAY": ":0", "QT_QPA_PLATFORM": "offscreen"}, ("offscreen",)),
        ({"QT_QPA_PLATFORM": "vnc:port=5900;minimal"}, ("vnc", "minimal")),
    ],
)
def test_the_platforms_are_those_in_the_environment(
    environment: dict[str, str], names: tuple[str, ...]
) -> None:
    assert window.platform_names(environment) == names


@linux_only
def test_a_missing_display_is_reported_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    without_display(monkeypatch)
    problem = window.display_problem()
    assert problem is not None
    assert "DISPLAY" in problem


@linux_only
def test_the_offscreen_platform_needs_no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    without_display(monkeypatch)
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    assert window.display_problem() is None
    assert window.qt_problem() is None


@linux_only
def test_a_platform_that_qt_does_not_have_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QT_QPA_PLATFORM", "teletype")
    assert window.qt_problem() == "Qt has no platform teletype"


@linux_only
def test_one_platform_that_works_suffices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QT_QPA_PLATFORM", "teletype;offscreen")
    assert window.qt_problem() is None


@linux_only
def test_a_display_that_cannot_be_reached_is_reported_without_a_crash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_display(monkeypatch)
    monkeypatch.setenv("DISPLAY", ":987")
    problem = window.qt_problem()
    assert problem is not None
    assert "xcb" in problem


@linux_only
def test_a_missing_system_library_is_named(tmp_path: Path) -> None:
    (tmp_path / "libqxcb.so").write_bytes(b"not a library")
    problem = window._platform_problem("xcb", tmp_path)
    assert problem is not None
    assert "libqxcb.so" in problem


def test_a_qt_that_cannot_be_imported_is_reported_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "PySide6.QtWidgets", None)
    problem = window.qt_problem()
    assert problem is not None
    assert problem.startswith("Qt cannot be loaded")
