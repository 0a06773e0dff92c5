import json

import pytest
from PySide6.QtWidgets import QApplication

from engine.files.json_fields import Fields
from engine.stopping.rules import Stop, StopRules, StopScope
from tests.support.memory_store import MemoryConversationStore
from ui.chat.session.conversation_list import ConversationList
from ui.records.codec import run_from, run_values
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage
from ui.records.runs import Run
from ui.records.titles import UNTITLED, title_from_file


@pytest.fixture
def conversations(qapp: QApplication) -> ConversationList:
    store = MemoryConversationStore()
    for number, title in enumerate(("old", "middle", "new")):
        store.save(
            Conversation(title, messages=[ConversationMessage("user", title)], updated_at=number)
        )
    return ConversationList(store)


def titles(conversations: ConversationList) -> list[str]:
    return [conversation.title for conversation in conversations.every()]


def test_the_conversation_changed_last_comes_first(conversations: ConversationList) -> None:
    assert titles(conversations) == ["new", "middle", "old"]
    conversations.touch(conversations.every()[2])
    assert titles(conversations) == ["old", "new", "middle"]


def test_a_new_conversation_is_made_once_while_it_is_unused(
    conversations: ConversationList,
) -> None:
    first = conversations.create()
    assert conversations.create() is first
    first.add(ConversationMessage("user", "hi"))
    assert conversations.create() is not first


def test_the_first_question_names_a_conversation(conversations: ConversationList) -> None:
    fresh = conversations.create()
    assert fresh.title == UNTITLED
    conversations.name_after(fresh, "why\n does it   stop?" + "x" * 90)
    assert fresh.title == "why does it stop?" + "x" * 90
    conversations.name_after(fresh, "another question")
    assert fresh.title.startswith("why")


def test_untitled_conversation_is_listed_by_its_draft() -> None:
    fresh = Conversation(draft="why\n does it")
    assert fresh.listed_title == fresh.short_title == "why does it"
    assert Conversation().listed_title == UNTITLED
    assert Conversation("Named", draft="why").listed_title == "Named"


def test_untitled_conversations_of_earlier_versions_are_untitled() -> None:
    assert title_from_file("New conversation") == title_from_file(" ") == UNTITLED == "New Chat"
    assert title_from_file("New conversation about stops") == "New conversation about stops"


def test_pinned_conversations_stay_above_the_others(conversations: ConversationList) -> None:
    old = conversations.every()[2]
    conversations.pin(old, True)
    assert titles(conversations) == ["old", "new", "middle"]
    conversations.touch(conversations.every()[2])
    assert titles(conversations) == ["old", "middle", "new"]
    conversations.pin(old, False)
    assert titles(conversations) == ["middle", "new", "old"]


def test_deletions_are_undone_one_after_the_other(conversations: ConversationList) -> None:
    conversations.delete(conversations.every()[0])
    conversations.delete(conversations.every()[0])
    assert titles(conversations) == ["old"]
    conversations.undo_last()
    assert titles(conversations) == ["middle", "old"]
    conversations.undo_last()
    assert titles(conversations) == ["new", "middle", "old"]
    assert not conversations.can_undo


def test_undo_after_a_recovery_shows_a_conversation_once(conversations: ConversationList) -> None:
    deleted = conversations.every()[0]
    conversations.delete(deleted)
    found = Conversation("new", updated_at=2, id=deleted.id)
    conversations.take_found([*conversations.every(), found])
    conversations.undo_last()
    assert titles(conversations) == ["new", "middle", "old"]


def test_saved_run_keeps_its_stop_options() -> None:
    rules = StopRules((Stop("END", StopScope.ALL), Stop("x")), (5,), ignore_eos=True)
    values = json.loads(json.dumps(run_values(Run(rules=rules, state="finished"))))
    assert run_from(Fields(values), "").rules == rules
    unknown = {**values["rules"], "stops": [{"text": "END", "scope": "of a later version"}]}
    for earlier in ({**values, "rules": None}, {**values, "rules": unknown}):
        assert run_from(Fields(earlier), "").rules == StopRules.of("END", "x")
