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
from ui.records.attachments import Attachment
from ui.window.main_window import MainWindow
from ui.words import THIS_COMPUTER, display_name


@pytest.fixture
def window(enter: Enter, engine: Engine, theme: Theme) -> Living[MainWindow]:
    """A window as at the first start: the model that comes with the program, and no other."""

    def make() -> MainWindow:
        bundled = ModelFolders(CLONED_DEMO_MODEL)
        return main_window(engine, theme, model_folders=bundled)

    return enter(lambda: opened(make(), quits=True))


async def test_first_start_shows_prompts_above_the_model_card(window: MainWindow) -> None:
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
    assert suits == f"runs well on {THIS_COMPUTER}"

    def top(widget: QWidget) -> int:
        return widget.mapTo(window.chat, QPoint()).y()

    # The layout is done at the next turn of the loop.
    await eventually(lambda: top(welcome.first) > top(window.chat.composer) > 0)
    assert all(top(one) < top(welcome.first) for one in welcome.buttons)
    tops = [top(one) for one in welcome.buttons]
    assert tops[0] == tops[1] < tops[2] == tops[3]
    widths = [one.width() for one in welcome.buttons]
    assert max(widths) - min(widths) <= 1
    await eventually(lambda: "can count, spell" in welcome._state.text())
    assert [one.suggestion for one in welcome.buttons] == list(DEMO_SUGGESTIONS)
    menu = first.menu
    menu.aboutToShow.emit()
    *others, all_models = [action for action in menu.actions() if action.text()]
    assert len(others) == len(offered)
    purposes = {each.purpose for each in offered}
    assert {action.text().split(" · ")[1] for action in others} == purposes
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
    assert [bool(one.stop) for one in SUGGESTIONS] == [False, False, False, True]
    welcome.buttons[-1].click()
    await eventually(lambda: not window.workspace.current.is_running)
    run = window.workspace.current.shown_run
    assert run is not None
    assert list(run.stops) == ["Saturn"]
    assert [stop.stop.text for stop in window.workspace.current.stops.entries()] == ["Saturn"]
    assert window.stop_panel.isVisible()
    assert welcome.below.isHidden(), "the composer is at the bottom again"


async def test_suggestions_of_a_low_window_have_a_scroll_bar_beside_them(
    window: MainWindow,
) -> None:
    welcome = window.chat.welcome
    window.start(CLONED_DEMO_MODEL)
    await eventually(welcome.first.isVisible)
    bar = welcome.below.verticalScrollBar()

    def edges(part: QWidget) -> tuple[int, int]:
        left = part.mapTo(window.chat, QPoint()).x()
        return left, left + part.width()

    for height, has_bar in ((500, True), (1000, False), (500, True)):
        window.resize(780, height)
        await eventually(lambda: bar.isVisible() is has_bar)  # noqa: B023
        assert edges(welcome.first) == pytest.approx(edges(window.chat.composer), abs=1)


async def test_failed_first_load_names_its_cause_once(window: MainWindow, tmp_path: Path) -> None:
    window.start(tmp_path)
    await eventually(window.chat.model_problem.isVisible)
    shown = [one.text() for one in window.findChildren(QLabel) if one.isVisible()]
    assert len([text for text in shown if "config.json is missing" in text]) == 1
    assert window.chat.choose_model.isVisible()


async def test_low_window_cuts_the_greeting_and_not_the_composer(window: MainWindow) -> None:
    chat, composer = window.chat, window.chat.composer
    window.start(CLONED_DEMO_MODEL)
    for number in range(6):
        composer.attachments.add(Attachment(f"a long name of a file {number}.txt", "Notes"))
    window.resize(640, 380)

    def is_whole() -> bool:
        hint = composer.layout()
        assert hint is not None
        return composer.height() >= hint.heightForWidth(composer.width()) > 120

    await eventually(is_whole)
    bottom = composer.mapTo(chat, QPoint(0, composer.height())).y()
    assert bottom <= chat.height()


async def test_chat_with_only_demo_offers_another_model(window: MainWindow) -> None:
    welcome, workspace = window.chat.welcome, window.workspace
    window.start(CLONED_DEMO_MODEL)
    await eventually(welcome.first.isVisible)
    assert not welcome.offer.isVisible(), "the card is there"
    workspace.send("Write a poem")
    await eventually(lambda: not workspace.current.is_running)
    await eventually(welcome.offer.isVisible)
    asked: list[None] = []
    welcome.find_requested.connect(lambda: asked.append(None))
    welcome.get_model.click()
    assert asked == [None]
