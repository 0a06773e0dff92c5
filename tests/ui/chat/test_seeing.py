"""Pictures of the chat reach a model that sees, on the real pipeline, also after a restart."""

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("mlx_vlm")

from PySide6.QtCore import QMimeData
from PySide6.QtGui import QImage

from app.store.conversation_store import open_store
from engine.engine import Engine
from tests.support.models.seeing import write_seeing_model
from tests.support.shown import main_window, shown
from tests.ui.driving import eventually
from ui.kit.theme import Theme
from ui.records.runs import Run
from ui.window.main_window import MainWindow


async def ask(window: MainWindow, text: str, image: QImage | None = None) -> Run:
    composer, workspace = window.chat.composer, window.workspace
    if image is not None:
        data = QMimeData()
        data.setImageData(image)
        composer.input.insertFromMimeData(data)
        await eventually(lambda: len(composer.attachments.files) == 1)
    composer.set_text(text)
    await eventually(composer.action.isEnabled)
    composer.action.click()
    await eventually(lambda: workspace.current.is_running)
    await eventually(lambda: not workspace.current.is_running)
    run = workspace.current.latest_run
    assert run is not None
    return run


async def loaded(window: MainWindow, *, is_new: bool) -> None:
    workspace = window.workspace
    await eventually(lambda: workspace.models.stage == "ready")
    if not is_new:
        [earlier] = (one for one in workspace.conversations.every() if not one.is_unused)
        workspace.open(earlier)
        await eventually(lambda: len(workspace.current.conversation.messages) == 4)


async def test_pictures_are_seen_in_later_turns_and_after_a_restart(
    theme: Theme, tmp_path: Path
) -> None:
    model = tmp_path / "seeing"
    model.mkdir()
    write_seeing_model(model)
    image = QImage(96, 64, QImage.Format.Format_RGB32)
    image.fill(0xFF0000)
    runs: list[Run] = []
    with contextlib.closing(Engine()) as engine:
        for first in (image, None):
            store = await open_store(tmp_path / "conversations.db")
            async with shown(main_window(engine, theme, store=store), quits=True) as window:
                window.start(model)
                await loaded(window, is_new=first is not None)
                workspace = window.workspace
                settings = workspace.current.conversation.settings
                workspace.change_settings(replace(settings, max_tokens=4))
                runs += [await ask(window, "What is it?", first), await ask(window, "And now?")]
                trace = workspace.traces.get(runs[-1].id)
                assert trace is not None
                assert trace.request is not None
                assert len(trace.request.messages[0].pictures) == 1
                longer = workspace.current.continue_answer(
                    workspace.current.conversation.messages[-1]
                )
                assert longer is not None
                await eventually(lambda run=longer: run.is_over)  # type: ignore[misc]
                assert (longer.refusal, longer.state) == ("", "finished")
            await store.aclose()
    sizes = [run.prompt_total for run in runs]
    assert sizes[0] > 20, "it has the tokens of the picture"
    assert sizes == sorted(sizes)
    cached = [run.finished.usage.cached_tokens for run in runs if run.finished]
    assert cached[1] > 20, "the second turn begins with the same picture"
    assert cached[3] > sizes[1]
