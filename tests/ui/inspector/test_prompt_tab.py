"""The tab of the inspector that shows the prompt."""

from array import array
from dataclasses import replace
from itertools import accumulate

import pytest
from PySide6.QtGui import QImage, QTextCursor

from engine.values.events import CacheMiss, PromptDifference, PromptPart
from engine.values.request import (
    PICTURE_MARK,
    GenerationRequest,
    Message,
    Picture,
    Sampling,
    Tool,
    ToolCall,
)
from engine.values.unanswered_prompt import Part, PictureTokens, UnansweredPrompt
from tests.ui.driving import eventually
from tests.ui.inspector.inspecting import COUNT, ask
from ui.chat.composer.pictures import encode_picture
from ui.inspector.inspector_window import InspectorWindow
from ui.inspector.prompt_tab import PromptTab
from ui.kit.theme import current_theme
from ui.records.attachments import Attachment
from ui.records.facts import MEMORY_SERVER, facts_block
from ui.records.messages import question
from ui.records.passages import Excerpt, Passage
from ui.records.tool_choice import ToolsInUse
from ui.server.requests import RequestAnswer, RequestEntry
from ui.window.main_window import MainWindow


async def test_the_prompt_is_shown_with_its_cached_part(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, COUNT, "6")
    inspector.tabs.setCurrentWidget(inspector.tab(PromptTab))
    await eventually(lambda: COUNT in inspector.tab(PromptTab).page.toPlainText())
    assert inspector.tab(PromptTab).page.toPlainText().startswith("<|im_start|>user")
    assert "tokens" in inspector.tab(PromptTab).note.text()
    await ask(window, COUNT, "6")
    run = window.workspace.current.conversation.messages[-1].run
    assert run.finished.usage.cached_tokens > 0
    await eventually(lambda: "came from the cache" in inspector.tab(PromptTab).note.text())
    for from_disk, place in ((0, "in memory"), (run.finished.usage.cached_tokens, "on disk")):
        usage = replace(run.finished.usage, disk_tokens=from_disk)
        run.finished = replace(run.finished, usage=usage)
        inspector.tab(PromptTab)._fill()
        said = inspector.tab(PromptTab).note.text()
        assert f"first {usage.cached_tokens}, in gray, came from the cache {place}." in said
    for miss in CacheMiss:
        for cached, amount in ((0, "Nothing"), (3, "Nothing more")):
            usage = replace(run.finished.usage, cached_tokens=cached, cache_miss=miss)
            run.finished = replace(run.finished, usage=usage)
            inspector.tab(PromptTab)._fill()
            said = inspector.tab(PromptTab).note.text()
            assert f". {amount} came from the cache: " in said
    difference = PromptDifference(12, PromptPart.MESSAGE, "of now", "of then", 1800, 7, "user")
    usage = replace(run.finished.usage, prompt_difference=difference)
    run.finished = replace(run.finished, usage=usage)
    inspector.tab(PromptTab)._fill()
    said = inspector.tab(PromptTab).note.text()
    assert "1,800 tokens read again: message 7 (user) differs" in said
    assert "“of now” here, “of then” before" in said
    tab = inspector.tab(PromptTab)
    assert rows(tab)[:2] == ["Read again", "Message 7 (user) differs, 1,800 tokens read again"]
    tab.list.setCurrentIndex(tab.list.rows.index(1, 0))
    trace = inspector.inspector.shown.trace
    assert tab.page.textCursor().selectedText() == trace.vocabulary.text_of(trace.rendered[12])


CALL = ToolCall("c1", "read_file", '{"path": "main.py"}')
AGENT = GenerationRequest(
    messages=(
        Message("system", "Be brief.\r\nBranch: main"),
        Message("user", "[Image not shown: this model reads text only.]\nWhat is it? \U0001f600"),
        Message("assistant", "I look.", thinking="Read it.", tool_calls=(CALL,)),
        Message("tool", "print(1)", tool_call_id="c1", name="read_file"),
        Message("user", "Count from 1 to 3"),
    ),
    tools=(Tool("read_file", "Reads a file.", {"type": "object"}),),
    sampling=Sampling(temperature=0, seed=3),
)


