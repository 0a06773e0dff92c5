"""The window of models: what is here, fetching more, loading, changing and freeing."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QProgressBar, QPushButton

from engine.library.discovery import ModelFolders
from engine.library.found import FoundModel, Origin
from engine.library.loading import LoadProgress, OnLoadProgress
from engine.library.memory import Fit, Memory, MemoryNeed
from engine.scheduling.service import Engine
from engine.wording import size_in_words
from tests.support.hub import Hub, hub
from tests.support.scripted import Stage
from tests.support.shown import main_window
from tests.ui.driving import RunOnLoop, eventually
from ui.kit.look.theme import Theme
from ui.models.downloads import Download
from ui.models.model_card import ModelCard
from ui.models.model_library import LibraryModel
from ui.models.model_words import (
    download_words,
    duration,
    facts,
    fit_words,
    loading_words,
    sentence,
)
from ui.models.models_window import ModelsWindow

REPOSITORY = "makers/demo-model"


@pytest.fixture
def site(demo_model_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub() as served:
        served.add_folder(REPOSITORY, demo_model_path)
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        yield served


class OpenedModels:
    """A main window with its window of models, on a real engine."""

    def __init__(self, theme: Theme, tmp_path: Path, demo: Path, engine: Engine | None = None):
        self.engine = engine or Engine()
        self.cache = tmp_path / "hub"
        self.window = main_window(
            self.engine,
            theme,
            model_folders=lambda folders: ModelFolders(demo, folders, self.cache),
        )
        self.demo = demo

    @property
    def models(self) -> ModelsWindow:
        assert self.window.others.models is not None
        return self.window.others.models

    @property
    def state(self) -> Any:
        return self.window.workspace.model

    async def __aenter__(self) -> "OpenedModels":
        self.window.show()
        self.window.others.show_models()
        await eventually(lambda: bool(self.models.cards))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.window.quit()
        await self.window.finish()
        await self.engine.aclose()
        self.window.deleteLater()

    def card(self, name: str) -> ModelCard:
        return next(card for card in self.models.cards if card.model.found.name == name)

    def has(self, name: str) -> bool:
        return any(card.model.found.name == name for card in self.models.cards)

    def click(self, name: str) -> None:
        button = self.card(name).button
        assert button is not None
        button.click()

    async def loaded(self, name: str) -> None:
        await eventually(lambda: self.state.stage == "ready" and self.state.name == name)

    def answer(self, words: str) -> None:
        button = next(b for b in self.models.question.buttons if b.text() == words)
        button.click()


def test_a_model_is_loaded_from_the_list_and_shown_as_loaded(
    theme: Theme, run: RunOnLoop, tmp_path: Path, demo_model_path: Path
) -> None:
    async def play() -> None:
        async with OpenedModels(theme, tmp_path, demo_model_path) as opened:
            opened.click("demo-model")
            await opened.loaded("demo-model")
            assert opened.card("demo-model").button is None
            assert opened.models.loaded.pill.word == "Ready"
            assert "used today" in facts(opened.models.cards[0].model.found, 1e12)
            opened.models.loaded.unload.click()
            await eventually(lambda: opened.state.stage == "none")
            assert opened.engine.model is None
            assert opened.card("demo-model").button is not None

    run(play())


def test_a_folder_that_is_added_is_listed_kept_and_may_be_left_again(
    theme: Theme, run: RunOnLoop, tmp_path: Path, demo_model_path: Path
) -> None:
    folder = tmp_path / "mine" / "a-model"
    shutil.copytree(demo_model_path, folder)

    async def play() -> None:
        async with OpenedModels(theme, tmp_path, demo_model_path) as opened:
            library = opened.window.model_library
            assert library is not None
            library.add_folder(tmp_path / "mine")
            await eventually(lambda: opened.has("a-model"))
            assert opened.window.preferences.now.models.folders == (str(tmp_path / "mine"),)
            opened.click("a-model")
            await opened.loaded("a-model")
            library.remove_folder(tmp_path / "mine")
            await eventually(lambda: not opened.has("a-model"))
            assert (folder / "model.safetensors").exists()
            assert opened.window.preferences.now.models.last_used[-1][0] == str(folder)

    run(play())


def test_a_model_is_fetched_by_its_name_and_can_be_loaded(
    theme: Theme, run: RunOnLoop, tmp_path: Path, demo_model_path: Path, site: Hub
) -> None:
    site.piece_s = 0.002

    async def play() -> None:
        async with OpenedModels(theme, tmp_path, demo_model_path) as opened:
            opened.models.repository.setText(f"https://huggingface.co/{REPOSITORY}")
            opened.models.fetch.click()
            assert opened.models.repository.text() == ""
            [one] = opened.window.model_library.downloads.items  # type: ignore[union-attr]
            seen: list[str] = []
            one.parent().progressed.connect(
                lambda: seen.extend(row.words.text() for row in opened.models.rows)
            )
            await eventually(lambda: one.stage == "done")
            await eventually(lambda: opened.has(REPOSITORY))
            assert any("/s" in words and "left" in words for words in seen), seen
            opened.click(REPOSITORY)
            await opened.loaded(REPOSITORY)
            opened.models.rows[0].close_button.click()
            assert opened.models.rows == []

    run(play())


def test_a_download_that_is_cancelled_keeps_what_came_and_goes_on(
    theme: Theme, run: RunOnLoop, tmp_path: Path, demo_model_path: Path, site: Hub
) -> None:
    site.piece_s = 0.02

    async def play() -> None:
        async with OpenedModels(theme, tmp_path, demo_model_path) as opened:
            opened.models.repository.setText(REPOSITORY)
            opened.models.fetch.click()
            [one] = opened.window.model_library.downloads.items  # type: ignore[union-attr]
            await eventually(lambda: one.progress.done_bytes > 2 << 20)
            row = opened.models.rows[0]
            row.cancel.click()
            assert one.stage == "cancelled"
            row = opened.models.rows[0]
            assert "kept" in row.words.text()
            site.piece_s = 0
            row.resume.click()
            await eventually(lambda: one.stage == "done")
            weights = [r for _, path, r in site.requests if path.endswith("model.safetensors")]
            assert any(wanted is not None for wanted in weights)

    run(play())


def test_why_a_download_failed_stands_in_its_row(
    theme: Theme, run: RunOnLoop, tmp_path: Path, demo_model_path: Path, site: Hub
) -> None:
    site.gated.add(REPOSITORY)

    async def play() -> None:
        async with OpenedModels(theme, tmp_path, demo_model_path) as opened:
            opened.models.repository.setText(REPOSITORY)
            opened.models.fetch.click()
            await eventually(lambda: "is gated" in opened.models.rows[0].words.text())
            site.gated.clear()
            opened.models.rows[0].resume.click()
            await eventually(lambda: opened.has(REPOSITORY))

    run(play())


def test_what_is_no_repository_is_said_beside_the_field(
    theme: Theme, run: RunOnLoop, tmp_path: Path, demo_model_path: Path
) -> None:
    async def play() -> None:
        async with OpenedModels(theme, tmp_path, demo_model_path) as opened:
            opened.models.repository.setText("nonsense")
            opened.models.fetch.click()
            assert opened.models.problem.isVisible()
            assert "owner/name" in opened.models.problem.text()
            assert opened.models.repository.text() == "nonsense"
            assert opened.models.rows == []

    run(play())


def test_an_incomplete_download_of_an_earlier_day_is_resumed_from_its_card(
    theme: Theme, run: RunOnLoop, tmp_path: Path, demo_model_path: Path, site: Hub
) -> None:
    from tests.support.hub import COMMIT

    folder = tmp_path / "hub" / "models--makers--demo-model"
    (folder / "snapshots" / COMMIT).mkdir(parents=True)
    (folder / "blobs").mkdir()
    shutil.copy(demo_model_path / "config.json", folder / "snapshots" / COMMIT)
    (folder / "blobs" / "x.fullstop.incomplete").write_bytes(b"x")

    async def play() -> None:
        async with OpenedModels(theme, tmp_path, demo_model_path) as opened:
            button = opened.card(REPOSITORY).button
            assert button is not None
            assert button.text() == "Resume"
            button.click()
            await eventually(
                lambda: (
                    opened.has(REPOSITORY) and not opened.card(REPOSITORY).model.found.is_partial
                )
            )

    run(play())


class Slow:
    """Loads a stage's model as slowly as from a slow disk."""

    def __init__(self, folder: Path) -> None:
        words = [f"w{number} " for number in range(300)]
        self.stage = Stage(folder, {"long": words}, step_s=0.01)

    def __call__(self, folder: Path, *, on_progress: OnLoadProgress, **options: Any) -> Any:
        import time

        for done in range(0, 101, 5):
            on_progress(LoadProgress("weights", done * 10**7, 10**9))
            time.sleep(0.03)
        return self.stage.load(folder, **options)


