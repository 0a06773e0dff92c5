"""Text files with a message, and the count of its tokens while one writes."""

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.engine import Engine
from tests.support.outside.documents import pdf
from tests.support.shown import main_window, shown
from tests.ui.driving import ScriptedEngine, eventually
from ui.chat.composer.attachments import FileChip
from ui.chat.composer.composer import Composer
from ui.kit.commands import Command
from ui.kit.dialogs import show_in_files_label
from ui.kit.theme import Theme
from ui.records.attachments import Attachment, PageRange


async def test_dropped_files_are_attached_sent_and_gone(
    qtbot: QtBot, composer: Composer, tmp_path: Path
) -> None:
    good, bad = tmp_path / "notes.txt", tmp_path / "p.png"
    good.write_bytes("é\r\n".encode("utf-8-sig"))
    bad.write_bytes(b"\x89PNG\r\n\x1a\n\0")
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(good)), QUrl.fromLocalFile(str(bad))])

    composer.input.insertFromMimeData(data)
    composer.set_text("Look")
    assert not composer.action.isEnabled()
    assert "still being read" in composer.action.toolTip()
    await eventually(lambda: not composer.attachments.is_reading)
    assert composer.action.isEnabled()
    assert composer.attachments.files == (Attachment("notes.txt", "é\n"),)
    assert "“p.png” cannot be attached: conversations are" in composer.attachments.refusal.text()
    composer.attachments.dismiss.click()
    assert composer.attachments.refusal.isHidden()
    with qtbot.waitSignal(composer.submitted):
        composer.input.submitted.emit()
    assert [composer.message] == ["notes.txt:\n```\né\n```\n\nLook"]
    composer.clear()
    assert composer.message == ""
    assert not composer.attachments.isVisible()


async def test_a_file_is_attached_wherever_it_is_dropped_in_the_chat(
    theme: Theme, scripted: ScriptedEngine, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("Some notes")
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(tmp_path / "notes.txt"))])
    details = Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton
    none = Qt.KeyboardModifier.NoModifier
    async with shown(main_window(scripted, theme), quits=True) as window:
        QApplication.sendEvent(window.chat, QDragEnterEvent(QPoint(9, 99), *details, none))
        QApplication.sendEvent(window.chat, QDropEvent(QPointF(9, 99), *details, none))
        attachments = window.chat.composer.attachments
        await eventually(lambda: attachments.files == (Attachment("notes.txt", "Some notes"),))


async def test_pages_are_chosen_in_the_preview_of_a_chip(
    composer: Composer, tmp_path: Path
) -> None:
    row = composer.attachments
    path = pdf(tmp_path / "r.pdf", ["one", "two", "three"])

    row.attach([path])
    await eventually(lambda: len(row.files) == 1)
    chip = row.chip(0)
    assert chip is not None
    assert chip.accessibleName() == "File r.pdf, 3 pages"
    QTest.keyClick(chip, Qt.Key.Key_Return)
    preview = row.preview
    assert preview.isVisible()
    image = preview.text.grab().toImage()
    middle = image.height() // 2
    assert image.pixelColor(0, middle) != image.pixelColor(3, middle), "the text has a frame"
    assert "two" in preview.text.toPlainText()
    preview.first.setValue(3)
    assert preview.text.toPlainText() == "[Page 3]\nthree"
    assert composer.message == "r.pdf (page 3 of 3):\n```\n[Page 3]\nthree\n```"
    preview.last.setValue(2)
    assert (preview.first.value(), preview.last.value()) == (2, 2)
    preview.first.setValue(1)
    assert row.files[0].pages == PageRange(1, 2, 3)
    preview.close_button.click()
    assert not preview.isVisible()
    chip = row.chip(0)
    assert chip is not None
    QTest.keyClick(chip, Qt.Key.Key_Backspace)
    assert (row.files, row.isVisible()) == ((), False)


async def test_attached_files_stay_with_their_conversation(
    engine: Engine, theme: Theme, tmp_path: Path
) -> None:
    note = tmp_path / "note.txt"
    note.write_text("words")
    window = main_window(engine, theme)
    async with shown(window, quits=True):
        workspace, row = window.workspace, window.chat.composer.attachments
        first = workspace.current.conversation
        row.attach([note, tmp_path / "missing.txt"])
        await eventually(row.refusal.isVisible)
        later = tmp_path / "later.txt"
        later.write_text("more")
        row.attach([later])
        workspace.new_conversation()
        second = workspace.current.conversation
        assert second is not first
        assert (row.files, row.refusal.isVisible()) == ((), False)
        assert workspace.send("Count from 1 to 3, one number per line")
        await eventually(lambda: not workspace.current.is_running)
        assert second.messages[0].text == "Count from 1 to 3, one number per line"
        # A file that was being read goes to the conversation that it was meant for.
        await eventually(lambda: len(first.attachments) == 2)
        workspace.open(first)
        assert [file.name for file in row.files] == ["note.txt", "later.txt"]
        window.chat.composer.action.click()
        await eventually(lambda: bool(first.messages))
        assert first.messages[0].text.startswith("note.txt:")
        assert first.attachments == ()
        await eventually(lambda: not workspace.current.is_running)


