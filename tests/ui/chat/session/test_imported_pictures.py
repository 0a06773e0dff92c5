"""Pictures of other programs' archives are kept with their questions, as long as these are."""

import base64
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication, QButtonGroup, QMessageBox
from pytestqt.qtbot import QtBot

from engine.values.request import PICTURE_MARK
from tests.support.outside import exports
from tests.ui.chat.session.conftest import every, workspace_on
from tests.ui.driving import ScriptedEngine
from ui.chat.messages.answer_view import AnswerView
from ui.chat.messages.question_view import QuestionView
from ui.chat.session.workspace import Workspace
from ui.kit.dialogs import confirm_file
from ui.kit.theme import Theme
from ui.records.attachments import Attachment, kept_as, without_kept_files
from ui.records.conversations import Conversation
from ui.records.exchange.archive import conversation_markdown
from ui.records.exchange.contents import FileContents
from ui.records.messages import question
from ui.records.pictures import keep_picture, read_pictures
from ui.records.requests import turns_of
from ui.words import THIS_COMPUTER

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


async def looked_into(workspace: Workspace, path: Path) -> FileContents:
    looked: list[FileContents] = []
    workspace.files.imports.looked.connect(looked.append)
    workspace.files.imports.look_into(path)
    await workspace.files.finish()
    (preview,) = looked
    return preview


async def take(workspace: Workspace, preview: FileContents, *titles: str) -> str:
    """Import conversations of a file; return what is said at the end."""
    said: list[str] = []
    workspace.files.transfers.ended.connect(
        lambda ended: ended.outcome and said.append(ended.outcome)
    )
    wanted = [one for one in preview.new if not titles or one.title in titles]
    workspace.files.imports.take(preview, wanted)
    await workspace.files.finish()
    return said[-1]


async def titled(workspace: Workspace, title: str) -> Conversation:
    (one,) = (one for one in every(workspace) if one.title == title)
    await workspace.store.fill(one)
    return one


async def test_pictures_come_in_with_their_questions_and_leave_with_the_last_of_them(
    scripted: ScriptedEngine, tmp_path: Path
) -> None:
    path, folder = chatgpt(tmp_path / "export.zip"), tmp_path / "pictures"

    async with workspace_on(scripted, tmp_path / "conversations.db") as (workspace, _store):
        preview = await looked_into(workspace, path)
        assert preview.left_out["picture"] == 2
        assert kept(folder) == {}, "a preview keeps nothing"
        said = await take(workspace, preview, "cat", "cat again", "none")
        assert " 2 pictures, " in said
        assert sorted(kept(folder).values()) == sorted([PNG, JPEG])
        assert all(one.stat().st_mode & 0o077 == 0 for one in (folder, *folder.iterdir()))

    async def later(change: Callable[[Workspace, Conversation], None], title: str) -> None:
        shutil.rmtree(tmp_path / "backups", ignore_errors=True)  # a backup keeps its pictures
        async with workspace_on(scripted, tmp_path / "conversations.db") as (workspace, _store):
            change(workspace, await titled(workspace, title))

    def check(workspace: Workspace, cat: Conversation) -> None:
        (message,) = cat.messages
        first, second = message.files
        assert (first.name, second.name) == ("../../cat.png", "file_0000dog")
        assert (folder / first.kept_file).read_bytes() == PNG
        assert (folder / second.kept_file).read_bytes() == JPEG
        (turn,) = turns_of(cat.messages)
        assert first.kept_file not in turn.content
        assert "cannot see" in turn.content
        (turn,) = turns_of(cat.messages, read_pictures(folder, cat.messages))
        assert turn.content.startswith(PICTURE_MARK * 2)
        assert [picture.data for picture in turn.pictures] == [PNG, JPEG]
        twin = cat.duplicate()
        assert twin.messages[0].files == message.files
        workspace.store.delete(cat)

    await later(check, "cat")
    await later(lambda workspace, one: workspace.store.delete(one), "cat again")
    assert list(kept(folder).values()) == [PNG], "another question still has it"
    await later(lambda workspace, one: None, "none")
    assert kept(folder) == {}


