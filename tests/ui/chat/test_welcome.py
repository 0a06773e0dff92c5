"""What an empty conversation shows fits into its column."""

import shutil
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QLabel, QWidget

from app.paths import CLONED_DEMO_MODEL
from engine.engine import Engine
from engine.library.local_models import ModelFolders
from engine.library.memory_need import memory
from engine.library.suggestions import first_models
from engine.wording import format_size
from tests.support.shown import main_window
from tests.ui.driving import Enter, Living, eventually, opened
from ui.chat.welcome import DEMO_SUGGESTIONS, SUGGESTIONS
from ui.kit.theme import Theme
from ui.window.main_window import MainWindow
from ui.words import display_name


@pytest.fixture
def window(enter: Enter, engine: Engine, theme: Theme) -> Living[MainWindow]:
    """A window as at the first start: the model that comes with the program, and no other."""

    def make() -> MainWindow:
        bundled = ModelFolders(CLONED_DEMO_MODEL)
        return main_window(engine, theme, model_folders=bundled)

    return enter(lambda: opened(make(), quits=True))


async def test_a_newcomer_is_offered_one_model_and_the_demo_below_it(window: MainWindow) -> None:
    welcome = window.chat.welcome
    window.start(CLONED_DEMO_MODEL)
    await eventually(welcome.first.isVisible)
    first = welcome.first
    assert first is not None
    offered = first_models(window.model_library.memory)
    suggestion = offered[0]
    assert first.name.text() == display_name(suggestion.name)
    assert first.description.text() == suggestion.summary
    size, suits, took = first.figures.text().split(" · ")
    assert size == format_size(suggestion.size_mb * 1_000_000)
    assert took.startswith("about ")
    assert took.endswith(" at 50 Mbit/s")
    assert suits == "runs well on this Mac"

    def top(widget: QWidget) -> int:
        return widget.mapTo(welcome, QPoint()).y()

    def is_first_above_the_demo() -> bool:
        headings = {one.text(): one for one in welcome.findChildren(QLabel) if one.isVisible()}
        demo = headings.get("Try It Without a Download")
        return (
            demo is not None
            and top(first) < top(demo)
            and all(top(demo) < top(one) for one in welcome.buttons)
        )

    # The layout is done at the next turn of the loop.
    await eventually(is_first_above_the_demo)
    assert [one.suggestion for one in welcome.buttons] == list(DEMO_SUGGESTIONS)
    menu = first.others.menu()
    menu.aboutToShow.emit()
    *others, all_models = [action for action in menu.actions() if action.text()]
    assert len(others) == len(offered)
    assert all_models.text() == "All Models…"
    others[0].trigger()
    assert first.name.text() == display_name(min(offered, key=lambda model: model.size_mb).name)
    menu.aboutToShow.emit()
    next(a for a in menu.actions() if a.text().startswith(display_name(suggestion.name))).trigger()
    started: list[str] = []
    window.model_library.downloads.start = lambda name: started.append(name) or ""  # type: ignore[method-assign,func-returns-value]
    first.download.click()
    assert started == [suggestion.name]


async def test_a_newcomers_download_that_a_crash_ended_goes_on(
    engine: Engine, theme: Theme, tmp_path: Path
) -> None:
    suggestion = first_models(memory())[0]
    folder = tmp_path / f"models--{suggestion.name.replace('/', '--')}"
    (folder / "snapshots" / "c").mkdir(parents=True)
    shutil.copy(CLONED_DEMO_MODEL / "config.json", folder / "snapshots" / "c")
    (folder / "blobs").mkdir()
    (folder / "blobs" / "x.incomplete").write_bytes(b"x" * 3_000_000)
    found = ModelFolders(CLONED_DEMO_MODEL, hub_cache=tmp_path)
    made = main_window(engine, theme, model_folders=found)
    async with opened(made, quits=True) as window:
        window.start(CLONED_DEMO_MODEL)
        welcome = window.chat.welcome
        await eventually(welcome.first.isVisible)
        assert welcome.first.download.text() == "Resume"
        assert "3.0 MB has arrived" in welcome.first.figures.text()


async def test_with_a_real_model_everyday_questions_are_offered_and_one_about_stops(
    window: MainWindow, tmp_path: Path
) -> None:
    real = tmp_path / "real"
    shutil.copytree(CLONED_DEMO_MODEL, real)
    window.start()
    window.workspace.models.load(real)
    welcome = window.chat.welcome
    await eventually(lambda: [one.suggestion for one in welcome.buttons] == list(SUGGESTIONS))
    assert welcome.first.isHidden()
    assert len([one for one in SUGGESTIONS if one.stop]) == 1
    before = window.workspace.current.conversation.stops
    stops = next(one for one in welcome.buttons if one.suggestion.stop)
    stops.click()
    await eventually(lambda: not window.workspace.current.is_running)
    run = window.workspace.current.shown_run
    assert run is not None
    assert list(run.stops) == [stops.suggestion.stop]
    assert window.workspace.current.conversation.stops == before, "the list stays as it was"
