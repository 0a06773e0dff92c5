"""The models in memory: what each takes, and what can be done with each by its name."""

from pathlib import Path

from PySide6.QtCore import QPoint
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtWidgets import QApplication, QMenu

from tests.ui.chat.switching.several import SeveralModels
from tests.ui.driving import eventually
from ui.kit.theme import Theme
from ui.models.models_window import MemoryPanel


def panel_of(several: SeveralModels) -> MemoryPanel:
    several.window.others.show_models()
    models = several.window.others.models
    return models.memory


def lines(panel: MemoryPanel) -> dict[str, str]:
    return {line.name.text(): line.caption.text() for line in panel.lines.values()}


async def test_each_loaded_model_is_listed_pinned_and_unloaded_by_its_name(
    theme: Theme, tmp_path: Path, demo_model_path: Path
) -> None:
    async with SeveralModels(theme, tmp_path, demo_model_path, at_once=True) as several:
        panel = panel_of(several)
        assert panel.isHidden()
        several.window.preferences.change_value("models.rests_after_min", 5)
        await several.load("alpha")
        await several.ask("Count from 1 to 3")
        await several.load("beta")
        await eventually(lambda: set(lines(panel)) == {"alpha", "beta"})
        assert all("of weights" in words for words in lines(panel).values())
        assert "that models may take" in panel.total.text()
        by_name = {line.name.text(): line for line in panel.lines.values()}
        by_name["alpha"].pin.click()
        panel.refresh()  # the engine has not reported the change yet
        assert by_name["alpha"].pin.isChecked()
        engine = several.engine
        await eventually(lambda: engine.resolve_model("alpha").is_pinned)
        await eventually(lambda: engine.resolve_model("alpha").unloads_at is None)
        by_name["alpha"].pin.click()
        await eventually(lambda: not engine.resolve_model("alpha").is_pinned)
        await eventually(lambda: engine.resolve_model("alpha").unloads_at is not None)
        panel.window().activateWindow()
        by_name["alpha"].unload.setFocus()
        await eventually(by_name["alpha"].unload.hasFocus)
        by_name["alpha"].unload.click()
        await eventually(lambda: set(lines(panel)) == {"beta"})
        assert engine.resolve_model("beta").is_loaded


async def test_pinned_model_stays_pinned_across_loads(
    theme: Theme, tmp_path: Path, demo_model_path: Path
) -> None:
    async with SeveralModels(theme, tmp_path, demo_model_path, at_once=True) as several:
        library, preferences = several.window.model_library, several.window.preferences
        panel, engine = panel_of(several), several.engine
        library.preferences.change_value("models.rests_after_min", 5)
        await several.load("alpha")
        await eventually(lambda: len(panel.lines) == 1)
        [line] = panel.lines.values()
        line.pin.click()
        await eventually(lambda: engine.resolve_model("alpha").is_pinned)
        assert [c.folder for c in preferences.now.models.choices if c.is_pinned] == [
            str(several.folder / "alpha")
        ]
        line.unload.click()
        await eventually(lambda: not engine.resolve_model("alpha").is_loaded)
        # As at the next start: the engine knows nothing of it, the settings do.
        engine.pin("alpha", is_pinned=False)
        engine.unload_after(300.0, "alpha")
        await several.load("alpha")
        await eventually(lambda: engine.resolve_model("alpha").is_pinned)
        await several.ask("Count from 1 to 3")
        await eventually(lambda: engine.resolve_model("alpha").unloads_at is None)
        await eventually(lambda: len(panel.lines) == 1)
        [line] = panel.lines.values()
        await eventually(line.pin.isChecked)
        line.pin.click()
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
        assert list(entries) == ["Unload alpha", "Pin alpha", "Switch Model…", "Models…"]
        entries["Unload alpha"].trigger()
        menu.close()
        await eventually(lambda: not several.engine.resolve_model("alpha").is_loaded)
        assert several.engine.resolve_model("beta").is_loaded
