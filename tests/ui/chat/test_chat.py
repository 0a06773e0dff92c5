import asyncio

import pytest
from PySide6.QtWidgets import QButtonGroup

from engine.errors import QueueFull
from engine.stopping.record import Channel, StopKind
from engine.values.events import (
    PromptProgress,
    TextDelta,
    ThinkingDelta,
    TokenTrace,
)
from engine.values.request import Message
from engine.values.verdict import UNEXPECTED
from tests.ui.driving import END, ScriptedEngine, answered, begun, ended, eventually, session
from ui.chat.messages.answer_view import AnswerView
from ui.chat.session.conversation_controller import HOLD_SHOWN_S
from ui.kit.theme import Theme
from ui.records.conversations import Conversation, ConversationSettings
from ui.records.messages import ConversationMessage
from ui.records.stop_entries import StopEntry


async def test_an_answer_goes_through_its_stages_and_keeps_its_run(
    scripted: ScriptedEngine,
) -> None:
    chat = session(scripted)
    answer = await begun(chat, scripted)
    assert answer.state == "queued"
    scripted.say(PromptProgress(3, 7, 2))
    await eventually(lambda: answer.state == "prefill")
    assert (answer.prompt_processed, answer.prompt_total, answer.prompt_cached) == (3, 7, 2)
    scripted.say(ThinkingDelta("hm"))
    await eventually(lambda: answer.thinking == "hm")
    assert answer.thinking_s is None
    scripted.say(TextDelta("1 2 "))
    await eventually(lambda: answer.text == "1 2 ")
    assert answer.thinking_s is not None
    scripted.say(TextDelta("3"), END)
    await ended(chat)
    assert (answer.text, answer.finished) == ("1 2 3", END)
    assert chat.conversation.messages[1].text == "1 2 3"


async def test_the_request_carries_what_belongs_to_the_conversation(
    scripted: ScriptedEngine,
) -> None:
    conversation = Conversation(
        settings=ConversationSettings(
            "Be brief.", max_tokens=9, temperature=0.5, is_thinking=True, thinking_budget=64
        ),
        stops=[StopEntry.of("END"), StopEntry.of("off", False), StopEntry.of("\n")],
    )
    chat = session(scripted, conversation)
    await answered(chat, scripted, "One")
    await answered(chat, scripted, "Two")
    request = scripted.requests[1]
    assert request.stops.strings == ("END", "\n")
    assert (request.max_tokens, request.thinking) == (9, True)
    assert request.thinking_budget == 64
    assert request.sampling.temperature == 0.5
    assert request.messages == (
        Message("system", "Be brief."),
        Message("user", "One"),
        Message("assistant", "1"),
        Message("user", "Two"),
    )


async def test_a_refused_message_says_why_and_is_left_out_of_the_next_request(
    scripted: ScriptedEngine,
) -> None:
    chat = session(scripted)
    scripted.refusal = QueueFull(9)
    refused = chat.send("Early")
    assert refused is not None
    await ended(chat)
    assert refused.state == "refused"
    assert refused.refusal == "Too many requests are waiting. Try again in a moment."
    scripted.refusal = None
    await answered(chat, scripted, "Later")
    assert scripted.requests[-1].messages == (Message("user", "Later"),)


async def test_a_cancel_before_the_engine_took_the_question_ends_the_answer_at_once(
    scripted: ScriptedEngine,
) -> None:
    chat = session(scripted)
    scripted.takes = asyncio.Event()  # as while a model is read from the disk
    answer = chat.send("Go")
    await eventually(lambda: bool(scripted.requests))
    chat.cancel()
    assert answer is not None
    await ended(chat)
    assert answer.finished is not None
    assert answer.finished.stop.kind is StopKind.CANCELLED
    scripted.takes.set()
    await answered(chat, scripted, "Again")


@pytest.mark.parametrize("when", ["asked", "reading", "showing"])
async def test_an_unexpected_exception_ends_the_answer_as_an_error(
    scripted: ScriptedEngine, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    chat = session(scripted)
    if when == "asked":
        scripted.refusal = ZeroDivisionError("division by zero")
    answer = chat.send("Go")
    assert answer is not None
    if when != "asked":
        await eventually(lambda: bool(scripted.generations))
        scripted.say(TextDelta("so far"))
        await eventually(lambda: answer.text == "so far")
    if when == "reading":
        scripted.generations[0].listen(lambda batch: batch.index(END), hides_traces=False)
        scripted.say(TextDelta(", and no further"))
    elif when == "showing":
        scripted.say(TextDelta(12))  # type: ignore[arg-type]
    await ended(chat)
    assert answer.finished is not None
    assert answer.finished.stop.kind is StopKind.ERROR
    assert answer.finished.error == UNEXPECTED
    assert answer.text == ("" if when == "asked" else "so far")
    assert "unexpectedly" in caplog.text
    assert set(scripted.cancelled) == set(scripted.generations)


async def test_text_that_is_held_for_long_says_so_and_for_how_long(
    scripted: ScriptedEngine, theme: Theme
) -> None:
    def token(index: int, held: str) -> TokenTrace:
        return TokenTrace(index, 5, "EN", b"EN", Channel.TEXT, 0.1, 0, held, (2,))

    chat = session(scripted)
    answer = await begun(chat, scripted)
    scripted.say(TextDelta("a"), token(0, "EN"))
    await eventually(lambda: answer.text == "a")
    # A moment is nothing to speak of; on a slow machine more than that may have passed.
    assert answer.live.held == "" or answer.live.held_s >= HOLD_SHOWN_S
    await eventually(lambda: answer.live.held == "EN")
    assert answer.live.held_s >= HOLD_SHOWN_S
    view = AnswerView(ConversationMessage("assistant", run=answer), QButtonGroup())
    view.show()
    assert view.held.text().startswith("Holding “EN” (")
    scripted.say(TextDelta("ENx"), token(1, ""))
    await eventually(lambda: answer.live.held == "")
    view.refresh()
    assert not view.held.isVisible()
    scripted.say(END)
    await ended(chat)
    view.deleteLater()