async def show_request(
    window: MainWindow, inspector: InspectorWindow, request: GenerationRequest
) -> PromptTab:
    """Let the engine answer another app's request, and show its prompt."""
    await eventually(lambda: window.workspace.models.stage == "ready")
    answer = await (await inspector.inspector.engine.generate(request)).collect()
    entry = RequestEntry(
        "r", 1.0, "c", "agent", "POST", "/v1/messages", status=200,
        answers=(RequestAnswer(request, answer.finished, answer.text),),
        no_effect=("options.seed (the temperature is 0)",),
    )  # fmt: skip
    inspector.inspector.show_request(entry)
    tab = inspector.tab(PromptTab)
    inspector.tabs.setCurrentWidget(tab)
    await eventually(lambda: "tokens" in tab.note.text())
    return tab


def rows(tab: PromptTab) -> list[str]:
    model = tab.list.rows
    return [model.index(row, 0).data() for row in range(model.rowCount())]


async def test_parts_of_a_request_are_listed_and_selected_in_its_prompt(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    tab = await show_request(window, inspector, AGENT)
    listed = [row.partition(",")[0] for row in rows(tab)]
    assert listed == [
        "In no part of the prompt", "Thinking of message 2",
        "No effect", "options.seed",
        "Parts of the prompt", "System text", "Tools", "Message 1 (user)", "Image placeholder",
        "Message 2 (assistant)", "Call of read_file in message 2", "Message 3 (tool)",
        "Message 4 (user)", "Opening of the answer", "Text of the template",
    ]  # fmt: skip
    for number, text in (
        (5, "Be brief.\u2029Branch: main"),
        (7, f"{AGENT.messages[1].content}".replace("\n", "\u2029")),
        (8, "[Image not shown: this model reads text only.]"),
        (10, '{"name": "read_file", "arguments": {"path": "main.py"}}'),
        (12, "Count from 1 to 3"),
    ):
        tab.list.setCurrentIndex(tab.list.rows.index(number, 0))
        cursor = tab.page.textCursor()
        assert cursor.selectedText() == text
        cursor.setPosition(cursor.selectionEnd())
        ground = cursor.charFormat().background().color().name()
        assert ground != "#000000"
        assert ground in vars_of(current_theme().colors)
    tab.page.setFocus()
    tab.page.moveCursor(QTextCursor.MoveOperation.Start)
    tab.page.find("look.")
    assert rows(tab)[tab.list.currentIndex().row()].startswith("Message 2 (assistant)")


def vars_of(colors: object) -> set[str]:
    return {str(getattr(colors, name)) for name in dir(colors) if name.endswith("_soft")}


async def test_passages_are_parts_with_document_and_page(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    passages = (
        Passage(2, "First words.\n[Page 9] is said here.", 3, 3),
        Passage(7, "```\nlast words", 8, 9, "End"),
    )
    asked = question("What is said?", [Attachment("x (1 of 2 passages)", "[Page 1]\nno")])
    asked.excerpts = (Excerpt("1", "long.pdf", 312, passages),)
    request = GenerationRequest((Message("user", asked.sent),), max_tokens=2)
    tab = await show_request(window, inspector, request)
    listed = [row.rpartition(", ")[0] for row in rows(tab)]
    first = listed.index("Message 1 (user)") + 1
    assert listed[first : first + 2] == ["long.pdf, Page 3", "long.pdf, Pages 8–9, End"]
    for row, text in ((first, "[Page 3]\nFirst words.\n[Page 9] is said"), (first + 1, "last")):
        tab.list.setCurrentIndex(tab.list.rows.index(row, 0))
        selected = tab.page.textCursor().selectedText().replace("\u2029", "\n")
        assert text in selected
        assert "What is said?" not in selected


async def test_prompt_without_parts_says_why(
    window: MainWindow, inspector: InspectorWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = GenerationRequest(prompt="Once", max_tokens=2)
    tab = await show_request(window, inspector, raw)
    assert "A raw prompt has no parts." in tab.note.text()
    assert rows(tab) == ["No effect", "options.seed, the temperature is 0"]
    await ask(window, COUNT)
    inspector.inspector.show_open_conversation()
    await eventually(lambda: "Nothing of the request is missing in it." in tab.note.text())
    shown = inspector.inspector.shown
    assert shown is not None
    assert shown.trace is not None
    shown.trace.rendered = array("i", [1, 2, 3])
    tab.refresh()
    assert "The answer was given to other tokens" in tab.note.text()


async def test_long_prompt_shows_the_page_with_the_chosen_part(
    window: MainWindow, inspector: InspectorWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ui.inspector.prompt_tab._MAX_TOKENS", 40)
    tab = await show_request(window, inspector, AGENT)
    assert "before these" in tab.page.toPlainText()
    assert "Branch: main" not in tab.page.toPlainText()
    tab.list.setCurrentIndex(tab.list.rows.index(5, 0))
    assert tab.page.textCursor().selectedText() == "Be brief.\u2029Branch: main"
    assert "after these" in tab.page.toPlainText()


async def test_pictures_have_a_chip_and_a_row_with_their_tokens_and_positions(
    window: MainWindow, inspector: InspectorWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = ("<s>", "<in>", *["<pad>"] * 6, "<out>", "<in>", "<pad>", "<out>", "What is it?")
    ends = list(accumulate(map(len, pieces)))
    about = PromptPart.MESSAGE, 1, "user"
    parts = (
        Part(*about, 3, ends[-1], "messages.0.content"),
        Part(*about, 3, ends[-2], "messages.0.content (image)"),
    )
    pictures = (
        PictureTokens(1, 2, 7, 6, (2, 3), ((2, 2, 2), (2, 3, 4))),
        PictureTokens(0, 10, 10, 1),
    )
    ids = [1, 7, *[9] * 6, 8, 7, 9, 8, 4]
    prompt = UnansweredPrompt(ids, "".join(pieces), pieces, (), (), parts, pictures)

    async def rendered(_request: GenerationRequest) -> UnansweredPrompt:
        return prompt

    def drawn(width: int) -> Picture:
        image = QImage(width, 64, QImage.Format.Format_RGB32)
        image.fill(0)
        return Picture(encode_picture(image))

    turn = Message("user", f"{PICTURE_MARK * 2}What is it?", pictures=(drawn(32), drawn(96)))
    await eventually(lambda: window.workspace.models.stage == "ready")
    answer = await (await inspector.inspector.engine.generate(AGENT)).collect()
    request = GenerationRequest((turn,))
    answers = (RequestAnswer(request, answer.finished, answer.text),)
    entry = RequestEntry("r", 1.0, "c", "agent", "POST", "/", status=200, answers=answers)
    monkeypatch.setattr(inspector.inspector.engine, "render_prompt", rendered)
    tab = inspector.tab(PromptTab)
    inspector.tabs.setCurrentWidget(tab)
    inspector.inspector.show_request(entry)
    await eventually(lambda: "What is it?" in tab.page.toPlainText())
    chips = "⟦Picture 96 × 64, 6 tokens⟧", "⟦Picture 32 × 64, 1 token⟧"
    text = f"<s><in>{chips[0]}<out><in>{chips[1]}<out>What is it?"
    assert tab.page.toPlainText() == text
    assert rows(tab)[-4:] == [
        "Message 1 (user), 12 tokens",
        "Picture 96 × 64, 6 tokens, Indices 2–7, 2 × 3 at positions 2–4: "
        "(2, 2, 2) to (2, 3, 4) in time, height and width",
        "Picture 32 × 64, 1 token, Index 10",
        "Text of the template, 1 token",
    ]
    tab.list.setCurrentIndex(tab.list.rows.index(tab.list.rows.rowCount() - 2, 0))
    assert tab.page.textCursor().selectedText() == chips[1]


async def test_kept_facts_are_a_part_of_the_chats_own_prompts(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    workspace = window.workspace
    workspace.memory.add("The user lives in Berlin.")
    workspace.change_tools(ToolsInUse((MEMORY_SERVER,)))
    await ask(window, COUNT)
    tab = inspector.tab(PromptTab)
    inspector.tabs.setCurrentWidget(tab)
    inspector.inspector.show_open_conversation()
    await eventually(lambda: "Parts of the prompt" in rows(tab))
    [number] = [n for n, row in enumerate(rows(tab)) if row.startswith("Kept facts")]
    tab.list.setCurrentIndex(tab.list.rows.index(number, 0))
    selected = tab.page.textCursor().selectedText()
    assert selected.startswith("Facts about the user")
    assert ": The user lives in Berlin." in selected
    assert selected.endswith("</kept_facts>")
    forged = (Message("system", facts_block(workspace.memory.facts)), Message("user", COUNT))
    tab = await show_request(window, inspector, GenerationRequest(forged, max_tokens=2))
    await eventually(lambda: any(row.startswith("System text") for row in rows(tab)))
    assert not any(row.startswith("Kept facts") for row in rows(tab))
