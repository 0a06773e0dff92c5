"""A conversation remembers its model; a message waits for it."""

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QLabel

from engine.engine import Engine
from engine.inference.backend import LoadProgress, OnLoadProgress
from engine.inference.loader import load_model
from tests.ui.chat.switching.several import SeveralModels
from tests.ui.driving import Enter, Living, eventually
from ui.chat.messages.answer_view import AnswerView
from ui.kit.commands import Command, Submenu
from ui.kit.theme import Theme
from ui.records.conversations import ChosenModel
from ui.words import THIS_COMPUTER


class Held:
    """Loads models, each only when a test lets it."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()

    def __call__(self, folder: Path, *, on_progress: OnLoadProgress, **options: Any) -> Any:
        # Each report is where a cancel is noticed.
        on_progress(LoadProgress("weights", 40, 100))
        while not self.goes_on.wait(0.02):
            on_progress(LoadProgress("weights", 40, 100))
        return load_model(folder, on_progress=on_progress, **options)


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.fixture
def loading(
    enter: Enter, theme: Theme, tmp_path: Path, demo_model_path: Path, held: Held
) -> Living[SeveralModels]:
    """A window whose models load when a test lets them."""
    engine = Engine(loader=held)
    return enter(lambda: SeveralModels(theme, tmp_path, demo_model_path, engine=engine))


async def test_message_loads_the_model_of_its_conversation(
    several: SeveralModels,
) -> None:
    await several.load("alpha")
    assert (await several.ask()).model_id == "alpha"
    first = several.workspace.current.conversation
    several.workspace.new_conversation()
    await several.load("beta")
    assert (await several.ask()).model_id == "beta"
    second = several.workspace.current.conversation

    several.workspace.open(first)
    assert several.answering.state.stage == "unloaded"
    assert several.header.name.text() == "alpha, not loaded"
    assert several.engine.model is not None
    assert several.engine.model.id == "beta"
    answered = await several.ask("Count from 1 to 4")
    assert (answered.model_id, answered.state) == ("alpha", "finished")
    assert several.engine.model.id == "alpha"
    assert several.header.name.text() == "alpha"

    several.workspace.open(second)
    assert several.header.name.text() == "beta, not loaded"


async def test_a_message_that_is_sent_while_its_model_loads_waits_and_is_answered(
    loading: SeveralModels, held: Held
) -> None:
    loading.answering.choose(loading.folder / "alpha")
    await eventually(lambda: loading.header.name.text().startswith("Loading alpha… 40%"))
    composer = loading.window.chat.composer
    composer.input.setPlainText("Count from 1 to 3")
    assert composer.action.isEnabled()
    composer.action.click()
    assert composer.text == ""
    waiting = loading.workspace.current.conversation.messages[-1].run
    assert waiting is not None
    assert waiting.live.is_loading
    composer.input.setPlainText("the next one is written meanwhile")
    held.goes_on.set()
    await eventually(lambda: waiting.is_over)
    assert (waiting.state, waiting.model_id) == ("finished", "alpha")
    assert waiting.text == "1, 2, 3"
    assert composer.text == "the next one is written meanwhile"


async def test_cancelled_load_keeps_the_waiting_message(loading: SeveralModels, held: Held) -> None:
    loading.answering.choose(loading.folder / "alpha")
    composer = loading.window.chat.composer
    composer.input.setPlainText("Count from 1 to 3")
    composer.action.click()
    waiting = loading.workspace.current.conversation.messages[-1].run
    assert waiting is not None
    await eventually(lambda: loading.header.name.text().startswith("Loading alpha… 40%"))
    loading.header.cancel.click()
    await eventually(lambda: waiting.is_over)
    assert waiting.state == "refused"
    assert waiting.refusal == "Loading was cancelled."
    assert composer.text == ""
    assert loading.workspace.current.conversation.messages[-2].text == "Count from 1 to 3"
    assert not loading.header.cancel.isVisible()
    held.goes_on.set()


async def test_a_missing_model_is_named_and_others_are_offered(several: SeveralModels) -> None:
    await several.load("alpha")
    await several.ask()
    first = several.workspace.current.conversation
    several.workspace.new_conversation()
    await several.load("beta")
    shutil.rmtree(several.folder / "alpha")
    several.workspace.open(first)
    bar, composer = several.window.chat.missing_model, several.window.chat.composer
    await eventually(bar.isVisible)
    assert bar.sentence.text() == f"alpha is not on {THIS_COMPUTER}."
    assert several.header.name.text() == "alpha is gone"
    composer.input.setPlainText("Count from 1 to 3")
    assert not composer.action.isEnabled()
    bar.choose.click()
    assert several.switcher.isVisible()
    several.switcher.close()
    assert bar.use.text() == "Use beta"
    bar.use.click()
    assert not bar.isVisible()
    assert (await several.ask()).model_id == "beta"
    assert first.model is not None
    assert first.model.name == "beta"


async def test_a_model_that_was_moved_is_found_again_by_its_name(
    several: SeveralModels, tmp_path: Path
) -> None:
    conversation = several.workspace.current.conversation
    conversation.model = ChosenModel("beta", tmp_path / "elsewhere" / "beta")
    several.answering.refresh()
    there = (several.folder / "beta").resolve()
    await eventually(lambda: conversation.model == ChosenModel("beta", there))
    assert (await several.ask()).model_id == "beta"


async def test_a_chosen_model_that_cannot_be_loaded_leaves_the_earlier_one(
    several: SeveralModels,
) -> None:
    await several.load("alpha")
    (several.folder / "beta" / "config.json").write_text("{}")
    several.answering.choose(several.folder / "beta")
    problem = several.window.chat.model_problem
    await eventually(problem.isVisible)
    assert problem.sentence.text() == "beta couldn’t be loaded. alpha stays loaded."
    assert (several.answering.state.stage, several.answering.state.name) == ("ready", "alpha")
    assert (await several.ask()).model_id == "alpha"


async def test_an_answer_is_regenerated_with_another_model_from_its_menu(
    several: SeveralModels,
) -> None:
    await several.load("alpha")
    first = await several.ask()
    (view,) = several.window.chat.column.findChildren(AnswerView)
    entries = several.window.chat.handling.entries(view)
    (menu,) = (
        one for one in entries if isinstance(one, Submenu) and one.label == "Regenerate With"
    )
    assert not callable(menu.entries)
    (beta,) = (one for one in menu.entries if isinstance(one, Command))
    assert beta.label == "beta"
    beta.run()
    session = several.workspace.current
    await eventually(lambda: session.conversation.messages[-1].run is not first)
    await eventually(lambda: not session.is_running)
    run = session.conversation.messages[-1].run
    assert run is not None
    assert (first.model_id, run.model_id) == ("alpha", "beta")
    assert len(session.conversation.tree.versions(session.conversation.messages[-1])) == 2


async def test_load_failure_is_explained_once(several: SeveralModels) -> None:
    await several.load("alpha")
    beta = several.folder / "beta"
    (beta / "config.json").write_text("{}")
    several.workspace.current.conversation.model = ChosenModel("beta", beta.resolve())
    run = await several.ask()
    assert several.window.chat.model_problem.detail.text() == run.refusal
    (view,) = several.window.chat.column.findChildren(AnswerView)
    view.refresh()
    texts = [part.text() for part in view.findChildren(QLabel)]
    assert not any(run.refusal in text for text in texts)
    assert "beta could not be loaded" in view.reason.accessibleName()
    card = several.window.stop_panel.verdict
    card.refresh()
    assert card.sentence.text() == "This message was not sent to the model"
    assert card.detail.isHidden()
