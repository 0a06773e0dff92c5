"""Edit, regenerate, continue: everything that was said stays, side by side."""

import pytest

from engine.files.json_fields import Fields
from engine.stopping.record import StopInfo, StopKind
from engine.stopping.rules import StopScope
from engine.values.events import Finished, TextDelta, Timing, Usage
from engine.values.request import Message
from tests.support.memory_store import MemoryConversationStore
from tests.ui.driving import END, ScriptedEngine, answered, begun, ended, session
from ui.chat.session.conversation_controller import ConversationController
from ui.records.codec import run_from, run_values
from ui.records.conversations import Conversation, ConversationSettings
from ui.records.stop_entries import StopEntry

EOS = "<|im_end|>"
LIMIT = Finished(StopInfo(StopKind.MAX_TOKENS, text_offset=4), Usage(7, 0, 3), Timing())


def shown(chat: ConversationController) -> list[str]:
    return [message.content for message in chat.conversation.messages]


async def test_a_regenerated_answer_is_a_version_beside_the_first(scripted: ScriptedEngine) -> None:
    chat = session(scripted, Conversation())
    await answered(chat, scripted, "Go", "one")
    first = chat.conversation.messages[1]
    changes: list[int] = []
    chat.path_changed.connect(changes.append)
    await answered(chat, scripted, lambda: chat.regenerate(first), "two")
    assert shown(chat) == ["Go", "two"]
    assert changes == [1]
    versions = chat.conversation.tree.versions(chat.conversation.messages[1])
    assert [version.content for version in versions] == ["one", "two"]
    assert scripted.requests[1].messages == (Message("user", "Go"),)


async def test_an_edited_question_begins_a_branch_and_the_old_one_comes_back_whole(
    scripted: ScriptedEngine,
) -> None:
    chat = session(scripted, Conversation())
    await answered(chat, scripted, "A", "a")
    await answered(chat, scripted, "B", "b")
    old = chat.conversation.messages[0]
    await answered(chat, scripted, lambda: chat.edit(old, "C"), "c")
    assert shown(chat) == ["C", "c"]
    assert scripted.requests[-1].messages == (Message("user", "C"),)
    chat.show_version(old)
    assert shown(chat) == ["A", "a", "B", "b"]


def stopped_by(value: str | int) -> Finished:
    kind = StopKind.STOP_STRING if isinstance(value, str) else StopKind.STOP_TOKEN
    return Finished(StopInfo(kind, value, text_offset=4), Usage(7, 0, 3), Timing())


STOPS = [
    StopEntry.of("6"),
    StopEntry.of("END", scope=StopScope.ALL),
    StopEntry.of("x", is_enabled=False),
]


@pytest.mark.parametrize("value", ["6", "END", 21])
@pytest.mark.parametrize("verb", ["continue", "again"])
async def test_continuing_past_a_stop_keeps_it_in_the_list(
    scripted: ScriptedEngine, value: str | int, verb: str
) -> None:
    settings = ConversationSettings(stop_token_ids=(21, 22))
    chat = session(scripted, Conversation(settings=settings, stops=STOPS))
    await answered(chat, scripted, "Go", "1 2 ", stopped_by(value))
    first = chat.conversation.messages[1]
    begin = chat.continue_answer if verb == "continue" else chat.answer_without_stop
    longer = await answered(chat, scripted, lambda: begin(first), "3 4", END)
    left = [one for one in ("6", "END") if one != value]
    rules = scripted.requests[-1].stops
    assert rules.stops == tuple(entry.stop for entry in STOPS if entry.stop.text in left)
    assert list(rules.token_ids) == [one for one in (21, 22) if one != value]
    assert list(longer.stops) == left
    assert longer.text == ("1 2 3 4" if verb == "continue" else "3 4")
    assert chat.conversation.stops == STOPS
    assert chat.conversation.settings == settings

    await answered(chat, scripted, "And now", "5 ", stopped_by(value))
    assert scripted.requests[-1].stops == scripted.requests[0].stops


