import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication, QSystemTrayIcon
from pytestqt.qtbot import QtBot

import app.desktop.window
from app import paths
from app.desktop.single_instance import only_instance
from app.desktop.window import chosen_model, in_tray
from app.settings.options import ChatOptions
from app.settings.settings_file import StoredPreferences
from engine.engine import Engine
from tests.support.kept import preferences_state
from tests.support.models.adapters import random_adapter
from tests.support.shown import SilentServer, main_window
from ui.kit.theme import Theme
from ui.window.main_window import MainWindow


@pytest.fixture
def window(qapp: QApplication) -> Iterator[MainWindow]:
    made = main_window(Engine(), Theme(qapp, "light"), server=SilentServer())
    yield made
    made.close()
    made.deleteLater()
    # At once: no later test may find it among the windows.
    QCoreApplication.sendPostedEvents(made, int(QEvent.Type.DeferredDelete))


def test_second_start_brings_window_forward(window: MainWindow, qtbot: QtBot) -> None:
    with only_instance() as first:
        assert first is not None
        first.show_in(window)
        assert not window.isVisible()
        with only_instance() as second:
            assert second is None
        qtbot.waitUntil(window.isVisible, timeout=60_000)
    with only_instance() as next_one:
        assert next_one is not None


async def test_tray_keeps_program_running_with_server(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.desktop.window, "has_tray", lambda: True)
    monkeypatch.setattr(QSystemTrayIcon, "show", lambda _: None)
    preferences = preferences_state()
    switch = window.local_server.switch
    assert switch is not None

    with in_tray(window, preferences):
        assert not window.runs_in_background()
        monkeypatch.setattr(type(switch), "is_requested", property(lambda _: True))
        assert window.runs_in_background()
        preferences.change(stays_in_tray=False)
        assert not window.runs_in_background()


@pytest.mark.parametrize("with_tray", [True, False])
async def test_mac_program_runs_on_without_window(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch, with_tray: bool
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(app.desktop.window, "has_tray", lambda: with_tray)
    monkeypatch.setattr(QSystemTrayIcon, "show", lambda _: None)
    preferences = preferences_state()

    with in_tray(window, preferences):
        assert not window.local_server.switch.is_requested
        assert window.runs_in_background()
        preferences.change(stays_in_tray=False)
        assert not window.runs_in_background()


def test_last_used_model_is_loaded(tmp_path: Path) -> None:
    stored = StoredPreferences(tmp_path)
    usual = ChatOptions()
    assert chosen_model(usual, stored) == (paths.demo_model(), None)
    stored.save_last_model(tmp_path)
    assert chosen_model(usual, stored) == (tmp_path, None)
    for model in (tmp_path / "other", paths.demo_model()):
        assert chosen_model(ChatOptions(model), stored) == (model, None)


def test_last_used_adapter_is_loaded_over_its_base(tmp_path: Path) -> None:
    stored, demo = StoredPreferences(tmp_path), paths.demo_model()
    named = random_adapter(demo, tmp_path / "named", 1)
    lost = random_adapter(demo, tmp_path / "lost", 1, stated="other/model")
    for adapter, base in ((named, demo), (lost, None)):
        stored.save_last_model(adapter)
        assert chosen_model(ChatOptions(), stored) == (adapter, base)
    assert chosen_model(ChatOptions(demo, adapter=lost), stored) == (lost, demo)
