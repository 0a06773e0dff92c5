"""Text files with a message, and the count of its tokens while one writes."""

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from engine.scheduling.service import Engine
from tests.support.shown import main_window, shown
from tests.ui.driving import RunOnLoop, eventually
from ui.chat.composing.composer import Composer
from ui.kit.look.theme import Theme
from ui.records.attachments import (
    MOST_BYTES,
    Attachment,
    AttachmentRefused,
    read_attachment,
    with_attachments,
)
from ui.records.conversations import Conversation


@pytest.fixture
def composer(qtbot: QtBot, theme: Theme) -> Composer:
    made = Composer(theme)
    qtbot.addWidget(made)
    made.show()
    made.show_stage(is_ready=True, is_running=False, placeholder="")
    return made


def test_a_file_goes_in_front_of_the_message_in_a_fence_that_nothing_in_it_closes() -> None:
    said = with_attachments("Explain.", [Attachment("a.md", "```\nx\n```")])
    assert said == "a.md:\n````\n```\nx\n```\n````\n\nExplain."


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("p.png", b"\x89PNG\r\n\x1a\n\0\0", "p.png is not a text file"),
        ("z.txt", b"a\0b", "z.txt is not a text file"),
        ("e.txt", b" \n", "e.txt is empty"),
        ("big.txt", b"x" * (MOST_BYTES + 1), "up to 1 MB"),
    ],
)
def test_what_is_no_text_or_too_large_is_refused_in_words(
    tmp_path: Path, name: str, data: bytes, said: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(AttachmentRefused, match=said):
        read_attachment(path)


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "gone.txt"):
        with pytest.raises(AttachmentRefused, match="is not a readable file"):
            read_attachment(path)


def test_dropped_files_are_attached_sent_and_gone(
    qtbot: QtBot, composer: Composer, tmp_path: Path
) -> None:
    good, bad = tmp_path / "notes.txt", tmp_path / "p.png"
    good.write_bytes("é\r\n".encode("utf-8-sig"))
    bad.write_bytes(b"\x89PNG\0")
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(good)), QUrl.fromLocalFile(str(bad))])
    composer.input.insertFromMimeData(data)
    assert composer.attachments.files == (Attachment("notes.txt", "é\n"),)
    assert "p.png is not a text file" in composer.attachments.refusal.text()
    composer.set_text("Look")
    with qtbot.waitSignal(composer.submitted):
        composer.input.submitted.emit()
    assert [composer.message] == ["notes.txt:\n```\né\n```\n\nLook"]
    composer.clear()
    assert composer.message == ""
    assert not composer.attachments.isVisible()


def test_tokens_are_counted_while_one_writes(
    run: RunOnLoop, engine: Engine, theme: Theme, demo_model_path: Path
) -> None:
    async def steps() -> None:
        window = main_window(engine, theme)
        window.show()
        window.start(demo_model_path)
        await eventually(lambda: window.workspace.model.stage == "ready")
        text = "Count from 1 to 10"
        window.chat.composer.set_text(text)
        expected = len(await engine.tokenize(text))
        meter = window.chat.composer.meter
        await eventually(lambda: meter.text().startswith(f"{expected} tokens · "))
        assert "of the" in meter.accessibleName()
        window.chat.composer.set_text("word " * 20_000)
        await eventually(lambda: meter.text() == "Context full: shorten the message")
        window.chat.composer.clear()
        await eventually(lambda: meter.text() == "")
        window.quit()
        await window.finish()
        window.deleteLater()

    run(steps())


def test_attached_files_stay_with_their_conversation(
    run: RunOnLoop, engine: Engine, theme: Theme, tmp_path: Path
) -> None:
    note = tmp_path / "note.txt"
    note.write_text("words")

    async def steps() -> None:
        window = main_window(engine, theme)
        async with shown(window, quits=True):
            workspace, row = window.workspace, window.chat.composer.attachments
            first = workspace.current.conversation
            row.attach([note])
            row.attach([tmp_path / "missing.txt"])
            assert row.refusal.isVisible()
            workspace.new_conversation()
            second = workspace.current.conversation
            assert second is not first
            assert (row.files, row.refusal.isVisible()) == ((), False)
            assert workspace.send("Count from 1 to 3, one number per line")
            await eventually(lambda: not workspace.current.session.is_running)
            assert second.messages[0].text == "Count from 1 to 3, one number per line"
            workspace.open(first)
            assert [file.name for file in row.files] == ["note.txt"]
            window.chat.composer.action.click()
            assert first.messages[0].text.startswith("note.txt:")
            assert first.attachments == ()
            await eventually(lambda: not workspace.current.session.is_running)

    run(steps())


def test_send_is_off_with_the_reason_while_the_context_is_full(
    run: RunOnLoop, engine: Engine, theme: Theme
) -> None:
    async def steps() -> None:
        window = main_window(engine, theme)
        async with shown(window, quits=True):
            composer, workspace = window.chat.composer, window.workspace
            composer.set_text("word " * 20_000)
            await eventually(lambda: not composer.action.isEnabled())
            assert "Context full" in composer.meter.text()
            reason = composer.action.toolTip()
            assert reason.startswith("You cannot send now. With this message the conversation has ")
            assert "Shorten the message, or start a new conversation." in reason
            QTest.keyClick(composer.input, Qt.Key.Key_Return)
            assert not workspace.current.conversation.messages
            # Another conversation is not the full one, and a shorter message fits.
            full = workspace.current.conversation
            workspace.take_in(Conversation())
            composer.set_text("Hello")
            await eventually(lambda: "%" in composer.meter.text())
            assert composer.action.isEnabled()
            workspace.open(full)
            await eventually(lambda: not composer.action.isEnabled())
            composer.set_text("Count from 1 to 3, one number per line")
            await eventually(composer.action.isEnabled)
            composer.action.click()
            await eventually(lambda: not workspace.current.session.is_running)
            assert len(full.messages) == 2

    run(steps())
