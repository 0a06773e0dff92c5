"""Pictures in the composer and in the chat: attached, shown, and read by a model that sees."""

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from engine.library.local_models import FoundModel, Origin
from engine.library.memory_need import Fit
from engine.values.events import TextDelta
from engine.values.request import PICTURE_MARK, Message, Picture, ToolCall
from tests.support.memory_store import MemoryConversationStore
from tests.support.shown import main_window, shown
from tests.ui.driving import END, MODEL, ScriptedEngine, eventually
from ui.chat.composer.attachments import AttachedFile
from ui.chat.composer.pictures import PictureDialog
from ui.chat.messages.question_view import QuestionView
from ui.kit.theme import Theme
from ui.models.model_library import LibraryModel
from ui.records.attachments import kept_as
from ui.records.messages import ConversationMessage
from ui.records.requests import turns_of
from ui.records.runs import Run
from ui.records.tool_calls import CallResult
from ui.window.main_window import MainWindow


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(MemoryConversationStore, "pictures_folder", tmp_path / "pictures")
    return tmp_path / "pictures"


def red(width: int = 96, height: int = 64) -> QImage:
    image = QImage(width, height, QImage.Format.Format_RGB32)
    image.fill(0xFF0000)
    return image


def paste(window: MainWindow, *files: Path) -> None:
    data = QMimeData()
    if files:
        data.setUrls([QUrl.fromLocalFile(str(file)) for file in files])
    else:
        data.setImageData(red())
    window.chat.composer.input.insertFromMimeData(data)


async def ask(window: MainWindow, scripted: ScriptedEngine, text: str) -> tuple[Message, ...]:
    """Send what is in the composer with a text; return the messages that the engine got."""
    composer, count = window.chat.composer, len(scripted.generations)
    composer.set_text(text)
    await eventually(composer.action.isEnabled)
    composer.action.click()
    await eventually(lambda: len(scripted.generations) > count)
    scripted.say(TextDelta("Red."), END)
    await eventually(lambda: not window.workspace.current.is_running)
    return scripted.requests[-1].messages


async def test_pasted_and_dropped_pictures_reach_a_model_that_sees_in_each_turn(
    theme: Theme, scripted: ScriptedEngine, folder: Path, tmp_path: Path
) -> None:
    scripted.model = replace(MODEL, can_see=True)
    assert red().save(str(tmp_path / "a.png"))
    assert red().save(str(tmp_path / "b.tiff"))
    (tmp_path / "notes.txt").write_text("Notes")
    async with shown(main_window(scripted, theme), quits=True) as window:
        row = window.chat.composer.attachments
        paste(window)
        assert row.is_reading, "it cannot be sent without the picture"
        await eventually(lambda: len(row.files) == 1)

        def caption() -> str:
            chip = row.chip(0)
            return "" if chip is None else chip.accessibleName()

        await eventually(lambda: caption() == "File Picture.png, picture · 1 token")
        [question] = await ask(window, scripted, "What is it?")
        [pasted] = question.pictures
        assert (question.content, row.files) == (f"{PICTURE_MARK}What is it?", ())

        paste(window, tmp_path / "a.png", tmp_path / "notes.txt", tmp_path / "b.tiff")
        await eventually(lambda: len(row.files) == 3)
        first, _, second = await ask(window, scripted, "And these?")
        assert first == question
        assert second.content.startswith(f"{PICTURE_MARK * 2}notes.txt:")
        assert second.pictures[0].data == (tmp_path / "a.png").read_bytes()
        assert second.pictures[1].data.startswith(b"\x89PNG")
        messages = window.workspace.current.conversation.messages
        named = {file.kept_file for message in messages for file in message.pictures}
        assert named == {file.name for file in folder.iterdir()}

        scripted.model = MODEL
        unseen = await ask(window, scripted, "Go on")
    assert pasted.data.startswith(b"\x89PNG")
    assert not any(message.pictures for message in unseen)
    assert "a picture, which you cannot see" in unseen[0].content


