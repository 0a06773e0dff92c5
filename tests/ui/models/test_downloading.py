"""Downloads in the window of models."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QProgressBar, QPushButton

from tests.support.hub import Hub, hub
from tests.ui.driving import RunOnLoop, eventually
from tests.ui.models.opened import OpenedModels
from ui.kit.look.theme import Theme

REPOSITORY = "makers/demo-model"


@pytest.fixture
def site(demo_model_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub() as served:
        served.add_folder(REPOSITORY, demo_model_path)
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        yield served


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
