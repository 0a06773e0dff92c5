"""What a person can do after an answer ended: continue past a stop, answer without it."""

from tests.ui.driving import eventually
from tests.ui.inspector.inspecting import COUNT, ask
from ui.inspector.inspector_window import InspectorWindow
from ui.records.stop_entries import StopEntry
from ui.window.main_window import MainWindow


async def test_continuing_past_a_stop_counts_once_and_leaves_the_list_as_it_is(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, COUNT, "6")
    inspector.head.past.click()
    await eventually(lambda: not window.workspace.current.is_running)
    assert window.workspace.current.conversation.enabled_stops() == ("6",)
    assert window.workspace.current.stops.entries() == [StopEntry.of("6")]
    shown = window.workspace.current.shown_run
    assert shown is not None
    assert shown.text == "1\n2\n3\n4\n5\n6\n7\n8\n9\n10"


async def test_answering_without_a_stop_keeps_list_and_follow_up_questions(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    workspace = window.workspace
    await ask(window, COUNT, "6")
    first = workspace.current.shown_run
    await ask(window, "What is a stop sequence?")
    workspace.show_run(first)
    inspector.head.without.click()
    await eventually(lambda: not workspace.current.is_running)
    assert workspace.current.stops.entries() == [StopEntry.of("6")]
    texts = [message.content for message in workspace.current.conversation.messages]
    assert texts[1].endswith("9\n10")
    assert texts[2] == "What is a stop sequence?"
    assert len(texts) == 4


async def test_the_offered_actions_fit_the_kind_of_end(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    head = inspector.head
    await ask(window, COUNT)
    assert not any(action.isVisible() for action in head._actions)
    window.workspace.change_settings(
        window.workspace.current.conversation.settings.__class__(max_tokens=5)
    )
    await ask(window, COUNT)
    assert [a.text() for a in head._actions if a.isVisible()] == ["Raise Limit and Continue"]
    head.raise_limit.click()
    await eventually(lambda: not window.workspace.current.is_running)
    assert window.workspace.current.undo_stack.undoText() == "Raise Maximum Length"
    assert window.workspace.current.conversation.settings.max_tokens == 10
