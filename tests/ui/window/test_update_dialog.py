"""Check for Updates: the question before the first look, and each result."""

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

from tests.support.kept import preferences_state
from tests.ui.driving import eventually
from ui.kit.theme import Theme
from ui.window.updates import Release, UpdateDialog, UpdateFailed, Updates


async def test_update_dialog_asks_once_and_shows_the_result(theme: Theme, parent: QWidget) -> None:
    state = preferences_state()
    results: list[Release | UpdateFailed] = [UpdateFailed("pypi.org could not be reached (x).")]

    def look() -> Release:
        if isinstance(result := results[-1], UpdateFailed):
            raise result
        return result

    source = Updates("0.1.0", "pypi.org", look=look)
    dialog = UpdateDialog(source, state, parent)
    dialog.open()
    assert dialog.heading.text() == "Check pypi.org for updates?"
    assert not dialog.always.isChecked()
    dialog.action.click()
    await eventually(lambda: dialog.action.text() == "Try Again")
    assert dialog.text.text() == "pypi.org could not be reached (x)."
    results.append(Release("0.1.0", is_newer=False))
    dialog.action.click()
    await eventually(lambda: dialog.heading.text() == "Fullstop is up to date.")
    dialog.close()
    results.append(Release("0.2.0", is_newer=True, command="pip install --upgrade fullstop-chat"))
    again = UpdateDialog(source, state, parent)
    again.open()
    await eventually(lambda: again.heading.text() == "Fullstop 0.2.0 is available.")
    again.action.click()
    assert QGuiApplication.clipboard().text() == "pip install --upgrade fullstop-chat"
    again.always.click()
    assert state.now.checks_for_updates
    again.close()
    await state.finish()


async def test_update_dialog_of_a_copy_without_updates_has_the_reason(
    theme: Theme, parent: QWidget
) -> None:
    state = preferences_state()
    dialog = UpdateDialog(Updates("0.1.0", reason="This copy runs from a folder."), state, parent)
    dialog.open()
    assert dialog.text.text() == "This copy runs from a folder."
    assert not dialog.action.isVisible()
    assert not dialog.always.isVisible()
    dialog.close()
    await state.finish()
