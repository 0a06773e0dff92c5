"""The models in memory: what each takes, and what can be done with each by its name."""

from pathlib import Path

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtWidgets import QApplication, QMenu

from tests.ui.chat.switching.several import SeveralModels
from tests.ui.driving import eventually
from tests.ui.models.opened import commands_of, entry_of
from ui.kit.theme import Theme
from ui.models.model_details import ModelDetails
from ui.models.models_window import ModelsWindow


def shown_models(several: SeveralModels) -> ModelsWindow:
    several.window.others.show_models()
    return several.window.others.models


def pick(models: ModelsWindow, name: str) -> ModelDetails:
    models.list.pick(entry_of(models, name))
    return models.details


def spoken(models: ModelsWindow, name: str) -> str:
    index = models.entries.index(models.entries.row_of(entry_of(models, name)))
    return str(index.data(Qt.ItemDataRole.AccessibleTextRole))


async def test_each_loaded_model_is_listed_pinned_and_unloaded_by_its_name(
    theme: Theme, tmp_path: Path, demo_model_path: Path
) -> None:
    async with SeveralModels(theme, tmp_path, demo_model_path, at_once=True) as several:
        models, engine = shown_models(several), several.engine
        several.window.preferences.change_value("models.rests_after_min", 5)
        await several.load("alpha")
        await several.ask("Count from 1 to 3")
        await several.load("beta")
        for name in ("alpha", "beta"):
            entry = entry_of(models, name)
            await eventually(lambda entry=entry: "of weights" in models.entries.state(entry).text)
        await eventually(lambda: len(models.memory.bar.sizes) == 2)
        assert " of " in models.memory.total.text()
        marked = [model for model in ("alpha", "beta") if "This chat" in spoken(models, model)]
        assert marked == [several.window.workspace.model_selection.state.name]
        details = pick(models, "alpha")
        details.pin.click()
        details.refresh()  # the engine has not reported the change yet
        assert details.pin.isChecked()
        await eventually(lambda: engine.resolve_model("alpha").is_pinned)
        await eventually(lambda: engine.resolve_model("alpha").unloads_at is None)
        details.pin.click()
        await eventually(lambda: not engine.resolve_model("alpha").is_pinned)
        await eventually(lambda: engine.resolve_model("alpha").unloads_at is not None)
        assert not commands_of(models, "alpha")["Keep in Memory"].checked
        commands_of(models, "alpha")["Keep in Memory"].run()
        await eventually(lambda: commands_of(models, "alpha")["Keep in Memory"].checked)
        details.unload.click()
        await eventually(lambda: not engine.resolve_model("alpha").is_loaded)
        assert engine.resolve_model("beta").is_loaded


async def test_pinned_model_stays_pinned_across_loads(
    theme: Theme, tmp_path: Path, demo_model_path: Path
) -> None:
    async with SeveralModels(theme, tmp_path, demo_model_path, at_once=True) as several:
        library, preferences = several.window.model_library, several.window.preferences
        models, engine = shown_models(several), several.engine
        library.preferences.change_value("models.rests_after_min", 5)
        await several.load("alpha")
        details = pick(models, "alpha")
        await eventually(lambda: not details.pin.isHidden())
        details.pin.click()
        await eventually(lambda: engine.resolve_model("alpha").is_pinned)
        assert [c.folder for c in preferences.now.models.choices if c.is_pinned] == [
            str(several.folder / "alpha")
        ]
        details.unload.click()
        await eventually(lambda: not engine.resolve_model("alpha").is_loaded)
        # As at the next start: the engine knows nothing of it, the settings do.
        engine.pin("alpha", is_pinned=False)
        engine.unload_after(300.0, "alpha")
        await several.load("alpha")
        await eventually(lambda: engine.resolve_model("alpha").is_pinned)
        await several.ask("Count from 1 to 3")
        await eventually(lambda: engine.resolve_model("alpha").unloads_at is None)
        await eventually(details.pin.isChecked)
        details.pin.click()
        await eventually(lambda: not engine.resolve_model("alpha").is_pinned)
        assert not any(c.is_pinned for c in preferences.now.models.choices)


async def test_the_menu_of_the_header_is_for_the_model_of_the_chat(
    theme: Theme, tmp_path: Path, demo_model_path: Path
) -> None:
    async with SeveralModels(theme, tmp_path, demo_model_path, at_once=True) as several:
        await several.load("alpha")
        await several.ask("Count from 1 to 3")
        first = several.workspace.current.conversation
        several.workspace.new_conversation()
        await several.load("beta")
        several.workspace.open(first)
        await eventually(lambda: several.answering.state.name == "alpha")
        badge = several.header
        reason = QContextMenuEvent.Reason.Keyboard
        QApplication.sendEvent(badge, QContextMenuEvent(reason, QPoint(), QPoint(5, 5)))
        [menu] = [
            one
            for one in several.window.findChildren(QMenu)
            if one.isVisible() and one.accessibleName() == "The model of this chat"
        ]
        entries = {action.text(): action for action in menu.actions() if action.text()}
        assert list(entries) == ["Unload alpha", "Keep alpha in Memory", "Switch Model…", "Models…"]
        entries["Unload alpha"].trigger()
        menu.close()
        await eventually(lambda: not several.engine.resolve_model("alpha").is_loaded)
        assert several.engine.resolve_model("beta").is_loaded
