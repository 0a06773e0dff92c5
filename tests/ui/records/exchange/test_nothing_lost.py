"""Everything of an export that has a place here is kept; the rest is counted by its kind."""

import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.outside import exports
from ui.records.codec import folder_values
from ui.records.exchange.archive import conversation_values
from ui.records.exchange.contents import FileContents

MAX_BYTES = 8_000_000


def png() -> bytes:
    """Return a picture of one pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0\1\2\3")
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


def zipped(path: Path, files: dict[str, bytes | str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def chatgpt(folder: Path, values: Any) -> Path:
    pictures = {"file_pic00001-photo.png": png(), "file-plot0001.png": png()}
    return zipped(folder / "c.zip", {"conversations.json": json.dumps([values]), **pictures})


def claude(folder: Path, values: Any) -> Path:
    files = {"conversations.json": json.dumps([values]), "pic-uuid-0001.png": png()}
    return zipped(folder / "c.zip", files)


def lm_studio(folder: Path, values: Any) -> Path:
    files = {"1.conversation.json": json.dumps(values), "user-files/17-1.png": png()}
    return zipped(folder / "c.zip", files)


def jan(folder: Path, values: Any) -> Path:
    thread, messages = values
    lines = "\n".join(map(json.dumps, messages))
    files = {"t/thread.json": json.dumps(thread), "t/messages.jsonl": lines}
    return zipped(folder / "c.zip", files)


def open_webui(folder: Path, values: Any) -> Path:
    path = folder / "chat-export-1.json"
    path.write_text(json.dumps(values))
    return path


PROGRAMS: dict[str, tuple[Callable[[], Any], Callable[[Path, Any], Path]]] = {
    "ChatGPT": (exports.chatgpt, chatgpt),
    "Claude": (exports.claude, claude),
    "LM Studio": (exports.lm_studio, lm_studio),
    "Jan": (exports.jan, jan),
    "Open WebUI": (exports.open_webui, open_webui),
}
# Of what is counted as left out, nothing is kept.
NOT_KEPT = {"ChatGPT": {"recap"}, "LM Studio": {"note"}}
LEFT_OUT = {
    "ChatGPT": {"attached file": 1, "reasoning recap": 1},
    "Claude": {"attached file": 1, "created file": 1},
    "LM Studio": {"attached file": 1, "note": 1},
    "Jan": {"picture": 1, "sound recording": 1, "attached file": 1},
    "Open WebUI": {"picture": 1, "attached file": 1},
}
EVERY = pytest.mark.parametrize("program", PROGRAMS)


def read(program: str, folder: Path, values: Any) -> FileContents:
    return exports.read_whole(PROGRAMS[program][1](folder, values), MAX_BYTES, folder / "pictures")


def leaves(values: Any) -> Iterator[Any]:
    if isinstance(values, dict | list | tuple):
        for value in values.values() if isinstance(values, dict) else values:
            yield from leaves(value)
    else:
        yield values


@EVERY
def test_every_text_of_an_export_is_kept(program: str, tmp_path: Path) -> None:
    values = PROGRAMS[program][0]()
    found = read(program, tmp_path, values)
    assert found.damaged == []
    conversations = [conversation_values(one) for one in found.conversations]
    kept = json.dumps([conversations, [folder_values(folder) for folder in found.folders]])
    texts = {leaf.split(" ")[0] for leaf in leaves(values) if str(leaf).startswith("w-")}
    lost = {text[2:].rpartition("-")[0] for text in texts if text not in kept}
    assert lost == NOT_KEPT.get(program, set())


@EVERY
def test_what_is_left_out_of_an_export_is_counted(program: str, tmp_path: Path) -> None:
    assert read(program, tmp_path, PROGRAMS[program][0]()).left_out == LEFT_OUT[program]


def test_a_source_is_a_link_where_it_was(tmp_path: Path) -> None:
    (conversation,) = read("ChatGPT", tmp_path, exports.chatgpt()).conversations
    assert "](https://source.test))" in conversation.messages[-1].content
    assert "\ue200" not in conversation.messages[-1].content


PROJECT = {
    "uuid": "p-1", "name": "Garden", "prompt_template": "Be green.", "description": "My garden",
    "docs": [{"uuid": "d", "filename": "soil.md", "content": "Loam."}, {"filename": "a.txt"}],
}  # fmt: skip


@pytest.mark.parametrize(
    "files",
    [
        {"projects.json": [PROJECT, {"uuid": 7}]},
        {"projects/p-1.json": PROJECT, "projects/7.json": {"uuid": 7}},
    ],
    ids=["lists", "folders"],
)
def test_claude_projects_become_folders_with_instructions(
    tmp_path: Path, files: dict[str, Any]
) -> None:
    every = {**files, "conversations.json": [exports.claude()]}
    path = zipped(tmp_path / "c.zip", {name: json.dumps(value) for name, value in every.items()})
    found = exports.read_whole(path, MAX_BYTES)
    (folder,), (conversation,) = found.folders, found.conversations
    assert (folder.name, folder.system_prompt) == ("Garden", "Be green.")
    assert conversation.placement.folder_id == folder.id
    assert found.left_out["project document"] == 2
    assert len(found.damaged) == 1
    assert found.unread == []


def test_what_chatgpt_remembered_is_part_of_the_instructions(tmp_path: Path) -> None:
    (conversation,) = read("ChatGPT", tmp_path, exports.chatgpt()).conversations
    prompt = conversation.settings.system_prompt
    assert "Memories of earlier conversations:\n\nw-memory-" in prompt