def test_loading_shows_bytes_and_can_be_cancelled(
    theme: Theme, run: RunOnLoop, tmp_path: Path, demo_model_path: Path
) -> None:
    async def play() -> None:
        engine = Engine(loader=Slow(tmp_path))
        async with OpenedModels(theme, tmp_path, demo_model_path, engine) as opened:
            opened.click("demo-model")
            head = opened.models.loaded
            await eventually(lambda: "of 1.0 GB" in head.words.text())
            await eventually(lambda: head.bar.value() > 0)
            head.cancel.click()
            await eventually(lambda: opened.state.stage == "none")
            assert head.words.text() == "Loading was cancelled."
            assert not head.bar.isVisible()

    run(play())


def test_another_model_can_be_chosen_while_one_loads(
    theme: Theme, run: RunOnLoop, tmp_path: Path, demo_model_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(demo_model_path, other)

    async def play() -> None:
        async with OpenedModels(theme, tmp_path, demo_model_path) as opened:
            opened.state.load(demo_model_path)
            opened.state.load(other)
            await opened.loaded("other")
            await asyncio.sleep(0.1)
            assert (opened.state.stage, opened.state.name) == ("ready", "other")

    run(play())


@pytest.mark.parametrize(
    ("words", "is_ended"), [("Load When Finished", False), ("Stop and Load", True)]
)
def test_a_change_while_an_answer_is_written_asks_first(
    theme: Theme,
    run: RunOnLoop,
    tmp_path: Path,
    demo_model_path: Path,
    words: str,
    is_ended: bool,
) -> None:
    async def play() -> None:
        engine = Engine(loader=Stage(tmp_path, {"long": ["w "] * 150}, step_s=0.01).load)
        async with OpenedModels(theme, tmp_path, demo_model_path, engine) as opened:
            opened.state.load(demo_model_path)
            await eventually(lambda: opened.state.stage == "ready")
            workspace = opened.window.workspace
            assert workspace.send("long")
            await eventually(lambda: opened.state.answers_under_way == 1)
            opened.click("demo-model")
            assert opened.models.question.isVisible()
            assert opened.models.question.words.text() == "An answer is being written."
            opened.answer(words)
            assert not opened.models.question.isVisible()
            await eventually(
                lambda: opened.state.stage == "ready" and not opened.state.answers_under_way
            )
            written = workspace.current.conversation.messages[-1].run
            assert written is not None
            await eventually(lambda: written.finished is not None)
            assert (written.finished.stop.kind == "cancelled") is is_ended

    run(play())


def test_a_model_that_may_not_fit_is_loaded_only_when_that_is_confirmed(
    theme: Theme, run: RunOnLoop, tmp_path: Path, demo_model_path: Path
) -> None:
    async def play() -> None:
        async with OpenedModels(theme, tmp_path, demo_model_path) as opened:
            found = opened.card("demo-model").model
            large = LibraryModel(
                found.found, MemoryNeed(10**12, 0, 0, 100), Fit.TOO_LARGE, found.used_at
            )
            opened.models._load(large)
            assert "may not fit" in opened.models.question.words.text()
            assert opened.state.stage == "none"
            opened.answer("Load Anyway")
            await opened.loaded("demo-model")

    run(play())


def test_when_a_model_rests_is_chosen_and_kept(
    theme: Theme, run: RunOnLoop, tmp_path: Path, demo_model_path: Path
) -> None:
    async def play() -> None:
        async with OpenedModels(theme, tmp_path, demo_model_path) as opened:
            opened.click("demo-model")
            await opened.loaded("demo-model")
            opened.models.loaded.rest.choose("15")
            assert opened.window.preferences.now.models.rests_after_min == 15
            opened.engine.unload_after(0.05)
            await eventually(lambda: opened.models.loaded.pill.word == "Unloaded")
            opened.engine.unload_after(None)
            assert opened.window.workspace.send("Hello")
            await eventually(lambda: opened.models.loaded.pill.word == "Ready")

    run(play())


def test_a_model_that_fails_says_why_and_can_be_tried_again(
    theme: Theme, run: RunOnLoop, tmp_path: Path, demo_model_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(demo_model_path, broken)
    (broken / "model.safetensors").write_bytes(b"x" * 100)

    async def play() -> None:
        async with OpenedModels(theme, tmp_path, demo_model_path) as opened:
            opened.state.load(broken)
            head = opened.models.loaded
            await eventually(lambda: opened.state.stage == "failed")
            assert "is damaged" in head.words.text()
            shutil.copy(demo_model_path / "model.safetensors", broken)
            head.again.click()
            await opened.loaded("broken")

    run(play())


def test_a_model_that_fails_leaves_the_one_that_works_and_says_why(
    theme: Theme, run: RunOnLoop, tmp_path: Path, demo_model_path: Path
) -> None:
    async def play() -> None:
        async with OpenedModels(theme, tmp_path, demo_model_path) as opened:
            opened.state.load(demo_model_path)
            await opened.loaded("demo-model")
            opened.state.load(tmp_path / "mistyped")
            head = opened.models.loaded
            await eventually(lambda: "mistyped does not exist" in head.words.text())
            assert (opened.state.stage, opened.state.name) == ("ready", "demo-model")
            assert opened.state.info is not None
            assert "of context" in head.words.text()

    run(play())


def test_the_window_opens_from_the_menu_and_from_the_models_name(
    theme: Theme, run: RunOnLoop, tmp_path: Path, demo_model_path: Path
) -> None:
    async def play() -> None:
        async with OpenedModels(theme, tmp_path, demo_model_path) as opened:
            opened.models.close()
            name = next(
                button
                for button in opened.window.chat.findChildren(QPushButton)
                if button.accessibleName().startswith("Model:")
            )
            name.click()
            assert opened.models.isVisible()

    run(play())


def test_every_control_has_a_name_and_can_be_reached_by_keys(
    theme: Theme, run: RunOnLoop, tmp_path: Path, demo_model_path: Path, site: Hub
) -> None:
    async def play() -> None:
        async with OpenedModels(theme, tmp_path, demo_model_path) as opened:
            opened.models.repository.setText(REPOSITORY)
            opened.models.fetch.click()
            controls = [
                *opened.models.findChildren(QPushButton),
                *opened.models.findChildren(QProgressBar),
                opened.models.repository,
                opened.models.loaded.rest,
            ]
            for control in controls:
                assert control.accessibleName() or getattr(control, "text", str)()
                if not isinstance(control, QProgressBar):
                    assert control.focusPolicy() & Qt.FocusPolicy.TabFocus

    run(play())


# -- words ------------------------------------------------------------------------------------


def test_a_download_is_told_with_bytes_rate_and_time_left() -> None:
    from engine.library.download_progress import DownloadProgress

    fetching = DownloadProgress("fetching", 1_100_000_000, 2_300_000_000)
    assert download_words(fetching, 12_000_000, 100) == (
        "1.1 GB of 2.3 GB  ·  12.0 MB/s  ·  2 min left"
    )
    assert download_words(DownloadProgress("asking"), 0, None) == "Contacting Hugging Face"


def test_the_rate_is_that_of_the_last_seconds(tmp_path: Path) -> None:
    one = Download("a/b", tmp_path)
    from engine.library.download_progress import DownloadProgress

    one._latest = DownloadProgress("fetching", 0, 1000)
    one.mark()
    assert (one.bytes_per_s, one.left_s) == (0.0, None)
    one._marks.clear()
    one._marks.extend([(10.0, 0), (12.0, 500)])
    one._latest = DownloadProgress("fetching", 500, 1000)
    assert (one.bytes_per_s, one.left_s) == (250.0, 2.0)


def test_sizes_and_times_read_as_people_say_them() -> None:
    assert [size_in_words(n) for n in (12, 1500, 3_800_000, 4.25e9)] == [
        "12 bytes",
        "1.5 kB",
        "3.8 MB",
        "4.2 GB",
    ]
    assert [duration(s) for s in (0.2, 59, 100, 5400)] == ["1 s", "59 s", "2 min", "1 h 30 min"]
    assert sentence("org/name is gated") == "org/name is gated."
    assert sentence("the disk is full.") == "The disk is full."


def test_a_tight_model_is_told_with_what_is_free() -> None:
    need = MemoryNeed(8_000_000_000, 1_000_000_000, 0, 8192)
    words = fit_words(need, Fit.TIGHT, Memory(16_000_000_000, 6_000_000_000))
    assert words == (
        "It needs about 9.0 GB with 8,192 tokens of context; 6.0 GB are free now. "
        "Close other programs first."
    )
    assert fit_words(need, Fit.FITS, Memory(1, 1)) == ""


def test_loading_that_waits_says_for_what() -> None:
    assert loading_words(None, 0, 1) == "Waiting for an answer to end"
    assert loading_words(LoadProgress("libraries"), 3.2, 0) == "Starting MLX  ·  3 s"


def test_a_models_facts_are_one_line() -> None:
    found = FoundModel(
        "a/b", Path("/x"), Origin.HUGGING_FACE, 2_300_000_000, "qwen3", 40_960, bits=4
    )
    assert facts(found, 0) == (
        "qwen3  ·  4 bit  ·  2.3 GB  ·  40,960 tokens of context  ·  Hugging Face"
    )
