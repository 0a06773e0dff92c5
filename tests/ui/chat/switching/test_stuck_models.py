"""A model that hangs: its chat says so and restarts it, and the other models answer."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.engine import Engine
from engine.inference.loader import load_model
from engine.values.limits import Limits
from tests.ui.chat.switching.several import SeveralModels
from tests.ui.driving import Enter, Living, eventually
from tests.ui.models.opened import entry_of
from ui.kit.theme import Theme


class Hanging:
    """Loads models whose steps hang while their names are in ``held``."""

    def __init__(self) -> None:
        self.held: set[str] = set()
        self.is_over = threading.Event()

    def __call__(self, folder: Path, **options: Any) -> Any:
        backend = load_model(folder, **options)
        step = backend.batch.step

        def hang() -> Any:
            if folder.name in self.held:
                assert self.is_over.wait(120)
            return step()

        backend.batch.step = hang  # type: ignore[method-assign]
        return backend


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    hanging = Hanging()
    yield hanging
    hanging.is_over.set()


@pytest.fixture
def several(
    enter: Enter, theme: Theme, tmp_path: Path, demo_model_path: Path, hanging: Hanging
) -> Living[SeveralModels]:
    engine = Engine(Limits(stuck_after_s=1.0), loader=hanging)
    return enter(
        lambda: SeveralModels(theme, tmp_path, demo_model_path, engine=engine, at_once=True)
    )


async def test_a_stuck_model_says_so_everywhere_and_is_restarted_by_a_button(
    several: SeveralModels, hanging: Hanging
) -> None:
    await several.load("alpha")
    hanging.held.add("alpha")
    failed = await several.ask()
    assert failed.finished is not None
    assert "has not completed a step for 1 seconds" in (failed.finished.error or "")
    await eventually(lambda: several.answering.state.stage == "failed")
    assert several.header.name.text() == "alpha is not responding"
    assert "has not completed a step" in several.header.name.toolTip()
    several.window.others.show_models()
    models = several.window.others.models
    models.list.pick(entry_of(models, "alpha"))
    await eventually(lambda: "has not completed a step" in models.details.status.text())
    assert models.details.primary.text() == "Restart"
    hanging.held.clear()
    assert several.header.again.text() == "Restart"
    several.header.again.click()
    await eventually(lambda: several.answering.state.stage == "ready")
    assert (await several.ask()).text == "1, 2, 3"


async def test_asking_again_restarts_a_stuck_model(
    several: SeveralModels, hanging: Hanging
) -> None:
    await several.load("alpha")
    hanging.held.add("alpha")
    await several.ask()
    await eventually(lambda: several.answering.state.stage == "failed")
    hanging.held.clear()
    workspace = several.workspace
    assert workspace.ask(
        lambda current: current.regenerate(workspace.current.conversation.messages[-1])
    )
    await eventually(lambda: not workspace.current.is_running)
    again = workspace.current.conversation.messages[-1].run
    assert again is not None
    assert (again.state, again.text) == ("finished", "1, 2, 3")