def chatgpt_answers(path: Path) -> Path:
    """Write an export whose pictures were made: by a tool, by code, and by the model itself."""

    def node(key: str, above: str | None, role: str, content: Any, **more: Any) -> dict[str, Any]:
        message = {"author": {"role": role}, "content": content, **more}
        return {"id": key, "parent": above, "message": message}

    def pointer(name: str) -> dict[str, Any]:
        part = {"content_type": "image_asset_pointer", "asset_pointer": f"sediment://{name}"}
        return {"content_type": "multimodal_text", "parts": [part]}

    drawn = {"message_type": "image", "image_url": "file-service://file-PlotPlot"}
    outcome = {"aggregate_result": {"status": "success", "messages": [drawn]}}
    output = {"content_type": "execution_output", "text": "<Figure>"}
    nodes = [
        node("q", None, "user", {"content_type": "text", "parts": ["Draw."]}),
        node("c", "q", "assistant", {"content_type": "code", "text": "draw"}, recipient="dalle"),
        node("t", "c", "tool", pointer("file_0000cat")),
        node("c2", "t", "assistant", {"content_type": "code", "text": "p"}, recipient="python"),
        node("t2", "c2", "tool", output, metadata=outcome),
        node("a", "t2", "assistant", pointer("file_0000dog")),
    ]
    values = {
        "id": "d",
        "title": "One",
        "current_node": "a",
        "mapping": {n["id"]: n for n in nodes},
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", json.dumps([values]))
        archive.writestr("dalle-generations/file_0000cat-cat.png", PNG + b"cat")
        archive.writestr("file-PlotPlot-plot.png", PNG + b"plot")
        archive.writestr("file_0000dog-dog.png", PNG + b"dog")
    return path


def jan_answers(folder: Path) -> Path:
    def url(data: bytes) -> str:
        return "data:image/png;base64," + base64.b64encode(data).decode()

    made = {"type": "image", "mimeType": "image/png", "data": url(PNG + b"cat").partition(",")[2]}
    call = {"tool": {"id": "x", "function": {"name": "draw"}}, "response": {"content": [made]}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": {"value": "Draw."}}]},
        {"role": "assistant", "content": [], "metadata": {"tool_calls": [call]}},
        {
            "role": "assistant",
            "content": [{"type": "image_url", "image_url": {"url": url(PNG + b"dog")}}],
        },
    ]
    thread = folder / "threads" / "t-1"
    thread.mkdir(parents=True)
    (thread / "thread.json").write_text(json.dumps({"id": "t-1", "title": "One"}))
    (thread / "messages.jsonl").write_text("\n".join(map(json.dumps, messages)))
    return folder


def lm_studio_answers(folder: Path) -> Path:
    made = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}
    said = [made, {"type": "text", "text": "Done."}]
    pieces = [
        {"type": "toolCallRequest", "callId": 1, "name": "draw", "parameters": {}},
        {"type": "toolCallResult", "callId": 1, "content": json.dumps(said)},
        {"type": "file", "fileIdentifier": "17 - dog.png", "fileType": "image"},
    ]
    steps = [{"type": "contentBlock", "content": pieces}]
    asked = {"role": "user", "content": [{"type": "text", "text": "Draw."}]}
    versions = [[asked], [{"type": "multiStep", "role": "assistant", "steps": steps}]]
    (folder / "conversations").mkdir(parents=True)
    (folder / "user-files").mkdir()
    (folder / "user-files" / "17 - dog.png").write_bytes(PNG + b"dog")
    (folder / "conversations" / "1.conversation.json").write_text(
        json.dumps({"name": "One", "messages": [{"versions": one} for one in versions]})
    )
    return folder


async def test_pictures_of_open_webui_come_in_with_their_questions_and_reach_a_model_that_sees(
    scripted: ScriptedEngine, tmp_path: Path
) -> None:
    path = tmp_path / "chat-export-1.json"
    path.write_text(json.dumps(exports.open_webui(PNG)))

    async with workspace_on(scripted, tmp_path / "conversations.db") as (workspace, store):
        await take(workspace, await looked_into(workspace, path))
        one = await titled(workspace, "w-title-1")
        asked, answer = one.messages
        shown, gone, notes, missing = asked.files
        assert kept(store.pictures_folder) == {shown.kept_file: PNG}
        assert (gone.name, gone.kept_file) == ("kept-on-the-server.png", "")
        assert (notes.text.strip(), missing.kept_file) == ("w-inside-1", "")
        turn = turns_of(one.messages, read_pictures(store.pictures_folder, one.messages))[0]
        assert [picture.data for picture in turn.pictures] == [PNG]
        assert turn.content.startswith(PICTURE_MARK)
        assert (answer.run.text, answer.run.thinking) == ("w-answer-2", "w-thought-1")
        (call,), (result,) = answer.run.tool_calls, answer.run.results
        assert (call.name, call.arguments) == ("w-tool-1", '{"a": "w-argument-1"}')
        assert result.text == "w-returned-1"
        assert len(one.tree) == 4


