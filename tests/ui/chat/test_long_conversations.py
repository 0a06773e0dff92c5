"""A conversation that is longer than the model's context goes on, and says what is not sent."""

from itertools import pairwise
from pathlib import Path

from app.store.conversation_store import open_store
from engine.stopping.record import StopKind
from engine.values.events import TextDelta
from tests.support.asking import loaded_engine
from tests.support.scripted import Stage
from tests.ui.driving import END, ScriptedEngine, answered, begun, ended, eventually, session
from ui.chat.messages.question_view import QuestionView
from ui.records.conversations import Conversation, ConversationSettings
from ui.records.messages import ConversationMessage
from ui.records.runs import Run
from ui.window.main_window import MainWindow

CONTEXT = 2_048


def asked(number: int) -> str:
    return f"What is the number of question {number}?"


async def test_a_hundred_turns_in_a_context_of_2048_tokens_are_all_answered(
    tmp_path: Path,
) -> None:
    scripts = {asked(n): [f"It is {n}.", " That was easy."] for n in range(100)}
    stage = Stage(tmp_path, scripts, context=CONTEXT)
    conversation = Conversation(settings=ConversationSettings("Be brief."))
    async with loaded_engine(Path("scripted"), loader=stage.load) as engine:
        chat = session(engine, conversation)
        chat._context.planner.when_full = "leave_out"
        for number in range(100):
            run = chat.send(asked(number))
            assert run is not None
            if number == 0:
                conversation.messages[0].is_pinned = True
            await ended(chat)
            assert (run.state, run.text) == ("finished", f"It is {number}. That was easy.")
            assert run.prompt_total < CONTEXT * 0.9
        runs = [message.run for message in conversation.messages if message.run is not None]
        cached = [run.prompt_cached / run.prompt_total for run in runs[60:]]
        left_out = runs[-1].left_out
        assert left_out is not None
        assert left_out.sentence == f"{left_out.messages} earlier messages not included"
        assert runs[0].left_out is None
        begins = sum(run.left_out != before.left_out for before, run in pairwise(runs))
        assert begins < 20, "the prompt begins with the same messages for several questions"
        assert sum(share > 0.5 for share in cached) > len(cached) * 0.6
        request = chat._traces.get(runs[-1].id)
        assert request is not None
        assert request.request is not None
        told = [message.content for message in request.request.messages]
        assert told[:3] == ["Be brief.", asked(0), "It is 0. That was easy."]
        assert told[-1] == asked(99)


def long_talk(turns: int = 10, size: int = 400) -> Conversation:
    """Return a conversation of so many turns; the scripted model's context holds 4,096 letters."""
    conversation = Conversation("Talk")
    for number in range(turns):
        conversation.add(ConversationMessage("user", f"{number} {'q' * size}"))
        run = Run(text=f"{number} {'a' * size}", state="finished", finished=END)
        conversation.add(ConversationMessage("assistant", run.text, run))
    return conversation


async def summarized(scripted: ScriptedEngine, summary: str) -> None:
    """Answer all requests for summaries, up to the one for the answer itself."""
    while "Summarize the conversation" in scripted.requests[-1].messages[0].content:
        count = len(scripted.generations)
        scripted.say(TextDelta(summary), END)
        await eventually(lambda count=count: len(scripted.generations) > count)


async def test_a_summary_is_made_before_the_answer_and_goes_with_later_ones(
    scripted: ScriptedEngine, tmp_path: Path
) -> None:
    store = await open_store(tmp_path / "conversations.db")
    conversation = long_talk()
    conversation.when_full = "summarize"
    store.save(conversation)
    store.save_messages(conversation, list(conversation.tree))
    chat = session(scripted, conversation, store)
    run = await begun(chat, scripted)
    assert run.live.summarizing.startswith("Summarizing ")
    assert "Summarize the conversation below" in scripted.requests[0].messages[0].content
    await summarized(scripted, "They counted.")
    assert run.left_out is not None
    assert run.left_out.is_summarized
    parts = len(scripted.requests) - 1
    assert parts > 1, "what is left out is longer than a prompt may be"
    assert "What came before:\nThey counted." in scripted.requests[1].messages[0].content
    first = scripted.requests[-1].messages[0].content
    assert first.startswith("(Summary of our conversation before this message:\nThey counted.)")
    scripted.say(END)
    await ended(chat)
    await begun(chat, scripted, "And now?")
    assert len(scripted.requests) == parts + 2, "the summary is not made again"
    assert "They counted." in scripted.requests[-1].messages[0].content
    scripted.say(END)
    await ended(chat)
    await store.aclose()
    store = await open_store(tmp_path / "conversations.db")
    [again] = store.conversations()
    await store.fill(again)
    await store.aclose()
    boundary = again.messages[run.left_out.until]
    assert (boundary.summary, again.when_full) == ("They counted.", "summarize")
    last = again.messages[-1].run
    assert last is not None
    assert last.left_out == run.left_out


async def test_stop_ends_an_answer_whose_summary_is_being_made(scripted: ScriptedEngine) -> None:
    conversation = long_talk()
    conversation.when_full = "summarize"
    chat = session(scripted, conversation)
    run = await begun(chat, scripted)
    chat.cancel()
    await ended(chat)
    assert scripted.cancelled == scripted.generations[:1]
    assert run.finished is not None
    assert run.finished.stop.kind is StopKind.CANCELLED
    assert not any(message.summary for message in conversation.tree)


def line_views(window: MainWindow) -> list[QuestionView]:
    views = window.chat.column.views
    return [view for view in views if isinstance(view, QuestionView) and view.prompt_line]


async def test_a_line_says_where_the_prompt_begins_until_all_is_sent_again(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    workspace, bar = window.workspace, window.chat.context_bar
    conversation = long_talk()
    workspace.take_in(conversation)
    window.chat.composer.set_text("Go")
    await eventually(bar.isVisible)
    assert "too long for this model:" in bar.caption.text()
    assert not bar.buttons["leave_out"].isVisibleTo(bar)
    await answered(window, scripted)
    left_out = conversation.messages[-1].run.left_out  # type: ignore[union-attr]
    assert left_out is not None
    boundary = conversation.messages[left_out.until]
    window.chat.column.go_to_message(boundary)
    [view] = line_views(window)
    assert view.message is boundary
    assert view.prompt_line is not None
    assert view.prompt_line.caption.text() == left_out.sentence
    view.prompt_line.send_all.click()
    assert conversation.when_full == "ask"
    assert line_views(window) == []
    window.chat.composer.set_text("And now?")
    await eventually(lambda: not window.chat.composer.action.isEnabled())
    assert bar.caption.text().endswith("tokens too long for this model.")
    bar.buttons["leave_out"].click()
    await eventually(window.chat.composer.action.isEnabled)


async def test_a_pinned_message_goes_with_every_question_and_says_so(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    workspace = window.workspace
    conversation = long_talk()
    workspace.take_in(conversation)
    pinned = conversation.messages[2]
    window.chat.column.go_to_message(pinned)
    view = window.chat.column.question_view(pinned)
    assert view is not None
    commands = filter(None, window.chat.handling.entries(view))
    next(command for command in commands if command.label == "Pin").trigger()
    assert pinned.is_pinned
    view = window.chat.column.question_view(pinned)
    assert view is not None
    assert view.pinned.isVisibleTo(view)
    await answered(window, scripted)
    assert pinned.text in [message.content for message in scripted.requests[-1].messages]
    view = window.chat.column.question_view(pinned)
    assert view is not None
    view.pinned.click()
    assert not pinned.is_pinned
