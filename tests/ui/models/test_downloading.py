"""Downloads in the window of models: from the hub's list to the first message."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from engine.library.hub import DownloadProgress
from engine.library.memory_need import Memory
from tests.support.hub import COMMIT, Hub, hub
from tests.ui.driving import Enter, Living, eventually
from tests.ui.models.opened import OpenedModels
from ui.kit.theme import Theme
from ui.models.downloads import Download
from ui.models.model_entries import Entry, EntryState, state_of
from ui.models.model_words import TransferRate, paused_text
from ui.words import THIS_COMPUTER

REPOSITORY = "makers/demo-model"


@pytest.fixture
def site(demo_model_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub() as served:
        served.add_folder(REPOSITORY, demo_model_path)
        served.facts[REPOSITORY] = {"tags": ["mlx"]}
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        yield served


@pytest.fixture
def opened(
    enter: Enter, theme: Theme, tmp_path: Path, demo_model_path: Path, site: Hub
) -> Living[OpenedModels]:
    return enter(lambda: OpenedModels(theme, tmp_path, demo_model_path))


async def begin(opened: OpenedModels) -> Download:
    """Search for the model, and click Download."""
    await opened.search("demo", REPOSITORY)
    opened.click(REPOSITORY)
    library = opened.window.model_library
    return library.downloads.items[0]


async def test_one_click_downloads_a_model_loads_it_and_opens_an_empty_chat(
    opened: OpenedModels, site: Hub
) -> None:
    site.piece_s = 0.02  # long enough for a rate to be shown
    workspace = opened.window.workspace
    workspace.change_settings(workspace.current.conversation.settings)
    details, library = opened.models.details, opened.window.model_library
    seen: list[str] = []
    library.downloads.progressed.connect(lambda: seen.append(opened.status(REPOSITORY).text))
    one = await begin(opened)
    after: set[str] = set()
    library.changed.connect(lambda: after.add(opened.status(REPOSITORY).action))
    await opened.loaded(REPOSITORY)
    assert one.stage == "done"
    assert "get" not in after
    assert any("/s" in words and "left" in words for words in seen), seen
    welcome = opened.window.chat.welcome
    await eventually(lambda: welcome.isVisible())
    assert f"Demo model runs on {THIS_COMPUTER}" in welcome._state.text()
    assert opened.window.workspace.send("Count from 1 to 3")
    session = opened.window.workspace.current
    await eventually(lambda: not session.is_running)
    written = opened.window.workspace.current.conversation.messages[-1]
    assert "1" in written.text
    assert opened.status(REPOSITORY).action == "loaded"
    assert details.entry is not None
    assert details.entry.name == REPOSITORY


async def test_downloaded_model_is_offered_for_a_new_chat(
    opened: OpenedModels, demo_model_path: Path
) -> None:
    opened.state.load(demo_model_path)
    await opened.loaded("demo-model")
    workspace = opened.window.workspace
    assert workspace.send("Count from 1 to 3")
    await eventually(lambda: not workspace.current.is_running)
    before = workspace.current.conversation
    await begin(opened)
    await opened.loaded(REPOSITORY)
    await eventually(lambda: opened.models.question.isVisible())
    assert workspace.current.conversation is before, "the window in use stays in front"
    opened.answer("Start Chat")
    await eventually(lambda: workspace.current.conversation is not before)
    assert workspace.current.conversation.messages == []
    assert workspace.model_selection.state.name == REPOSITORY
    assert before.model is not None
    assert before.model.name == "demo-model"


async def test_an_empty_chat_switches_to_the_downloaded_model(
    opened: OpenedModels, demo_model_path: Path
) -> None:
    opened.state.load(demo_model_path)
    await opened.loaded("demo-model")
    answering = opened.window.workspace.model_selection
    assert answering.state.name == "demo-model"
    await begin(opened)
    await opened.loaded(REPOSITORY)
    await eventually(lambda: answering.state.name == REPOSITORY)
    assert answering.state.stage == "ready"


async def test_too_large_model_is_downloaded_after_confirmation(
    opened: OpenedModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ui.models.model_library.memory", lambda: Memory(10**6, 10**6))
    await opened.search("demo", REPOSITORY)
    finder = opened.models.finder
    opened.pick(REPOSITORY)
    await eventually(lambda: finder.results[0].model.need is not None)
    opened.click(REPOSITORY)
    question = opened.models.question
    assert question.caption.text().endswith("slow other apps down. Get it anyway?")
    assert opened.window.model_library.downloads.items == []
    opened.answer("Get Anyway")
    await eventually(lambda: "couldn’t be loaded" in question.caption.text())
    assert "can be used for models" in question.caption.text()
    assert opened.state.stage == "none"


async def test_a_cancelled_download_keeps_its_files_and_can_be_resumed(
    opened: OpenedModels, site: Hub
) -> None:
    site.holds_after = {"model.safetensors": 2 << 20}
    one = await begin(opened)
    await eventually(lambda: one.progress.done_bytes >= 2 << 20)
    details = opened.models.details
    assert details.primary.text() == "Pause"
    details.primary.click()
    assert one.stage == "cancelled"
    assert "kept" in details.status.text()
    assert opened.status(REPOSITORY).text.endswith("of 4.8 MB")
    assert opened.status(REPOSITORY).action == "resume"
    site.holds_after.clear()
    assert details.primary.text() == "Resume"
    details.primary.click()
    await eventually(lambda: one.stage == "done")
    weights = [r for _, path, r in site.requests if path.endswith("model.safetensors")]
    assert any(wanted is not None for wanted in weights)
    await opened.loaded(REPOSITORY)


async def test_failed_download_says_why_once_and_is_tried_again(
    opened: OpenedModels, site: Hub
) -> None:
    site.gated.add(REPOSITORY)
    await begin(opened)
    await eventually(lambda: opened.status(REPOSITORY).action == "retry_download")
    details, notice = opened.models.details, opened.window.chat.download_problem
    row = opened.status(REPOSITORY)
    assert row.text == f"{REPOSITORY} is gated, so its terms have to be accepted first."
    assert "hf auth login" in row.reason
    assert details.card_note.isHidden()
    assert "is gated" in notice.detail.text()
    assert not notice.isHidden()
    assert details.status.isHidden(), "the remedy stands once"
    assert details.gated.isVisible()
    assert not details.dismiss.isHidden()
    site.gated.clear()
    details.primary.click()
    assert notice.isHidden()
    await eventually(lambda: opened.has(REPOSITORY))


async def test_started_download_keeps_its_row_in_place(opened: OpenedModels, site: Hub) -> None:
    site.holds_after = {"model.safetensors": 2 << 20}
    await opened.search("demo", REPOSITORY)
    rows = opened.models.list
    opened.pick(REPOSITORY)
    before = rows.visualRect(rows.currentIndex())
    opened.click(REPOSITORY)
    assert opened.status(REPOSITORY).action == "pause"
    rows.doItemsLayout()
    assert rows.visualRect(rows.currentIndex()) == before
    site.holds_after.clear()


async def test_damaged_download_shows_its_cause_first(opened: OpenedModels, site: Hub) -> None:
    files = site.files[REPOSITORY]
    files["model.safetensors"] = files["model.safetensors"][:2_000_000]
    await begin(opened)
    await eventually(lambda: opened.status(REPOSITORY).action == "retry_download")
    row = opened.status(REPOSITORY)
    assert row.text == "The file model.safetensors is damaged."
    assert "expected" in row.reason


async def test_running_download_shows_in_main_window_until_cancelled(
    opened: OpenedModels, site: Hub
) -> None:
    site.piece_s = 0.2
    row = opened.window.sidebar.downloads
    assert row.isHidden()
    one = await begin(opened)
    await eventually(lambda: row.state.text().endswith("%"))
    opened.models.close()
    row.state.click()
    assert opened.models.isVisible()
    details = opened.models.details
    assert details.entry is not None
    assert details.entry.name == REPOSITORY
    assert details.dismiss.text() == "Cancel"
    details.dismiss.click()
    assert row.isHidden()
    assert one.stage == "cancelled"
    assert not opened.window.model_library.downloads.items


async def test_the_focus_stays_at_a_download_that_fails(opened: OpenedModels, site: Hub) -> None:
    site.gated.add(REPOSITORY)
    await opened.search("demo", REPOSITORY)
    primary = opened.pick(REPOSITORY).primary
    opened.models.activateWindow()
    primary.setFocus()
    await eventually(primary.hasFocus)
    QTest.keyClick(primary, Qt.Key.Key_Space)
    await eventually(lambda: primary.text() == "Try Again")
    assert primary.hasFocus()


async def test_an_incomplete_download_of_an_earlier_day_is_resumed_from_its_card(
    theme: Theme, tmp_path: Path, demo_model_path: Path, site: Hub
) -> None:
    folder = tmp_path / "hub" / "models--makers--demo-model"
    (folder / "snapshots" / COMMIT).mkdir(parents=True)
    (folder / "blobs").mkdir()
    shutil.copy(demo_model_path / "config.json", folder / "snapshots" / COMMIT)
    (folder / "blobs" / "x.fullstop.incomplete").write_bytes(b"x" * 2_000_000)
    async with OpenedModels(theme, tmp_path, demo_model_path) as opened:
        assert opened.status(REPOSITORY).text.endswith("2.0 MB has arrived.")
        assert opened.pick(REPOSITORY).primary.text() == "Resume"
        opened.click(REPOSITORY)
        await eventually(
            lambda: opened.has(REPOSITORY) and not opened.entry(REPOSITORY).local.found.is_partial
        )


@pytest.mark.parametrize("is_in_chat", [False, True])
async def test_damaged_model_of_the_hub_is_downloaded_again(
    theme: Theme, tmp_path: Path, demo_model_path: Path, site: Hub, is_in_chat: bool
) -> None:
    folder = tmp_path / "hub" / "models--makers--demo-model" / "snapshots" / COMMIT
    shutil.copytree(demo_model_path, folder, ignore=shutil.ignore_patterns("training"))
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:2_000_000])
    async with OpenedModels(theme, tmp_path, demo_model_path) as opened:
        opened.click(REPOSITORY)
        await eventually(lambda: opened.status(REPOSITORY).action == "get_again")
        assert opened.status(REPOSITORY).text == "The file model.safetensors is damaged."
        assert not opened.window.chat.model_problem.show_file.isVisible()
        if is_in_chat:
            opened.window.chat.get_again.click()
        else:
            opened.click(REPOSITORY)
        await opened.loaded(REPOSITORY)
        assert weights.stat().st_size == (demo_model_path / "model.safetensors").stat().st_size


@pytest.mark.parametrize(
    ("progress", "running", "paused"),
    [
        (DownloadProgress("asking"), "Contacting Hugging Face…", "Paused"),
        (DownloadProgress("fetching", 12, 48), "12 of 48 bytes", "Paused · 12 of 48 bytes"),
        (DownloadProgress("fetching", 48, 48), "Verifying…", "Paused before it was verified"),
        (DownloadProgress("verifying", 12, 48), "Verifying… 25%", "Paused before it was verified"),
    ],
)
def test_download_whose_bytes_are_all_there_is_verified(
    progress: DownloadProgress, running: str, paused: str
) -> None:
    assert TransferRate().text(progress) == running
    assert paused_text(progress) == paused


async def test_row_of_ended_download_has_no_action_until_listed(opened: OpenedModels) -> None:
    assert state_of(Entry("a/b"), opened.window.model_library) == EntryState("", "")
