"""The window's engine holds several models: each conversation is answered by its own."""

from pathlib import Path
from typing import Any

import pytest

from engine.engine import Engine
from tests.support.scripted import Stage
from tests.ui.chat.switching.several import SeveralModels
from tests.ui.driving import RunOnLoop, eventually
from ui.kit.rows import CONTENT
from ui.kit.theme import Theme


def loaded(several: SeveralModels) -> set[str]:
    return {one.id for one in several.engine.models if one.is_loaded}


async def test_switching_back_to_a_loaded_model_needs_no_load(
    theme: Theme, tmp_path: Path, demo_model_path: Path
) -> None:
    async with SeveralModels(theme, tmp_path, demo_model_path, at_once=True) as several:
        await several.load("alpha")
        assert (await several.ask()).model_id == "alpha"
        first = several.workspace.current.conversation
        several.workspace.new_conversation()
        await several.load("beta")
        assert (await several.ask()).model_id == "beta"
        assert loaded(several) == {"alpha", "beta"}
        several.workspace.open(first)
        assert several.answering.state.stage == "ready"
        assert several.header.name.text() == "alpha"
        again = await several.ask("Count from 1 to 4")
        assert (again.model_id, again.text) == ("alpha", "1, 2, 3, 4")
        states = [several.switcher.rows, several.open()]
        rows = several.switcher.rows
        shown = [rows.data(rows.index(n, 0), CONTENT) for n in range(rows.rowCount())]
        assert {content.right.text for content in shown} == {"Loaded"}
        del states


async def test_new_conversation_takes_the_model_used_last_not_the_one_loaded_last(
    theme: Theme, tmp_path: Path, demo_model_path: Path
) -> None:
    async with SeveralModels(theme, tmp_path, demo_model_path) as several:
        await several.load("alpha")
        assert (await several.ask()).model_id == "alpha"
        several.window.model_library.models.begin_to_load(several.folder / "beta")
        loaded_one = several.workspace.models
        await eventually(lambda: (loaded_one.stage, loaded_one.name) == ("ready", "beta"))
        several.workspace.new_conversation()
        assert several.answering.state.name == "alpha"
        assert (await several.ask()).model_id == "alpha"
        several.workspace.new_conversation()
        await several.load("beta")
        several.workspace.new_conversation()
        assert several.answering.state.name == "beta", "a choice counts as use"


class Endless:
    """Loads a model that writes slowly and for long, whatever folder is asked for."""

    def __init__(self, folder: Path) -> None:
        words = [f"w{number} " for number in range(3000)]
        self.stage = Stage(folder, {"long": words}, step_s=0.01, context=1 << 20)

    def __call__(self, folder: Path, **options: Any) -> Any:
        return self.stage.load(folder, **options)


async def test_two_conversations_are_answered_by_two_models_at_the_same_time(
    theme: Theme, run: RunOnLoop, tmp_path: Path, demo_model_path: Path
) -> None:
    engine = Engine(loader=Endless(tmp_path / "stage"))
    several = SeveralModels(theme, tmp_path, demo_model_path, engine=engine, at_once=True)
    async with several:
        runs = []
        for name in ("alpha", "beta"):
            several.workspace.new_conversation()
            several.answering.choose(several.folder / name)
            assert several.workspace.send("long")
            run = several.workspace.current.run
            assert run is not None
            runs.append(run)
            await eventually(lambda run=run: run.state == "streaming", 60)  # type: ignore[misc]
        before = [len(run.text) for run in runs]
        await eventually(
            lambda: all(len(r.text) > n for r, n in zip(runs, before, strict=True)), 60
        )
        assert not any(run.is_over for run in runs)
        several.workspace.in_memory.cancel_all()
        await eventually(lambda: all(run.is_over for run in runs))


async def test_two_models_answer_side_by_side(
    theme: Theme, tmp_path: Path, demo_model_path: Path
) -> None:
    async with SeveralModels(theme, tmp_path, demo_model_path, at_once=True) as several:
        await several.load("alpha")
        window = several.window
        window.chat.composer.set_text("Count from 1 to 5")
        window.comparing.ask()
        dialog = window.comparing.dialog
        assert dialog is not None
        names = [dialog.form.model.itemText(n) for n in range(dialog.form.model.count())]
        assert names == ["alpha", "beta"]
        dialog.form.model.setCurrentIndex(1)
        dialog.buttons.accepted.emit()
        await eventually(lambda: not several.workspace.current.is_running, 60)
        assert [(r.model_id, r.text) for r in several.workspace.current.running] == [
            ("alpha", "1, 2, 3, 4, 5"),
            ("beta", "1, 2, 3, 4, 5"),
        ]
        left, right = window.chat.sides.columns
        assert (left.title.text(), right.title.text()) == ("alpha", "beta")
        right.keep.click()
        assert several.answering.state.name == "beta"
        assert several.answering.state.stage == "ready"
        assert (await several.ask("Count from 1 to 3")).model_id == "beta"


@pytest.mark.parametrize("is_default", [True, False])
async def test_loaded_model_answers_after_its_folder_is_deleted(
    theme: Theme, tmp_path: Path, demo_model_path: Path, is_default: bool
) -> None:
    async with SeveralModels(theme, tmp_path, demo_model_path, at_once=True) as several:
        await several.load("alpha")
        if not is_default:
            several.workspace.models.begin_to_load(several.folder / "beta")
            await eventually(lambda: loaded(several) == {"alpha", "beta"})
        (several.folder / "alpha").rename(several.folder / "gamma")
        library, bar = several.window.model_library, several.window.chat.missing_model
        library.refresh()
        await eventually(lambda: not library.is_looking)
        await eventually(bar.isVisible)
        assert bar.sentence.text() == "alpha’s folder can’t be found."
        assert "alpha stays available until it is unloaded." in bar.detail.text()
        assert several.header.name.text() == "alpha"
        await eventually(lambda: bar.use.isVisible() is not is_default)
        answer = await several.ask()
        assert (answer.model_id, answer.text) == ("alpha", "1, 2, 3")
        (several.folder / "gamma").rename(several.folder / "alpha")  # it is plugged in again
        several.answering.refresh()
        await eventually(lambda: not bar.isVisible())
