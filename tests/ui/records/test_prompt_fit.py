"""Which messages go into a prompt that has no room for all of them."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.values.request import GenerationRequest, ToolCall
from ui.records.attachments import Attachment, Reading
from ui.records.conversations import WhenFull
from ui.records.messages import ConversationMessage, chained, question
from ui.records.passages import Document, Found, IndexedDocument, Passage
from ui.records.prompt_fit import PromptFit, TokenCounter, exchanges, fitted_prompt, last_left_out
from ui.records.requests import prompt_messages, turns_of
from ui.records.runs import LeftOut, Run
from ui.records.tool_calls import CallResult

CONTEXT = 1_000
# As a template's marks around each message.
MARKS = 4


class CharacterCounter(TokenCounter):
    """One token a character, also of calls' arguments; the context's length as a lower bound."""

    def __init__(self) -> None: ...

    @property
    def context(self) -> int:
        return CONTEXT

    async def prompt(self, request: GenerationRequest) -> int:
        calls = (call.arguments for one in request.messages for call in one.tool_calls)
        return sum(len(one.content) + MARKS for one in request.messages) + sum(map(len, calls))

    async def text(self, text: str) -> int:
        return len(text)


COUNTER = CharacterCounter()


def fitted(
    path: Sequence[ConversationMessage],
    system: str = "",
    when_full: WhenFull = "leave_out",
    before: LeftOut | None = None,
    uncut: str = "",
) -> PromptFit:
    def make(messages: Sequence[ConversationMessage], first: str) -> GenerationRequest:
        summarized = first if when_full == "summarize" else ""
        return GenerationRequest(prompt_messages(messages, system, summarized=summarized))

    return asyncio.run(fitted_prompt(path, path, make, COUNTER, when_full, before, uncut))


def make_plain(messages: Sequence[ConversationMessage], _first: str) -> GenerationRequest:
    return GenerationRequest(prompt_messages(messages))


def size_of(fit: PromptFit) -> int:
    return sum(len(one.content) + MARKS for one in fit.request.messages)


def answer(text: str, *results: str) -> ConversationMessage:
    calls = [ToolCall(f"call {n}", "look", "{}") for n, _ in enumerate(results)]
    told = [CallResult(call.id, "done", text) for call, text in zip(calls, results, strict=True)]
    return ConversationMessage("assistant", text, Run(text=text, tool_calls=calls, results=told))


def talk(*sizes: int) -> list[ConversationMessage]:
    """Return questions and answers of so many characters each; the last question has no answer."""
    messages: list[ConversationMessage] = []
    for number, size in enumerate(sizes):
        messages.append(question("q" * size))
        if number < len(sizes) - 1:
            messages.append(answer("a" * size))
    return list(chained(messages))


@st.composite
def conversations(draw: st.DrawFn) -> list[ConversationMessage]:
    """Return a conversation with answers, calls and pins in any order, up to its last question."""
    texts = st.integers(1, 300).map(lambda size: "x" * size)
    messages: list[ConversationMessage] = []
    for _ in range(draw(st.integers(0, 12))):
        is_pinned = draw(st.integers(0, 9)) == 0
        messages.append(replace(question(draw(texts)), is_pinned=is_pinned))
        for _ in range(draw(st.integers(0, 2))):
            messages.append(answer(draw(texts), *draw(st.lists(texts, max_size=2))))
    messages.append(question(draw(texts)))
    return list(chained(messages))


@given(conversations(), st.integers(0, 200), st.sampled_from(get_args(WhenFull)))
def test_what_must_go_goes_in_order_and_the_prompt_fits_if_that_is_possible(
    path: list[ConversationMessage], system: int, when_full: WhenFull
) -> None:
    fit = fitted(path, "s" * system, when_full)
    sent = [message.id for message in fit.messages]
    ids = [message.id for message in path]
    assert sent == [one for one in ids if one in sent], "the order is kept"
    groups = exchanges(path)
    for group in groups:
        assert len({one.id in sent for one in group}) == 1, "an exchange goes whole, or not at all"
    must = [group for group in groups[:-1] if any(one.is_pinned for one in group)]
    for group in [*must, groups[-1]]:
        assert all(one.id in sent for one in group), "pinned ones and the last one always go"
    least = prompt_messages([m for group in [*must, groups[-1]] for m in group], "s" * system)
    needed = sum(len(one.content) + MARKS for one in least)
    if when_full != "ask" and needed < CONTEXT * 0.9:
        assert size_of(fit) < CONTEXT
    left_out = len(path) - len(sent)
    assert (fit.left_out.messages if fit.left_out else 0) == left_out
    if fit.left_out is not None:
        assert all(one.id in sent for one in path[fit.left_out.until :])


@given(conversations())
def test_no_result_goes_without_its_call_and_no_call_without_its_results(
    path: list[ConversationMessage],
) -> None:
    called: list[str] = []
    for turn in turns_of(list(fitted(path).messages)):
        if turn.role == "tool":
            assert turn.tool_call_id == called.pop(0)
        else:
            assert not called
            called = [call.id for call in turn.tool_calls]
    assert not called


@given(conversations())
def test_all_goes_where_all_fits(path: list[ConversationMessage]) -> None:
    fit = fitted(path)
    whole = sum(len(one.content) + MARKS for one in prompt_messages(path))
    if whole <= CONTEXT * 0.9:
        assert fit.left_out is None
        assert not fit.cuts
        assert [one.id for one in fit.messages] == [one.id for one in path]


def test_long_conversation_keeps_its_prompt_prefix() -> None:
    path: list[ConversationMessage] = []
    begins: list[str] = []
    for number in range(100):
        path.append(question(f"question {number}".ljust(30)))
        chained_path = list(chained(path))
        fit = fitted(chained_path, "Be brief.", before=last_left_out(path))
        assert size_of(fit) < CONTEXT * 0.9
        begins.append(fit.messages[0].id)
        path.append(answer(f"answer {number}".ljust(30)))
        run = path[-1].run
        assert run is not None
        run.left_out = fit.left_out
    changes = sum(one != other for one, other in pairwise(begins))
    assert 0 < changes <= 30, "the prompt begins elsewhere for one question in three at most"


def test_what_was_left_out_comes_back_with_a_longer_context() -> None:
    path = talk(*[100] * 8)
    fit = fitted(path)
    assert fit.left_out is not None
    elsewhere = replace(fit.left_out, until=13, messages=13, context=CONTEXT // 2)
    assert fitted(path, before=elsewhere).left_out == fit.left_out


def test_asking_first_leaves_nothing_out_and_says_by_how_much_it_is_too_long() -> None:
    path = talk(*[100] * 8)
    fit = fitted(path, when_full="ask")
    assert (fit.left_out, fit.messages) == (None, tuple(path))
    assert fit.total == 15 * (100 + MARKS)


def test_a_summary_goes_instead_of_what_is_left_out_and_only_then() -> None:
    path = talk(*[100] * 8)
    first = fitted(path, when_full="summarize").left_out
    assert first is not None
    assert not first.is_summarized
    path[first.until].summary = "They counted."
    fit = fitted(path, when_full="summarize", before=first)
    assert fit.left_out == replace(first, is_summarized=True)
    assert "They counted." in fit.request.messages[0].content
    assert fit.request.messages[0].content.endswith("q" * 100)
    assert "They counted." not in fitted(path, before=first).request.messages[0].content


def test_long_files_and_results_of_the_last_exchange_are_cut() -> None:
    files = (Attachment("short.txt", "few words\n"), Attachment("long.txt", "line\n" * 4_000))
    path = list(chained([question("Read.", files), answer("", "found " * 2_000, "short")]))
    fit = fitted(path)
    assert size_of(fit) < CONTEXT * 0.9
    assert fit.left_out is None
    assert set(fit.cuts) == {(path[0].id, 1), (path[1].id, 0)}
    asked = fit.request.messages[0].content
    assert "few words" in asked
    assert f"[Cut: the first {fit.cuts[path[0].id, 1]:,} of 20,000 characters.]" in asked
    assert asked.endswith("Read.")
    assert path[0].sent_chars == (), "the messages themselves stay as they are"


def test_files_that_a_person_decides_about_stay_whole() -> None:
    path = [question("Read.", [Attachment("long.txt", "line\n" * 4_000)])]
    fit = fitted(path, uncut=path[0].id)
    assert not fit.cuts
    assert fit.is_lower_bound
    assert fit.tokens is not None
    assert fit.tokens >= CONTEXT


@pytest.mark.parametrize("size", [895, 950, 990])
def test_a_question_that_hardly_fits_goes_alone(size: int) -> None:
    fit = fitted(talk(100, 100, size))
    assert [len(one.text) for one in fit.messages] == [size]
    assert fit.left_out == LeftOut(4, 4, CONTEXT)


def test_arguments_of_calls_count_without_tools() -> None:
    called = answer("", "wrote it")
    assert called.run is not None
    called.run.tool_calls = [ToolCall("call 0", "write", "x" * 900)]

    path = list(chained([question("Write."), called, question("And now?")]))
    fit = asyncio.run(fitted_prompt(path, path, make_plain, COUNTER))
    assert fit.left_out == LeftOut(2, 2, CONTEXT)


# -- documents that are read by passages -----------------------------------------------------

DOCUMENT = " ".join(f"w{n}" for n in range(500))


async def find(documents: Sequence[Document], questions: Sequence[str]) -> Found:
    """Return passages of 100 characters; the question ends with the number of the best one."""
    best = int(questions[-1].split()[-1])
    indexed = [IndexedDocument(0, document.id, document.name, 20) for document in documents]
    ranked = [
        (document.id, Passage((best + n) % 20, f"{best + n:02}" * 50))
        for n in range(20)
        for document in documents
    ]
    return Found(indexed, ranked)


def searched(path: Sequence[ConversationMessage]) -> PromptFit:
    return asyncio.run(fitted_prompt(path, path, make_plain, COUNTER, find=find))


def asked(text: str, reading: Reading = "", content: str = DOCUMENT) -> ConversationMessage:
    return question(text, [Attachment("d.txt", content, reading=reading)])


def test_document_that_fits_goes_whole_or_by_chosen_passages() -> None:
    fit = searched([asked("which 3", content="short " * 20)])
    assert fit.excerpts == ()
    assert "short short" in fit.request.messages[0].content
    fit = searched([asked("which 3", "passages", content="short " * 20)])
    assert fit.excerpts is not None
    assert fit.excerpts[0].total == 20
    assert "short short" not in fit.request.messages[0].content


def test_long_document_goes_by_passages_in_reading_order() -> None:
    path = [asked("which 17")]
    fit = searched(path)
    [excerpt] = fit.excerpts or ()
    numbers = [passage.number for passage in excerpt.passages]
    assert numbers == sorted(numbers)
    assert {17, 18, 19} <= set(numbers), "the best ones"
    assert CONTEXT * 0.4 < size_of(fit) < CONTEXT * 0.7, "as many as have room"
    assert not fit.cuts
    assert DOCUMENT in path[0].text, "the message stays as it is"
    assert path[0].excerpts == ()


def test_read_all_is_cut_and_not_searched() -> None:
    fit = searched([asked("which 17", "all")])
    assert fit.excerpts == ()
    assert fit.cuts


def test_later_question_replaces_the_earlier_passages() -> None:
    first = asked("which 3")
    first.excerpts = searched([first]).excerpts or ()
    path = list(chained([first, answer("a"), question("which 9")]))
    fit = searched(path)
    contents = [message.content for message in fit.request.messages]
    assert "0303" not in contents[0]
    assert "Passages of it are with the last question" in contents[0]
    assert "0909" in contents[2]
    assert fit.left_out is None
    calls = answer("b", "result")
    path[2].excerpts = fit.excerpts or ()
    going_on = searched(list(chained([*path, calls])))
    assert going_on.excerpts is None, "the passages of a question stay while it is answered"
    assert going_on.request.messages[2].content == contents[2]


def test_old_exchanges_make_room_for_passages() -> None:
    talked = talk(*[150] * 5)[:-1]
    path = list(chained([*talked, asked("which 5")]))
    fit = searched(path)
    assert fit.excerpts
    assert len(fit.excerpts[0].passages) >= 2
    assert fit.left_out is not None
    assert size_of(fit) < CONTEXT * 0.9
