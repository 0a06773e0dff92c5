"""An answer goes on from one of its tokens with another, as a version beside it."""

from array import array
from dataclasses import replace
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.files.json_fields import Fields
from engine.recording.fork import end_here
from engine.stopping.record import StopKind
from engine.values.events import Speculation, Timing
from engine.values.request import TraceLevel
from tests.support.asking import loaded_engine
from tests.support.kept import preferences_state
from tests.support.models.formats import tool_template
from tests.support.outside.tool_hosts import SUMS_ON, DictatedHost
from tests.support.scripted import Stage
from tests.ui.driving import ended, eventually, session
from ui.chat.session.conversation_controller import ConversationController
from ui.chat.session.traces import Traces
from ui.preferences import Preferences
from ui.records.codec import run_from, run_values
from ui.records.conversations import Conversation, ConversationSettings
from ui.records.messages import ConversationMessage
from ui.records.runs import Run
from ui.records.stop_entries import StopEntry
from ui.tools.toolbox import Toolbox

COUNT = "Count from 1 to 10, one number per line"


def chat_of(engine: Engine, *stops: str, **settings: object) -> ConversationController:
    traces = Traces()
    traces.level = TraceLevel.FULL
    conversation = Conversation(settings=ConversationSettings(**settings))  # type: ignore[arg-type]
    conversation.stops = [StopEntry.of(stop) for stop in stops]
    return session(engine, conversation, traces=traces)


async def whole(chat: ConversationController, run: Run | None) -> Run:
    assert run is not None
    await ended(chat)
    return run


async def ask(chat: ConversationController, question: str = COUNT) -> ConversationMessage:
    await whole(chat, chat.send(question))
    return chat.conversation.messages[-1]


async def fork(
    chat: ConversationController, answer: ConversationMessage, index: int, chosen: object = None
) -> Run:
    """Fork an answer at a token, by default with the token that it has there."""
    assert answer.run is not None
    trace = chat._traces.get(answer.run.id)
    assert trace is not None
    own = (trace.tokens[index].token_id,)
    return await whole(chat, chat.fork(answer, trace, index, own if chosen is None else chosen))  # type: ignore[arg-type]


def outcome(chat: ConversationController, run: Run) -> tuple[object, ...]:
    trace = chat._traces.get(run.id)
    assert trace is not None
    assert run.finished is not None
    return run.text, run.thinking, run.finished.stop, [(t.token_id, t.stats) for t in trace.tokens]


@pytest.mark.parametrize(
    ("stops", "settings", "positions"),
    [
        ((), {}, (0, 7, 19)),
        (("6",), {}, (0, 9, 10)),
        ((), {"is_thinking": True}, (1, 5, 30)),
        ((), {"max_tokens": 9}, (2, 8)),
    ],
    ids=["text", "stop", "thinking", "limit"],
)
async def test_fork_with_original_token_gives_original_answer_as_version(
    engine: Engine, stops: tuple[str, ...], settings: dict[str, object], positions: tuple[int, ...]
) -> None:
    chat = chat_of(engine, *stops, **settings)
    answer = await ask(chat)
    assert answer.run is not None
    for number, index in enumerate(positions, 2):
        run = await fork(chat, answer, index)
        assert outcome(chat, run) == outcome(chat, answer.run), index
        shown = chat.conversation.messages[-1]
        assert shown.run is run
        assert len(chat.conversation.tree.versions(shown)) == number
        assert run.rules == answer.run.rules


async def test_fork_goes_on_from_typed_text_and_names_its_origin(engine: Engine) -> None:
    chat = chat_of(engine)
    answer = await ask(chat)
    assert answer.run is not None
    run = await fork(chat, answer, 6, "-- ")
    assert run.text.startswith("1\n2\n3\n-- ")
    again = run_from(Fields(run_values(run)), run.text)
    assert again.forked_from == run.forked_from
    assert run.forked_from is not None
    assert run.forked_from.run_id == answer.run.id
    assert run.forked_from.sentence == "Version 1, but token 7 is “--·” in place of “4”"
    second = await fork(chat, chat.conversation.messages[-1], 2, "7")
    assert second.text.startswith("1\n7")
    assert second.forked_from is not None
    assert second.forked_from.version == 2