async def test_damaged_pictures_are_refused_in_words(
    theme: Theme, scripted: ScriptedEngine, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "p.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    async with shown(main_window(scripted, theme), quits=True) as window:
        row = window.chat.composer.attachments
        paste(window, tmp_path / "p.png")
        await eventually(lambda: not row.is_reading)
        assert "“p.png” is an image that cannot be read: it is damaged" in row.refusal.text()
        row.pictures_folder = None
        paste(window)
        await eventually(lambda: "Picture.png" in row.refusal.text())
        assert "conversations are not being saved" in row.refusal.accessibleName()
    assert not folder.exists()


async def test_a_picture_of_a_question_is_shown_large_by_a_click(
    theme: Theme, scripted: ScriptedEngine, folder: Path
) -> None:
    async with shown(main_window(scripted, theme), quits=True) as window:
        paste(window)
        row = window.chat.composer.attachments
        await eventually(lambda: len(row.files) == 1)
        await ask(window, scripted, "Look")
        [view] = window.findChildren(QuestionView)
        [file] = view.bubble.files
        await eventually(lambda: file.picture is not None)
        assert file.picture is not None
        assert file.picture.accessibleName() == "Picture Picture.png"
        await eventually(lambda: file.chip.name.x() == 1)
        file.picture.click()
        dialogs = [w for w in QApplication.topLevelWidgets() if isinstance(w, PictureDialog)]
        [dialog] = dialogs
        await eventually(lambda: "96 × 64 pixels" in dialog.picture.accessibleName())
        dialog.copy.click()
        assert QApplication.clipboard().image().size() == red().size()
        QTest.keyClick(dialog, Qt.Key.Key_Escape)
        assert not dialog.isVisible()


async def test_a_text_model_is_named_before_a_picture_is_sent_and_one_that_sees_offered(
    theme: Theme, scripted: ScriptedEngine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shown(main_window(scripted, theme), quits=True) as window:
        library, notice = window.workspace.library, window.chat.picture_notice
        paste(window)
        await eventually(notice.isVisible)
        assert notice.caption.text().startswith(
            "scripted reads text only; it gets a note in place of the picture. Qwen3-VL"
        )
        assert not notice.use.isVisible()
        offer = window.chat.welcome.offer
        offer.show()
        window.chat.layout().activate()
        assert notice.y() == offer.geometry().bottom() + 1 + 8
        found = FoundModel("Qwen3-VL", Path("/models/vl"), Origin.FOLDER, can_see=True)
        library.local = [LibraryModel(found, found.folder, None, Fit.FITS, used_at=0.0)]
        library.changed.emit()
        assert notice.use.text() == "Use Qwen3-VL"
        chosen: list[Path] = []
        monkeypatch.setattr(window.workspace.model_selection, "choose", chosen.append)
        notice.use.click()
        assert chosen == [Path("/models/vl")]
        scripted.model = replace(MODEL, vision_problem="pictures need mlx-vlm")
        library.changed.emit()
        assert "reads text only: pictures need mlx-vlm;" in notice.caption.text()
        [question] = await ask(window, scripted, "Look")
        assert "a picture, which you cannot see" in question.content
        assert not notice.isVisible()
        window.chat.composer.set_text("And now?")
        assert notice.isVisible(), "the earlier picture is not seen, either"


def test_a_tools_picture_replaces_its_note_for_a_model_that_sees() -> None:
    call = ToolCall("c", "shot", "{}")
    picture = kept_as("shot 1.png", f"{'0' * 32}.png")
    text = "before [image image/png, 70 bytes] after"
    run = Run(tool_calls=[call], results=[CallResult("c", "done", text, pictures=(picture,))])
    answer = ConversationMessage("assistant", run=run)
    shown = {picture.kept_file: Picture(b"png")}
    assert turns_of([answer], shown)[1].content == f"before {PICTURE_MARK} after"
    unseen = "before [image image/png, 70 bytes, which the model cannot see] after"
    assert turns_of([answer])[1].content == unseen


async def test_picture_is_scaled_in_narrow_bubble(theme: Theme, tmp_path: Path) -> None:
    path = tmp_path / f"{32 * 'a'}.png"
    assert red(900, 600).save(str(path))
    file = AttachedFile(kept_as("wide.png", path.name))
    file.show_picture(tmp_path)
    await eventually(lambda: file.picture is not None)
    assert file.picture is not None
    whole = file.picture.iconSize()
    for width in (whole.width() // 2, whole.width() + 100):
        file.fit(width)
        size = file.picture.iconSize()
        assert size.width() == min(width - 2, whole.width())
        assert abs(size.width() * whole.height() - size.height() * whole.width()) <= whole.width()