@pytest.mark.parametrize("export", [chatgpt_answers, jan_answers, lm_studio_answers])
async def test_pictures_of_answers_come_in_are_shown_and_go_out_and_those_of_tools_are_seen(
    scripted: ScriptedEngine,
    theme: Theme,
    qtbot: QtBot,
    tmp_path: Path,
    export: Callable[[Path], Path],
) -> None:
    path, archive = export(tmp_path / "export"), tmp_path / "all.zip"

    async with workspace_on(scripted, tmp_path / "conversations.db") as (workspace, store):
        preview = await looked_into(workspace, path)
        assert preview.left_out_sentence == ""
        await take(workspace, preview)
        one = await titled(workspace, "One")
        pictures = [picture for message in one.messages for picture in message.pictures]
        assert sorted(kept(store.pictures_folder)) == sorted(p.kept_file for p in pictures)
        assert len(pictures) >= 2
        sizes = [(store.pictures_folder / p.kept_file).stat().st_size for p in pictures]
        assert await workspace.files.bytes_beside() == sum(sizes), "an archive is offered for them"
        assert "a picture, kept as" in conversation_markdown(one)
        sent = "".join(turn.content for turn in turns_of(one.messages))
        assert not any(picture.kept_file in sent for picture in pictures)
        group = QButtonGroup()
        views = [AnswerView(answer, group) for answer in one.messages if answer.run]
        for view in views:
            qtbot.addWidget(view)
        chips = [chip for view in views for chip in view.files]
        runs = [answer.run for answer in one.messages if answer.run]
        assert [chip.chip.accessibleName() for chip in chips] == [
            f"File {picture.name}, picture" for run in runs for picture in run.pictures
        ]
        results = [result for run in runs for result in run.results if result.pictures]
        assert len(results) == (export is not chatgpt_answers)
        seeing = turns_of(one.messages, read_pictures(store.pictures_folder, one.messages))
        seen = [turn.content.count(PICTURE_MARK) for turn in seeing if turn.role == "tool"]
        assert sum(seen) == len(results)
        workspace.files.export_all_to(archive)
        await workspace.files.finish()
    before = kept(tmp_path / "pictures")
    assert before, "a start deletes only pictures that no message has"

    async def elsewhere() -> dict[str, bytes]:
        async with workspace_on(scripted, tmp_path / "second" / "conversations.db") as (
            workspace,
            store,
        ):
            said = await take(workspace, await looked_into(workspace, archive))
            assert "Left out" not in said
            return kept(store.pictures_folder)

    assert await elsewhere() == before


async def test_our_archive_takes_pictures_to_another_computer(
    scripted: ScriptedEngine, tmp_path: Path
) -> None:
    archive, bare = tmp_path / "all.zip", tmp_path / "all.json"

    async with workspace_on(scripted, tmp_path / "conversations.db") as (workspace, _store):
        await take(workspace, await looked_into(workspace, lm_studio(tmp_path / "export")))
        draft = keep_picture(tmp_path / "pictures", "draft.jpg", JPEG)
        workspace.change_draft("", (draft,))
        for path in (archive, bare):
            workspace.files.export_all_to(path)
            await workspace.files.finish()

    async def elsewhere(path: Path, folder: Path) -> tuple[str, dict[str, bytes]]:
        async with workspace_on(scripted, folder / "conversations.db") as (workspace, store):
            said = await take(workspace, await looked_into(workspace, path))
            (message,) = (await titled(workspace, "One")).messages
            assert message.files[0].name == "1727 - cat.png"
            return said, kept(store.pictures_folder)

    said, pictures = await elsewhere(archive, tmp_path / "second")
    assert ("Left out" in said, sorted(pictures.values())) == (False, sorted([PNG, JPEG]))
    said, pictures = await elsewhere(bare, tmp_path / "third")
    assert ("Left out: 2 pictures." in said, pictures) == (True, {})


def test_a_picture_is_a_chip_that_asks_before_another_program_opens_it(
    theme: Theme, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(
        QDesktopServices, "openUrl", lambda url: opened.append(url.toLocalFile()) or True
    )
    file = kept_as("cat.png", "0" * 32 + ".png")
    view = QuestionView(question("Look", [file]))
    qtbot.addWidget(view)
    view.show()
    path = tmp_path / file.kept_file
    view.picture_requested.connect(lambda one: confirm_file(view, one.name, path, "Picture"))

    def answer(words: str) -> str:
        (chip,) = (one.chip for one in view.bubble.files)
        assert chip.accessibleName() == "File cat.png, picture"
        chip.button.click()
        boxes = (one for one in QApplication.topLevelWidgets() if one.isVisible())
        (box,) = (one for one in boxes if isinstance(one, QMessageBox))
        (button,) = (one for one in box.buttons() if one.text().replace("&", "") == words)
        button.click()
        return box.text()

    assert answer("OK") == f"This picture is not on {THIS_COMPUTER}."
    path.write_bytes(PNG)
    answer("Cancel")
    assert opened == []
    assert answer("Open") == "Open this picture in another program?"
    assert opened == [str(path)]


def test_imported_recording_stays_a_kept_file() -> None:
    note = f"(a sound recording, kept as {'0' * 32}.wav)"
    file = Attachment("Recording.wav", note)
    assert (file.is_sound, file.kept_file) == (True, f"{'0' * 32}.wav")
    sent = without_kept_files(question("Say hello", [file]).sent)
    assert "which you cannot hear" in sent
    assert file.kept_file not in sent
