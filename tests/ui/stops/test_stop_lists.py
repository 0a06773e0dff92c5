"""Saved stop lists: the default one, those of models, by name; new conversations."""

from pathlib import Path

from engine.engine import Engine
from engine.stopping.rules import StopScope
from tests.support.kept import model_library, saved_stop_lists
from tests.support.memory_store import MemoryConversationStore
from tests.support.outside.tool_hosts import no_tools
from ui.chat.session.workspace import Workspace
from ui.preferences import Preferences
from ui.records.stop_entries import StopEntry
from ui.stops.stop_lists import DEFAULT_LIST, model_list, named_list

ROWS = (
    StopEntry.of("\n\nUser:"),
    StopEntry.of("x").within(StopScope.ALL),
    StopEntry.of("off", is_enabled=False),
)


async def test_lists_are_kept_renamed_and_deleted(tmp_path: Path) -> None:
    lists, own, model = saved_stop_lists(), named_list("Own"), model_list(tmp_path)
    for key in (own, model, DEFAULT_LIST):
        assert lists.get(key) is None
        lists.keep(key, ROWS)
        assert lists.get(key) == ROWS
    lists.rename(own, "Other")
    assert lists.all() == [DEFAULT_LIST, model, named_list("Other")]
    for key in lists.all():
        lists.keep(key, None)
    assert lists.all() == [DEFAULT_LIST]


def test_damaged_stop_list_counts_as_none() -> None:
    lists = saved_stop_lists(
        Preferences(default_stops="{", stop_lists=(("a", '[{"sequence": 1}]'),))
    )
    assert lists.get(DEFAULT_LIST) is None
    assert lists.get(named_list("a")) is None
    assert lists.for_new_chats(None) == ((), "")


async def test_new_chats_begin_with_the_models_list_before_the_default_one(tmp_path: Path) -> None:
    lists = saved_stop_lists()
    lists.keep(DEFAULT_LIST, ROWS)
    assert lists.for_new_chats(tmp_path) == (ROWS, DEFAULT_LIST)
    lists.keep(model_list(tmp_path), ())
    assert lists.for_new_chats(tmp_path) == ((), model_list(tmp_path))


async def test_unused_conversations_follow_the_default_list_until_theirs_is_edited(
    engine: Engine,
) -> None:
    library = model_library(engine)
    workspace = Workspace(engine, library, MemoryConversationStore(), no_tools())
    library.preferences.changed.connect(lambda: workspace.apply(library.preferences.now))
    first = workspace.current
    workspace.stop_lists.keep(DEFAULT_LIST, ROWS[:1])
    assert (first.stops.entries(), first.conversation.stops_from) == ([ROWS[0]], DEFAULT_LIST)
    assert not first.undo_stack.canUndo()
    first.stops.add_sequence("END")
    workspace.stop_lists.keep(DEFAULT_LIST, ROWS[1:])
    assert [entry.stop.text for entry in first.stops.entries()] == ["\n\nUser:", "END"]
    assert tuple(workspace.conversations.create(None).stops) != ROWS[1:], "it is in use"
    first.conversation.draft = "Hello"
    assert tuple(workspace.conversations.create(None).stops) == ROWS[1:]
    await workspace.finish()


async def test_used_stop_list_is_named_and_undone(engine: Engine) -> None:
    workspace = Workspace(engine, model_library(engine), MemoryConversationStore(), no_tools())
    workspace.stop_lists.keep(named_list("Own"), ROWS)
    workspace.use_stop_list(named_list("Own"))
    current = workspace.current
    assert (tuple(current.stops.entries()), current.conversation.stops_from) == (ROWS, "list:Own")
    current.undo_stack.undo()
    assert (current.stops.entries(), current.conversation.stops_from) == ([], "")
    await workspace.finish()