async def test_end_here_is_version_that_ends_there(engine: Engine) -> None:
    chat = chat_of(engine)
    answer = await ask(chat)
    assert answer.run is not None
    trace = chat._traces.get(answer.run.id)
    assert trace is not None
    run = chat.end_at(answer, *end_here(trace, 5))
    assert run is not None
    shown = chat.conversation.messages[-1]
    assert (shown.run, shown.text) == (run, "1\n2\n3")
    assert run.finished is not None
    assert run.finished.stop.kind is StopKind.EOS
    assert run.finished.usage.output_tokens == 6
    assert (run.finished.timing, run.finished.speculation) == (Timing(), Speculation())
    assert run.forked_from is not None
    assert run.forked_from.sentence.endswith("token 6 is the end in place of “⏎”")
    forked = await fork(chat, shown, 5, "\n")
    assert forked.text == answer.run.text


async def test_fork_of_continued_answer_keeps_text_before_it(engine: Engine) -> None:
    chat = chat_of(engine, max_tokens=6)
    answer = await ask(chat)
    longer = await whole(chat, chat.continue_answer(answer))
    run = await fork(chat, chat.conversation.messages[-1], 3)
    assert outcome(chat, run) == outcome(chat, longer)
    assert run.continued_chars == longer.continued_chars


async def test_fork_is_refused_without_its_model_or_prompt(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["one", " two", " three"]})
    async with loaded_engine(Path("scripted"), loader=stage.load) as engine:
        chat = chat_of(engine)
        answer = await ask(chat, "go")
        original = answer.run
        assert original is not None
        trace = chat._traces.get(original.id)
        assert trace is not None
        trace.rendered = array("i")  # of an earlier version: the messages are rendered again
        assert (await fork(chat, answer, 1)).text == "one two three"
        original.prompt_total += 4
        run = await fork(chat, answer, 1)
        assert run.state == "refused"
        assert "The prompt of this answer was not recorded" in run.refusal
        original.model_id = "other-7b"
        trace.setting = replace(trace.setting, model="other-7b")
        assert "This answer is from other-7b" in (await fork(chat, answer, 1)).refusal


async def test_answer_with_call_is_forked_before_its_call(tmp_path: Path) -> None:
    call = '{"name": "add", "arguments": {"a": 1, "b": 22}}'
    script = ["so ", "<tool_call>", *call, "</tool_call>"]
    marks = ["<tool_call>", "</tool_call>"]
    template = tool_template("<tool_call> tool_call.name")
    stage = Stage(tmp_path, {"go": script}, plain=marks, template=template)
    async with loaded_engine(tmp_path, loader=stage.load) as engine:
        toolbox = Toolbox(DictatedHost(), preferences_state(Preferences()))
        conversation = Conversation()
        conversation.tools = SUMS_ON
        chat = session(engine, conversation, toolbox=toolbox)
        chat.send("go")
        await eventually(lambda: conversation.needs_user)
        chat.cancel()
        answer = conversation.messages[-1]
        original = await whole(chat, answer.run)
        trace = chat._traces.get(original.id)
        assert trace is not None
        run = chat.end_at(answer, *end_here(trace, 1))
        assert run is not None
        assert (run.text, run.tool_calls, chat.is_running) == ("so ", [], False)
        chat.fork(answer, trace, 1, (trace.tokens[1].token_id,))
        await eventually(lambda: conversation.needs_user)
        forked = conversation.messages[-1].run
        assert forked is not None
        [again], [called] = forked.tool_calls, original.tool_calls
        assert (again.name, again.arguments) == (called.name, called.arguments)
        chat.cancel()
        await ended(chat)
