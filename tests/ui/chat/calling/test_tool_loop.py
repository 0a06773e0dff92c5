"""The loop of calls: asked, allowed, denied, stopped, limited, and told to the model."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.files.json_fields import Fields
from engine.stopping.record import StopKind
from engine.values.request import PICTURE_MARK, ToolCall
from tests.support.memory_store import MemoryConversationStore
from tests.support.outside.tool_hosts import ADD, SUMS_ON
from tests.ui.chat.calling.talking import Talk, adding, ended
from tests.ui.driving import MODEL, ScriptedEngine, eventually
from tests.ui.driving import ended as is_over
from ui.chat.messages.tool_cards import call_state
from ui.chat.session.conversation_controller import ConversationController
from ui.records.attachments import Attachment
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage, question
from ui.records.pictures import keep_picture
from ui.records.runs import Run
from ui.records.tool_calls import CallResult, Decision, result_from, result_values
from ui.records.tool_choice import approval_of

ONCE = Decision("once")


async def test_an_allowed_call_is_run_and_the_model_goes_on_with_its_result(
    scripted: ScriptedEngine,
) -> None:
    async with Talk(scripted) as talk:
        running: list[bool] = []
        talk.session.is_running_changed.connect(running.append)
        talk.session.send("What is 2 + 3?")
        await talk.asked(1)
        [tool] = scripted.requests[0].tools
        assert (tool.name, tool.parameters) == ("add", ADD.parameters)
        talk.call(adding(2, 3))
        await talk.waits_for_person()
        assert talk.host.calls == []
        assert talk.session.is_running
        talk.session.reply("call-2-3", ONCE)
        await talk.asked(2)
        question, called, result = scripted.requests[1].messages
        assert (question.role, called.tool_calls) == ("user", (adding(2, 3),))
        assert (result.role, result.content, result.tool_call_id, result.name) == (
            "tool", "5", "call-2-3", "add",
        )  # fmt: skip
        await talk.ends("It is 5.")
    assert [message.role for message in talk.conversation.messages] == ["user"] + ["assistant"] * 2
    assert talk.run.text == "It is 5."
    assert running[-1] is False
    assert running.count(False) == 1


async def test_a_denied_call_is_not_run_and_the_model_sees_the_reason(
    scripted: ScriptedEngine,
) -> None:
    async with Talk(scripted) as talk:
        await talk.asks_for(adding(1, 1))
        talk.session.reply("call-1-1", Decision("denied", "I can do that myself."))
        await talk.asked(2)
    assert talk.host.calls == []
    assert scripted.requests[1].messages[-1].content == (
        "The user did not allow this call. Reason: I can do that myself."
    )


async def test_a_tool_allowed_for_the_conversation_is_not_asked_about_there_again(
    scripted: ScriptedEngine,
) -> None:
    async with Talk(scripted) as talk:
        await talk.asks_for(adding(1, 1))
        talk.session.reply("call-1-1", Decision("conversation"))
        await talk.asked(2)
        talk.call(adding(2, 2))
        await talk.asked(3)
    assert len(talk.host.calls) == 2
    assert talk.conversation.tools.approved == (approval_of(ADD),)
    assert talk.preferences.now.tools.allowed == ()


async def test_allowed_always_asks_no_more_until_the_tool_changes_or_it_is_taken_back(
    scripted: ScriptedEngine,
) -> None:
    async with Talk(scripted, allowed=(("sums", "add", "an earlier tool of that name"),)) as talk:
        await talk.asks_for(adding(1, 1))
        talk.session.reply("call-1-1", Decision("always"))
        await talk.asked(2)
        assert talk.preferences.now.tools.allowed == (approval_of(ADD),)
        talk.call(adding(2, 2))
        await talk.asked(3)
        talk.preferences.change_value("tools.allowed", ())
        talk.call(adding(3, 3))
        await talk.waits_for_person()
        await talk.preferences.finish()
    assert len(talk.host.calls) == 2


async def test_the_loop_pauses_at_the_limit_and_goes_on_when_the_person_says_so(
    scripted: ScriptedEngine,
) -> None:
    async with Talk(scripted, most_calls=2, allowed=(approval_of(ADD),)) as talk:
        await talk.begins(adding(1, 1), adding(2, 2), adding(3, 3))
        await is_over(talk.session)
        assert talk.run.paused_at == 2
        assert len(talk.host.calls) == 2
        assert talk.session.continue_calls(talk.conversation.messages[-1])
        await talk.asked(2)
        assert len(talk.host.calls) == 3
        talk.call(adding(4, 4), adding(5, 5))
        await is_over(talk.session)
        assert len(talk.host.calls) == 4


async def test_paused_calls_are_not_continued_after_another_question(
    scripted: ScriptedEngine,
) -> None:
    async with Talk(scripted, most_calls=1, allowed=(approval_of(ADD),)) as talk:
        await talk.begins(adding(1, 1), adding(2, 2))
        await is_over(talk.session)
        paused = talk.conversation.messages[-1]
        assert talk.run.paused_at == 1
        talk.session.send("Something else.")
        await talk.asked(2)
        await talk.ends("Yes.")
        assert not talk.session.continue_calls(paused)
        assert paused.run is not None
        assert paused.run.paused_at == 0
        assert len(talk.conversation.messages) == 4


async def test_interrupted_calls_run_on_request(
    scripted: ScriptedEngine,
) -> None:
    cut = Run(state="finished", tool_calls=[adding(1, 1)], finished=ended(StopKind.TOOL_CALL))
    asked = Conversation("", [question("Add."), ConversationMessage("assistant", "", cut)])
    async with Talk(scripted, asked) as talk:
        talk.conversation.tools = SUMS_ON.with_approval(approval_of(ADD))
        assert call_state(cut, "call-1-1")[0] == "Not run yet"
        assert talk.host.calls == talk.host.ready_for == []
        assert talk.session.continue_calls(talk.conversation.messages[-1])
        await talk.asked(1)
        assert talk.host.ready_for[0] == ("sums",)
        assert scripted.requests[0].messages[-1].content == "2"
        await talk.ends("It is 2.")
    assert not cut.live.is_cut_off


async def test_stop_ends_the_running_call_and_the_loop(scripted: ScriptedEngine) -> None:
    async with Talk(scripted) as talk:
        talk.host.answers = asyncio.Event()
        await talk.asks_for(adding(1, 1), adding(2, 2))
        talk.session.reply("call-1-1", ONCE)
        await eventually(lambda: talk.host.calls != [])
        await eventually(lambda: any(one.done == 1 for one in talk.run.live.progress.values()))
        talk.session.cancel()
        await is_over(talk.session)
    assert talk.host.cancelled == 1
    assert [one.state for one in talk.run.results] == ["cancelled"] * 2
    assert len(scripted.requests) == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (adding(1, 1, "subtract"), "There is no tool called subtract. The tools are: add."),
        (ToolCall("c", "add", '{"a": '), "The arguments are not a JSON object."),
    ],
)
async def test_a_call_that_cannot_be_run_is_told_to_the_model(
    scripted: ScriptedEngine, call: ToolCall, words: str
) -> None:
    async with Talk(scripted) as talk:
        await talk.begins(call)
        await talk.asked(2)
    assert scripted.requests[1].messages[-1].content.startswith(words)


async def test_the_pictures_of_a_result_are_kept_with_the_call(
    scripted: ScriptedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryConversationStore, "pictures_folder", tmp_path / "pictures")
    assert scripted.model is not None
    scripted.model = replace(scripted.model, can_see=True)
    async with Talk(scripted, allowed=[approval_of(ADD)]) as talk:
        talk.host.pictures = (b"\x89PNG\r\n\x1a\n1", b"GIF89a2")
        await talk.begins(adding(1, 2))
        await talk.asked(2)
        await talk.ends("Drawn.")
        result = scripted.requests[1].messages[-1]
        assert result.content.endswith(PICTURE_MARK * 2)
        assert tuple(picture.data for picture in result.pictures) == talk.host.pictures
    message = next(one for one in talk.conversation.messages if one.run and one.run.results)
    assert message.run is not None
    first, second = message.run.results[0].pictures
    assert (first.name, second.name) == ("add 1.png", "add 2.gif")
    assert (tmp_path / "pictures" / first.kept_file).read_bytes() == talk.host.pictures[0]
    assert message.pictures == (first, second)
    values = result_values(message.run.results[0])
    assert result_from(Fields(values)) == message.run.results[0]
    assert "pictures" not in result_values(CallResult("c", "done", "3"))


async def test_a_finished_call_keeps_its_result_when_stopped_while_its_pictures_are_saved(
    scripted: ScriptedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryConversationStore, "pictures_folder", tmp_path / "pictures")
    is_writing, may_write = threading.Event(), threading.Event()

    def write(*arguments: Any) -> Attachment:
        is_writing.set()
        may_write.wait(30)
        return keep_picture(*arguments)

    monkeypatch.setattr("ui.chat.session.tool_loop.keep_picture", write)
    async with Talk(scripted, allowed=[approval_of(ADD)]) as talk:
        talk.host.pictures = (b"GIF89a2",)
        await talk.begins(adding(1, 2), adding(3, 4))
        await eventually(is_writing.is_set)
        talk.session.cancel()
        may_write.set()
        await is_over(talk.session)
        saved, stopped = talk.run.results
    assert (saved.state, saved.text) == ("done", "3")
    assert [picture.name for picture in saved.pictures] == ["add 1.gif"]
    assert (stopped.state, len(talk.host.calls)) == ("cancelled", 1)


async def test_a_server_that_fails_is_named_and_the_answer_goes_on(
    scripted: ScriptedEngine,
) -> None:
    async with Talk(scripted) as talk:
        talk.host.refusal = "The MCP server “sums” stopped: it ended with code 1."
        talk.conversation.tools = SUMS_ON.with_approval(approval_of(ADD))
        await talk.begins(adding(1, 1))
        await talk.asked(2)
        await talk.ends("I cannot.")
    assert scripted.requests[1].messages[-1].content == talk.host.refusal
    assert talk.run.text == "I cannot."


async def test_without_tools_nothing_is_started_and_calls_stay_as_they_are(
    scripted: ScriptedEngine,
) -> None:
    async with Talk(scripted) as talk:
        talk.conversation.tools = talk.conversation.tools.with_server("sums", False)
        await talk.begins(adding(1, 1))
        await is_over(talk.session)
    assert scripted.requests[0].tools == ()
    assert talk.host.ready_for == []
    assert talk.run.results == []


async def test_model_without_tool_calls_starts_no_server(
    scripted: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = replace(MODEL, can_call_tools=False)
    monkeypatch.setattr(ConversationController, "_model", property(lambda self: model))
    async with Talk(scripted) as talk:
        talk.session.send("Add.")
        await talk.asked(1)
        assert talk.host.ready_for == []
        await talk.ends("I cannot.")


async def test_tool_result_longer_than_the_context_is_cut_for_the_model_only(
    scripted: ScriptedEngine,
) -> None:
    async with Talk(scripted, allowed=(approval_of(ADD),), most_result_kb=16_000) as talk:
        talk.host.text = "a line of text\n" * 350_000  # 5 MB; the context holds 4,096 tokens
        await talk.begins(adding(1, 1))
        await talk.asked(2)
        await talk.ends("Read.")
        talk.session.send("And now?")
        await talk.asked(3)
        await talk.ends("Still here.")
    first, later = (scripted.requests[n].messages[2] for n in (1, 2))
    [result] = talk.conversation.messages[1].run.results
    assert len(result.text) == 5_250_000
    assert first.content == later.content == result.sent
    assert 2_000 < len(result.sent) < 4_096 * 3 // 4
    assert f"the first {result.sent_chars:,} of 5,250,000" in result.sent