async def test_long_file_is_read_by_passages_whole_or_shortened(
    engine: Engine, theme: Theme, demo_model_path: Path
) -> None:
    large = Attachment("large.txt", "some words of a long book\n" * 12_000)
    window = main_window(engine, theme)
    async with shown(window, quits=True):
        window.start(demo_model_path)
        await eventually(lambda: window.workspace.models.stage == "ready")
        composer = window.chat.composer
        row = composer.attachments
        row.show_files([large], window.workspace.current.conversation)

        def shorten() -> bool:
            chip = row.chip(0)
            return chip is not None and chip.cut.isVisibleTo(chip)

        def read_all() -> bool:
            chip = row.chip(0)
            return chip is not None and chip.reading.isVisibleTo(chip)

        await eventually(read_all)
        chip = row.chip(0)
        assert chip is not None
        assert chip.reading.accessibleName() == "Read all of large.txt"
        assert "of 240 passages" in chip.accessibleName()
        assert "not all of it" in chip.accessibleDescription()
        assert composer.action.isEnabled()
        chip.reading.click()
        assert row.files[0].reading == "all"
        await eventually(shorten)
        chip = row.chip(0)
        assert chip is not None
        assert chip.reading.text() == "Passages"
        assert chip.cut.accessibleName() == "Shorten large.txt"
        chip.cut.click()
        [cut] = row.files
        assert cut.text == large.text
        assert cut.sent_chars is not None
        chip = row.chip(0)
        assert chip is not None
        assert "of 311,999 characters" in chip.accessibleName()
        assert f"the first {cut.sent_chars:,} of 312,000" in chip.accessibleDescription()
        await eventually(composer.action.isEnabled)
        said = composer.meter.accessibleName()
        assert said.startswith("This message has ")
        assert (
            int(said.split()[3].replace(",", ""))
            < window.workspace.models.status().info.context_length
        )  # type: ignore[union-attr]
        chip = row.chip(0)
        assert chip is not None
        assert chip.cut.text() == "Send All"
        chip.cut.click()
        assert row.files == (replace(large, reading="all"),)
        chip = row.chip(0)
        assert chip is not None
        chip.reading.click()
        assert row.files == (replace(large, reading="passages"),)


def test_a_long_paste_becomes_a_file_and_a_short_one_stays_text(composer: Composer) -> None:
    for text in ("short words", "x" * 9_000, "y" * 9_000):
        data = QMimeData()
        data.setText(text)
        composer.input.insertFromMimeData(data)
    assert composer.text == "short words"
    assert [file.name for file in composer.attachments.files] == ["Pasted text", "Pasted text 2"]
    assert composer.attachments.files[1].text == "y" * 9_000


async def test_refusals_of_a_batch_stay_beside_its_chips(
    theme: Theme, scripted: ScriptedEngine, tmp_path: Path
) -> None:
    good = tmp_path / "notes.txt"
    good.write_text("Some notes")
    bad = [tmp_path / "a.bin", tmp_path / "b.bin"]
    for file in bad:
        file.write_bytes(bytes(range(256)))
    async with shown(main_window(scripted, theme), quits=True) as window:
        row = window.chat.composer.attachments
        row.attach((bad[0], good, bad[1]))
        await eventually(lambda: not row.is_reading)
        opened = window.workspace.current
        window.chat.message_sender.show_draft(opened)
        assert [file.name for file in row.files] == ["notes.txt"]
        assert row.refusal.text() == "“a.bin” and “b.bin” can’t be attached."
        reasons = row.refusal.accessibleName()
        assert [line.split(" ")[0] for line in reasons.splitlines()] == ["“a.bin”", "“b.bin”"]
        assert "pictures" in reasons
        row.clear()
        assert row.refusal.text() == ""


def labels(chip: FileChip | None) -> list[str]:
    assert chip is not None
    return [entry.label for entry in chip.entries() if isinstance(entry, Command)]


async def test_chip_menu_opens_copies_and_removes_its_file(composer: Composer) -> None:
    row = composer.attachments
    row.add(Attachment("notes.txt", "Some notes"))
    assert labels(row.chip(0)) == ["Open", "Copy Text", "Remove"]
    chip = row.chip(0)
    assert chip is not None
    copy, remove = (e for e in chip.entries()[1:] if isinstance(e, Command))
    copy.run()
    assert QApplication.clipboard().text() == "Some notes"
    remove.run()
    assert row.files == ()


async def test_chip_menu_of_a_picture_leads_to_its_file(composer: Composer, tmp_path: Path) -> None:
    row = composer.attachments
    row.pictures_folder = tmp_path
    row.add_picture(QImage(8, 8, QImage.Format.Format_RGB32))
    await eventually(lambda: len(row.files) == 1)
    in_folder = show_in_files_label()
    assert labels(row.chip(0)) == ["Open", in_folder, "Copy Path", "Remove"]
