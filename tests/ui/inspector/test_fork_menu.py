"""The menu of a token on the tape: forks, and the end."""

from pathlib import Path
from threading import Event

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QInputDialog, QMenu

from engine.recording.fork import end_here
from engine.recording.run_trace import RunTrace
from engine.recording.saved_run import from_json
from engine.stopping.record import StopKind
from engine.values.request import Fork, TraceLevel
from tests.ui.driving import eventually
from tests.ui.inspector.inspecting import COUNT, ask
from ui.inspector.inspector_window import InspectorWindow
from ui.records.runs import Run
from ui.window.main_window import MainWindow


def open_menu(inspector: InspectorWindow, index: int) -> QMenu:
    """Open the menu of a token with the keyboard."""
    tape = inspector.tape
    tape.setFocus()
    QTest.keyClick(tape, Qt.Key.Key_Home)
    for _ in range(index):
        QTest.keyClick(tape, Qt.Key.Key_Right)
    QTest.keyClick(tape, Qt.Key.Key_Return)
    return next(m for m in inspector.findChildren(QMenu) if m.isVisible())


def labels(menu: QMenu) -> list[str]:
    return [action.text() for action in menu.actions() if action.text() and action.isVisible()]


def choose(menu: QMenu, beginning: str) -> None:
    action = next(a for a in menu.actions() if a.text().startswith(beginning))
    assert action.isEnabled(), action.text()
    action.trigger()
    menu.close()


async def shown_after(window: MainWindow) -> Run:
    await eventually(lambda: not window.workspace.current.is_running)
    run = window.workspace.current.shown_run
    assert run is not None
    return run


async def test_fork_menu_offers_recorded_alternatives_and_end(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, COUNT)
    first = await shown_after(window)
    menu = open_menu(inspector, 6)
    assert menu.accessibleName() == "Fork at token 7"
    listed = labels(menu)
    assert listed[0] == "Fork at Token 7, “4”"
    assert listed[-2:] == ["Other Text…", "End Here"]
    assert len(listed) == 8
    assert [a.text().split("\t")[0] for a in menu.actions() if a.isChecked()] == ["“4”"]
    choose(menu, listed[2])
    forked = await shown_after(window)
    assert forked is not first
    assert inspector.inspector.shown is not None
    assert inspector.inspector.shown.run is forked
    assert forked.forked_from is not None
    assert inspector.head.source.text() == forked.forked_from.sentence
    choose(open_menu(inspector, 3), "End Here")
    await inspector.forks.finish()
    ended = await shown_after(window)
    assert ended.text == "1\n2"
    assert ended.finished is not None
    assert ended.finished.stop.kind is StopKind.EOS
    assert inspector.head.sentence.text() == "You ended this answer at a fork."
    answer = window.workspace.current.conversation.messages[-1]
    assert len(window.workspace.current.conversation.tree.versions(answer)) == 3


