"""Text files with a message, and the count of its tokens while one writes."""

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QUrl
from pytestqt.qtbot import QtBot

from engine.service import Engine
from tests.ui.driving import RunOnLoop, eventually
from ui.main_window import MainWindow
from ui.panels.composer import Composer
from ui.theme import Theme
from ui.viewmodels.attachments import (
    MOST_BYTES,
    Attachment,
    AttachmentRefused,
    read_attachment,
    with_attachments,
)


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
        with pytest.raises(AttachmentRefused, match="is not a file that can be read"):
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
    with qtbot.waitSignal(composer.submitted) as sent:
        composer.input.submitted.emit()
    assert sent.args == ["notes.txt:\n```\né\n```\n\nLook"]
    composer.clear()
    assert composer.message == ""
    assert not composer.attachments.isVisible()


def test_tokens_are_counted_while_one_writes(
    run: RunOnLoop, engine: Engine, theme: Theme, demo_model_path: Path
) -> None:
    async def steps() -> None:
        window = MainWindow(engine, theme)
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
        await eventually(lambda: meter.text() == "Too long for the context")
        window.chat.composer.clear()
        await eventually(lambda: meter.text() == "")
        window.quit()
        await window.finish()
        window.deleteLater()

    run(steps())
