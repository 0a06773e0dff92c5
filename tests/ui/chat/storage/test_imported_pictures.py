"""Pictures of other programs' archives are kept with their questions, as long as these are."""

import base64
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication, QMessageBox
from pytestqt.qtbot import QtBot

from app.store.conversation_store import SqliteConversationStore, open_store
from tests.support.outside.tool_hosts import no_tools
from tests.support.shown import SilentServer
from tests.ui.chat.storage.conftest import Use, every
from tests.ui.driving import RunOnLoop, ScriptedEngine
from ui.chat.messages.question_view import QuestionView
from ui.chat.session.workspace import Workspace
from ui.chat.storage.conversation_imports import ImportPreview
from ui.kit.look.theme import Theme
from ui.kit.system.links import ask_about_picture
from ui.records.attachments import kept_picture
from ui.records.conversations import Conversation
from ui.records.exchange import archived_pictures
from ui.records.exchange.archived_pictures import ArchivedPictures
from ui.records.messages import question
from ui.records.sending.turns import turns_of

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
JPEG = b"\xff\xd8\xff\xe0" + b"j" * 900


def asked(name: str, *ids: str) -> dict[str, Any]:
    """Return a conversation of ChatGPT whose question has pictures."""
    parts = [{"content_type": "image_asset_pointer", "asset_pointer": one} for one in ids]
    message = {
        "author": {"role": "user"},
        "content": {"content_type": "multimodal_text", "parts": [*parts, "What is this?"]},
        "metadata": {"attachments": [{"id": "file-AbCdEfGh", "name": "../../cat.png"}]},
    }
    return {"conversation_id": name, "title": name, "mapping": {"q": {"message": message}}}


def chatgpt(path: Path) -> Path:
    conversations = [
        asked("cat", "file-service://file-AbCdEfGh", "sediment://file_0000dog"),
        asked("cat again", "file-service://file-AbCdEfGh"),
        asked("none", "file-service://file-IsNoPict", "file-service://file-TooLarge"),
        asked("unwanted", "file-service://file-Unwanted"),
    ]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps(conversations))
        archive.writestr("file-AbCdEfGh-../../cat.png", b"no picture of that name")
        archive.writestr("file-AbCdEfGh-cat.png", PNG)
        archive.writestr("user-1/file_0000dog-dog.dat", JPEG)
        archive.writestr("file-IsNoPict-x.png", b"<svg onload=alert(1)>" * 9)
        archive.writestr("file-TooLarge-x.png", PNG + bytes(10 << 20))
        archive.writestr("file-Unwanted-x.png", PNG + b"unwanted")
    return path


def kept(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.iterdir()} if folder.exists() else {}


