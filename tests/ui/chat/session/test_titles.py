"""The model names a conversation in the background; until then it has the question's words."""

import asyncio
from pathlib import Path

import pytest

from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Finished, TextDelta, Timing, Usage
from engine.values.request import Message
from tests.support.kept import preferences_state
from tests.support.shown import main_window
from tests.ui.driving import Enter, Living, ScriptedEngine, answered, eventually, opened
from ui.chat.session.titles import written_title
from ui.kit.theme import Theme
from ui.preferences import Preferences
from ui.window.main_window import MainWindow

DONE = Finished(StopInfo(StopKind.EOS), Usage(7, 0, 3), Timing())
LONG = "Tell me how a very long question keeps all of its words, however narrow its column is"


@pytest.fixture
def window(enter: Enter, scripted: ScriptedEngine, theme: Theme) -> Living[MainWindow]:
    def make() -> MainWindow:
        preferences = preferences_state(Preferences(theme=theme.mode, names_conversations=True))
        return main_window(scripted, theme, preferences=preferences)

    return enter(lambda: opened(make(), quits=True, is_in_front=True, scripted=scripted))


def is_for_title(message: Message) -> bool:
    return message.content.startswith("Write a title of at most six words")


async def test_the_model_names_a_conversation_after_its_first_answer(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    await answered(window, scripted, LONG)
    conversation = window.workspace.current.conversation
    assert conversation.title == LONG, "whole until then"
    await eventually(lambda: len(scripted.generations) == 2)
    request = scripted.requests[-1]
    assert is_for_title(request.messages[0])
    assert "User: Tell me how" in request.messages[0].content
    assert request.cache_owner.kept_with is None
    scripted.say(TextDelta('**Title:** "Long questions"\n'), DONE)
    await eventually(lambda: conversation.title == "Long questions")
    assert window.chat.header.title.text() == "Long questions"
    assert len(conversation.messages) == 2
    await answered(window, scripted, "And now?")
    await asyncio.sleep(0.1)
    assert conversation.title == "Long questions"
    assert len(scripted.requests) == 3, "only the first answer leads to a title"


async def test_a_conversation_that_a_person_has_named_keeps_its_name(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    await answered(window, scripted, LONG)
    conversation = window.workspace.current.conversation
    await eventually(lambda: len(scripted.generations) == 2)
    window.workspace.conversations.rename(conversation, "Mine")
    scripted.say(TextDelta("Long questions"), DONE)
    await asyncio.sleep(0.1)
    assert conversation.title == "Mine"


async def test_excluded_models_write_no_title(window: MainWindow, scripted: ScriptedEngine) -> None:
    info = window.workspace.model_selection.state.info
    window.workspace.titles.excluded_models = (Path("/other"), info.path)
    await answered(window, scripted, LONG)
    await asyncio.sleep(0.2)
    assert len(scripted.requests) == 1


async def test_with_the_setting_off_no_title_is_asked_for(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    window.preferences.change(names_conversations=False)
    await answered(window, scripted, LONG)
    await asyncio.sleep(0.2)
    assert len(scripted.requests) == 1
    assert window.workspace.current.conversation.title == LONG
    window.preferences.change(names_conversations=True)
    window.chat.new_conversation()
    await answered(window, scripted, "Why does it rain?")
    await eventually(lambda: is_for_title(scripted.requests[-1].messages[0]))


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("Long questions", "Long questions"),
        ('\n  "Titel: Lange Fragen."\nMore', "Lange Fragen"),
        ("# **Bread** at `home`", "Bread at home"),
        ("", ""),
        ("Sure, here is a title for you", ""),
        ("one two three four five six seven eight nine", ""),
        ("the the the the", ""),
    ],
)
def test_what_is_no_title_is_not_taken_for_one(written: str, title: str) -> None:
    assert written_title(written) == title