@pytest.mark.parametrize(
    ("stop", "goes_on_from"),
    [
        (StopInfo(StopKind.STOP_STRING, "6", text_offset=4, dropped="6\n7"), "1 2 6\n7"),
        (StopInfo(StopKind.STOP_STRING, "\n\n", text_offset=4, dropped="\n\n"), "1 2 \n\n"),
        # A kept stop is in the text already; only the rest of its piece was cut off.
        (StopInfo(StopKind.STOP_STRING, "2 ", text_offset=2, dropped="x"), "1 2 x"),
        (StopInfo(StopKind.STOP_TOKEN, 21, 21, "the", text_offset=4, dropped="the"), "1 2 the"),
        # The text of a special token is no part of an answer.
        (StopInfo(StopKind.STOP_TOKEN, 2, 2, EOS, text_offset=4, dropped=EOS), "1 2 "),
        (StopInfo(StopKind.STOP_STRING, EOS, 2, EOS, text_offset=4, dropped=EOS), "1 2 "),
        (StopInfo(StopKind.CANCELLED, text_offset=4), "1 2 "),
    ],
)
async def test_an_answer_goes_on_past_its_stop_with_the_text_that_was_cut_off(
    scripted: ScriptedEngine, stop: StopInfo, goes_on_from: str
) -> None:
    chat = session(scripted, Conversation(stops=STOPS))
    end = Finished(stop, Usage(7, 0, 3), Timing())
    await answered(chat, scripted, "Go", "1 2 ", end)
    short = chat.conversation.messages[1]
    longer = await answered(chat, scripted, lambda: chat.continue_answer(short), " 8", LIMIT)
    assert scripted.requests[-1].messages[-1] == Message("assistant", goes_on_from)
    assert longer.text == f"{goes_on_from} 8"
    assert longer.finished == LIMIT, "counted from where its tokens begin"
    assert longer.continued_chars == len(goes_on_from)
    assert short.text == "1 2 "


@pytest.mark.parametrize("begins_with", ["the program", "a person"])
async def test_answer_stopped_by_quit_is_not_called_interrupted(
    scripted: ScriptedEngine, begins_with: str
) -> None:
    chat = session(scripted, Conversation())
    answer = await begun(chat, scripted)
    if begins_with == "a person":
        chat.cancel()
    chat.cancel(is_closing=True)
    end = Finished(StopInfo(StopKind.CANCELLED, text_offset=4), Usage(7, 0, 3), Timing())
    scripted.say(TextDelta("1 2 "), end)
    await ended(chat)
    assert answer.verdict is not None
    stopped = "Stopped by you."
    by_quit = "This answer stopped when Fullstop quit."
    sentence = answer.verdict.text.sentence
    assert sentence == (stopped if begins_with == "a person" else by_quit)
    assert "The text up to" in answer.verdict.text.detail
    assert answer.can_be_continued
    again = run_from(Fields(run_values(answer)), answer.text)
    assert again.verdict == answer.verdict


async def test_while_an_answer_runs_no_other_version_is_shown_or_begun(
    scripted: ScriptedEngine,
) -> None:
    chat = session(scripted, Conversation())
    await answered(chat, scripted, "Go", "one")
    question, first = chat.conversation.messages
    await begun(chat, scripted, lambda: chat.regenerate(first))
    assert chat.regenerate(first) is None
    assert chat.edit(question, "Else") is chat.send("Two") is None
    chat.show_version(first)
    assert chat.conversation.messages[1] is not first
    scripted.say(END)
    await ended(chat)
    assert chat.send("   ") is None
    assert len(scripted.requests) == 2


async def test_what_is_asked_is_stored_before_the_engine_gets_it(scripted: ScriptedEngine) -> None:

    class Watched(MemoryConversationStore):
        def __init__(self) -> None:
            super().__init__()
            self.log: list[str] = []

        def save_messages(self, conversation: Conversation, messages: object) -> None:
            assert isinstance(messages, list)
            self.log.append(f"saved {len(messages)} with {len(scripted.requests)} requests")

        async def flush(self) -> None:
            self.log.append(f"flushed with {len(scripted.requests)} requests")

    store = Watched()
    chat = session(scripted, Conversation(), store)
    await answered(chat, scripted, "Go", "one")
    assert store.log[:2] == ["saved 2 with 0 requests", "flushed with 0 requests"]
    assert store.log[-1] == "saved 1 with 1 requests"
