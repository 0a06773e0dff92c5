"""A long document goes with a question by the passages that it is about, and says so."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

from engine.engine import Engine
from tests.support.outside.manual import manual_pages
from tests.support.shown import main_window, shown
from tests.ui.driving import eventually
from ui.chat.messages.question_view import QuestionView, question_lines
from ui.kit.theme import Theme
from ui.records.attachments import Attachment, PageRange, text_of_pages
from ui.records.conversations import ChosenModel

CONTEXT = 4096
PAGES = manual_pages()
MANUAL = Attachment(
    "manual.pdf", text_of_pages(PAGES, 1, len(PAGES)), PageRange(1, len(PAGES), len(PAGES))
)


def small_model(demo_model_path: Path, folder: Path) -> Path:
    """Return a copy of the demo model whose context is small, so that a prompt is read fast."""
    shutil.copytree(demo_model_path, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": CONTEXT}))
    return folder


async def test_questions_get_passages_with_pages_and_cards_show_them(
    engine: Engine, theme: Theme, demo_model_path: Path, tmp_path: Path
) -> None:
    window = main_window(engine, theme)
    async with shown(window, quits=True):
        folder = small_model(demo_model_path, tmp_path / "small")
        window.start(folder)
        workspace = window.workspace

        def is_ready() -> bool:
            info = workspace.models.status().info
            return info is not None and info.context_length == CONTEXT

        await eventually(is_ready)
        current = workspace.current
        current.conversation.model = ChosenModel.of(folder)
        current.conversation.settings = replace(current.conversation.settings, max_tokens=8)

        async def ask(text: str, files: tuple[Attachment, ...] = ()) -> str:
            run = current.send(text, files)
            assert run is not None
            await eventually(lambda: run.is_over and not current.is_busy)
            trace = workspace.traces.get(run.id)
            assert trace is not None
            assert trace.request is not None
            return "\n".join(message.content for message in trace.request.messages)

        sent = await ask("When is __del__ called?", (MANUAL,))
        first, answer = current.conversation.messages
        [excerpt] = first.excerpts
        assert 0 < len(excerpt.passages) < excerpt.total
        assert not excerpt.is_spread
        assert f"manual.pdf ({excerpt.extent}):\n```\n[Page " in sent
        assert "Called when the instance is about to be destroyed" in sent
        assert len(sent) < len(MANUAL.text) / 2
        assert first.files[0].text.strip() == MANUAL.text.strip(), "the document stays whole"

        def view(number: int) -> QuestionView:
            [found] = [
                each
                for each in window.findChildren(QuestionView)
                if each.message is current.conversation.messages[number]
            ]
            return found

        [card] = view(0).files
        assert excerpt.sentence in card.chip.accessibleName()
        card.chip.button.click()
        assert card.text_view is not None
        assert "about to be destroyed" in card.text_view.toPlainText()
        assert card.text_view.toPlainText().startswith("[Page ")
        assert any("about to be destroyed" in line for line in question_lines(first))

        sent = await ask("And what does __new__ do to create a new instance of the class?")
        third = current.conversation.messages[2]
        assert third.excerpts[0].document == excerpt.document
        assert "about to be destroyed" not in sent.split("(Passages of it")[0]
        assert "(Passages of it are with the last question.)" in sent
        assert "Called to create a new instance of class" in " ".join(sent.split())
        [followed] = view(2).files
        assert "manual.pdf" in followed.chip.accessibleName()
        assert third.excerpts[0].sentence in followed.chip.accessibleName()

        card.chip.reading.click()
        assert first.files[0].reading == "all"
        assert card.chip.reading.text() == "Passages"
        assert card.text_view.toPlainText().startswith("[Page 1]"), "all of the text is shown"
        assert excerpt.sentence in card.chip.accessibleName(), "these were read so far"
        run = current.regenerate(answer)
        assert run is not None
        await eventually(lambda: run.is_over and not current.is_busy)
        assert first.excerpts == ()
        assert first.sent_chars, "all of it has no room, so that it is shortened"