def jan(folder: Path) -> Path:
    url = "data:image/png;base64," + base64.b64encode(PNG).decode()
    content = [
        {"type": "text", "text": {"value": "Look"}},
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
    thread = folder / "threads" / "t-1"
    thread.mkdir(parents=True)
    (thread / "thread.json").write_text(json.dumps({"id": "t-1", "title": "One"}))
    (thread / "messages.jsonl").write_text(json.dumps({"role": "user", "content": content}))
    return folder


def lm_studio(folder: Path) -> Path:
    piece = {"type": "file", "fileIdentifier": "1727 - cat.png", "fileType": "image"}
    gone = {"type": "file", "fileIdentifier": "gone.png", "fileType": "image"}
    version = {"role": "user", "content": [piece, gone, {"type": "text", "text": "Look"}]}
    (folder / "conversations").mkdir(parents=True)
    (folder / "user-files").mkdir()
    (folder / "user-files" / "1727 - cat.png").write_bytes(PNG)
    (folder / "conversations" / "1.conversation.json").write_text(
        json.dumps({"name": "One", "messages": [{"versions": [version]}]})
    )
    return folder


async def looked_into(workspace: Workspace, path: Path) -> ImportPreview:
    looked: list[ImportPreview] = []
    workspace.files.imports.looked.connect(looked.append)
    workspace.files.imports.look_into(path)
    await workspace.files.finish()
    (preview,) = looked
    return preview


async def take(workspace: Workspace, preview: ImportPreview, *titles: str) -> str:
    """Import conversations of a file; return what is said at the end."""
    said: list[str] = []
    workspace.files.transfers.ended.connect(said.append)
    wanted = [one for one in preview.new if not titles or one.title in titles]
    workspace.files.imports.take(preview, wanted)
    await workspace.files.finish()
    return said[-1]


async def titled(workspace: Workspace, title: str) -> Conversation:
    (one,) = (one for one in every(workspace) if one.title == title)
    await workspace.store.fill(one)
    return one


def test_pictures_come_in_with_their_questions_and_leave_with_the_last_of_them(
    use: Use, run: RunOnLoop, scripted: ScriptedEngine, tmp_path: Path
) -> None:
    path, folder = chatgpt(tmp_path / "export.zip"), tmp_path / "pictures"

    async def steps(workspace: Workspace, store: SqliteConversationStore) -> None:
        preview = await looked_into(workspace, path)
        assert preview.found.left_out["picture"] == 2
        assert kept(folder) == {}, "a preview keeps nothing"
        said = await take(workspace, preview, "cat", "cat again", "none")
        assert " 2 pictures, " in said
        assert sorted(kept(folder).values()) == sorted([PNG, JPEG])
        assert all(one.stat().st_mode & 0o077 == 0 for one in (folder, *folder.iterdir()))

    use(steps)

    async def later(change: Callable[[Workspace, Conversation], None], title: str) -> None:
        store = await open_store(tmp_path / "conversations.db")
        workspace = Workspace(scripted, SilentServer(), store, no_tools())  # type: ignore[arg-type]
        try:
            change(workspace, await titled(workspace, title))
        finally:
            await workspace.finish()
            workspace.deleteLater()
            await store.close()

    def check(workspace: Workspace, cat: Conversation) -> None:
        (message,) = cat.messages
        first, second = message.files
        assert (first.name, second.name) == ("../../cat.png", "file_0000dog")
        assert (folder / first.picture_file).read_bytes() == PNG
        assert (folder / second.picture_file).read_bytes() == JPEG
        (turn,) = turns_of(cat.messages)
        assert first.picture_file not in turn.content
        assert "cannot see" in turn.content
        twin = cat.duplicate()
        assert twin.messages[0].files == message.files
        workspace.store.delete(cat)

    run(later(check, "cat"))
    run(later(lambda workspace, one: workspace.store.delete(one), "cat again"))
    assert list(kept(folder).values()) == [PNG], "another question still has it"
    run(later(lambda workspace, one: None, "none"))
    assert kept(folder) == {}


@pytest.mark.parametrize("export", [jan, lm_studio])
def test_pictures_of_other_programs_come_in_as_well(
    use: Use, tmp_path: Path, export: Callable[[Path], Path]
) -> None:
    path = export(tmp_path / "export")

    async def steps(workspace: Workspace, store: SqliteConversationStore) -> None:
        preview = await looked_into(workspace, path)
        assert preview.found.left_out == {"picture": 1}
        assert preview.found.unread == []
        await take(workspace, preview)
        (message,) = (await titled(workspace, "One")).messages
        picture, other = message.files
        assert (store.pictures_folder / picture.picture_file).read_bytes() == PNG
        assert other.picture_file == ""

    use(steps)


def test_our_archive_takes_pictures_to_another_computer(
    use: Use, run: RunOnLoop, scripted: ScriptedEngine, tmp_path: Path
) -> None:
    archive, bare = tmp_path / "all.zip", tmp_path / "all.json"

    async def steps(workspace: Workspace, store: SqliteConversationStore) -> None:
        await take(workspace, await looked_into(workspace, lm_studio(tmp_path / "export")))
        for path in (archive, bare):
            workspace.files.export_all_to(path)
            await workspace.files.finish()

    use(steps)

    async def elsewhere(path: Path, folder: Path) -> tuple[str, dict[str, bytes]]:
        store = await open_store(folder / "conversations.db")
        workspace = Workspace(scripted, SilentServer(), store, no_tools())  # type: ignore[arg-type]
        try:
            said = await take(workspace, await looked_into(workspace, path))
            (message,) = (await titled(workspace, "One")).messages
            assert message.files[0].name == "1727 - cat.png"
            return said, kept(store.pictures_folder)
        finally:
            await workspace.finish()
            workspace.deleteLater()
            await store.close()

    said, pictures = run(elsewhere(archive, tmp_path / "second"))
    assert ("Left out" in said, list(pictures.values())) == (False, [PNG])
    said, pictures = run(elsewhere(bare, tmp_path / "third"))
    assert ("Left out: 1 picture." in said, pictures) == (True, {})


def test_an_import_keeps_pictures_only_up_to_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archived_pictures, "MOST_PICTURES_BYTES", 2 * len(PNG))
    contents = {f"{n}.png": PNG + bytes([n]) for n in range(3)} | {"0 again.png": PNG}
    pictures = ArchivedPictures(
        contents, lambda name: iter([contents[name]]), tmp_path / "p", is_dry=False
    )
    names = [pictures.file_of(name) for name in ("0.png", "1.png", "2.png", "0.png")]
    assert [bool(name) for name in names] == [True, False, False, True]
    assert list(kept(tmp_path / "p")) == [names[0]]


def test_a_damaged_database_that_was_set_aside_keeps_its_pictures(
    run: RunOnLoop, tmp_path: Path
) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "x.png").write_bytes(PNG)
    (tmp_path / "conversations.db").write_bytes(b"no database" * 999)

    async def start() -> None:
        await (await open_store(tmp_path / "conversations.db")).close()

    run(start())
    run(start())
    assert len(kept(tmp_path / "pictures")) == 1


def test_a_picture_is_a_chip_that_asks_before_another_program_opens_it(
    theme: Theme, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(
        QDesktopServices, "openUrl", lambda url: opened.append(url.toLocalFile()) or True
    )
    file = kept_picture("cat.png", "0" * 32 + ".png")
    view = QuestionView(theme, question("Look", [file]))
    qtbot.addWidget(view)
    view.show()
    path = tmp_path / file.picture_file
    view.picture_wanted.connect(lambda one: ask_about_picture(view, one.name, path))

    def answer(words: str) -> str:
        (chip,) = (one.chip for one in view.bubble.files)
        assert chip.accessibleName() == "File cat.png, picture"
        chip.button.click()
        boxes = (one for one in QApplication.topLevelWidgets() if one.isVisible())
        (box,) = (one for one in boxes if isinstance(one, QMessageBox))
        (button,) = (one for one in box.buttons() if one.text().replace("&", "") == words)
        button.click()
        return box.text()

    assert answer("OK") == "This picture is not on this computer."
    path.write_bytes(PNG)
    answer("Cancel")
    assert opened == []
    assert answer("Open") == "Open this picture in another program?"
    assert opened == [str(path)]