async def test_end_here_computes_beside_the_window(
    window: MainWindow, inspector: InspectorWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask(window, COUNT)
    go_on = Event()

    def slow(trace: RunTrace, token_index: int) -> tuple[RunTrace, Fork]:
        assert go_on.wait(5)
        return end_here(trace, token_index)

    monkeypatch.setattr("ui.inspector.forks.end_here", slow)
    choose(open_menu(inspector, 4), "End Here")
    go_on.set()
    await inspector.forks.finish()
    assert (await shown_after(window)).text == "1\n2\n"


async def test_fork_menu_looks_for_alternatives_that_were_not_recorded(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    window.workspace.traces.level = TraceLevel.STOPS
    await ask(window, COUNT)
    first = await shown_after(window)
    window.workspace.traces.get(first.id).vocabulary = None  # as after a restart
    menu = open_menu(inspector, 6)
    await eventually(lambda: any(action.isChecked() for action in menu.actions()))
    assert len(labels(menu)) == 8
    assert not any("id·" in label for label in labels(menu))
    choose(menu, "“4”")
    forked = await shown_after(window)
    assert forked.text == first.text
    trace = window.workspace.traces.get(forked.id)
    assert trace is not None
    assert [t.index for t in trace.tokens if t.stats is not None] == [6]


async def test_fork_takes_typed_text(window: MainWindow, inspector: InspectorWindow) -> None:
    await ask(window, COUNT)
    choose(open_menu(inspector, 6), "Other Text…")
    dialog = inspector.findChild(QInputDialog)
    assert dialog is not None
    dialog.setTextValue(" and\\n")
    dialog.accept()
    forked = await shown_after(window)
    assert forked.text.startswith("1\n2\n3\n and\n")
    menu = open_menu(inspector, 6)  # its token is none of the likeliest
    await eventually(lambda: any(action.isChecked() for action in menu.actions()))
    assert [a.text() for a in menu.actions() if a.isChecked()] == [f"{labels(menu)[6]}"]
    assert len(labels(menu)) == 9
    choose(menu, labels(menu)[6])
    assert (await shown_after(window)).text.startswith("1\n2\n3\n ")


async def test_fork_menu_says_why_no_fork_is_possible(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, COUNT)
    run = await shown_after(window)
    window.workspace.send("Tell me a story")
    await eventually(lambda: window.workspace.current.is_running)
    window.workspace.show_run(run)
    menu = open_menu(inspector, 2)
    assert labels(menu)[1:3] == [
        "Another answer is running.",
        "Fork this one when that has ended.",
    ]
    assert not any(action.isEnabled() for action in menu.actions() if action.text())
    menu.close()
    window.workspace.current.cancel()
    await shown_after(window)
    window.workspace.show_run(run)
    run.model_id = "other-7b"
    menu = open_menu(inspector, 2)
    assert labels(menu)[1].startswith("This answer is from other-7b")
    menu.close()
    trace = window.workspace.traces.get(run.id)
    assert trace is not None
    trace.request = None  # its pictures were deleted
    menu = open_menu(inspector, 2)
    assert labels(menu)[1].startswith("The prompt was not recorded")
    choose(menu, "End Here")
    await inspector.forks.finish()
    assert (await shown_after(window)).text == "1\n"


async def test_click_on_token_opens_its_menu(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, COUNT)
    await shown_after(window)
    view = inspector.tape.viewport()
    QTest.mouseClick(view, Qt.MouseButton.LeftButton, pos=QPoint(100, 20))
    menu = next(m for m in inspector.findChildren(QMenu) if m.isVisible())
    assert menu.accessibleName().startswith("Fork at token")
    menu.close()


async def test_menus_of_answers_open_tape_at_a_token(window: MainWindow) -> None:
    await ask(window, COUNT)
    run = await shown_after(window)
    window.chat.handling.fork_requested.emit(run)
    tape = window.others.inspector.tape
    assert window.others.inspector.focusWidget() is tape
    assert "press Return, to fork" in window.others.inspector.token.text()
    QTest.keyClick(tape, Qt.Key.Key_End)
    assert tape.accessibleDescription().startswith("Token 21")


async def test_saved_run_is_forked_beside_its_original(
    window: MainWindow, inspector: InspectorWindow, tmp_path: Path
) -> None:
    await ask(window, COUNT, "9")
    await shown_after(window)
    state, path = inspector.inspector, tmp_path / "run.json"
    state.save_run(path)
    await eventually(path.exists)
    assert state.shown is not None
    asked = state.shown.trace
    assert asked is not None
    assert list(from_json(path.read_text()).rendered) == list(asked.rendered) != []
    state.open_file(path)
    await eventually(lambda: state.shown is not None and state.shown.source == "file")
    original = state.shown
    menu = open_menu(inspector, 6)
    await eventually(lambda: any(action.isChecked() for action in menu.actions()))
    choose(menu, "“4”")
    await eventually(lambda: inspector.tabs.currentWidget() is inspector.compare)
    assert state.shown is not None
    assert state.shown is not original
    assert state.shown.source == "fork"
    assert state.shown.run.text == original.run.text
    assert inspector.compare.sentence.text() == "Both answers are identical."
    assert inspector.head.source.text() == (
        "From a fork: run.json · The original, but token 7 is “4” in place of “4”"
    )
    choose(open_menu(inspector, 2), "End Here")
    await inspector.forks.finish()
    assert state.shown.run.text == "1\n"
    assert len(window.workspace.current.conversation.messages) == 2


async def test_fork_loads_model_of_its_answer(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    window.workspace.traces.level = TraceLevel.STOPS
    await ask(window, COUNT)
    first, models = await shown_after(window), window.workspace.models
    models.unload()
    await eventually(lambda: models.stage != "ready")
    menu = open_menu(inspector, 6)
    await eventually(lambda: "Alternatives not recorded" in labels(menu))
    choose(menu, "Other Text…")
    dialog = inspector.findChild(QInputDialog)
    assert dialog is not None
    dialog.setTextValue("4")
    dialog.accept()
    forked = await shown_after(window)
    assert (forked.text, models.stage) == (first.text, "ready")
