"""Of an export, every value is kept, or the field that has it is named."""

import copy
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.outside import exports
from tests.support.random_cases import cases
from ui.records.codec import folder_values
from ui.records.exchange.archive import conversation_values
from ui.records.exchange.contents import FileContents, left_out_parts
from ui.records.import_report import (
    made_report,
    report_from,
    report_json,
    reported,
)

MOST = 8_000_000
# Counted as what they are, because the thing itself is not kept: its field has no name of its own.
COUNTED = {
    "content.content": "reasoning recap",
    "notes": "note",
}


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


PROGRAMS: dict[str, tuple[Callable[[], Any], Callable[[Path, Any], Path]]] = {
    "ChatGPT": (exports.chatgpt, chatgpt),
    "Claude": (exports.claude, claude),
    "LM Studio": (exports.lm_studio, lm_studio),
    "Jan": (exports.jan, jan),
}
EVERY = pytest.mark.parametrize("program", PROGRAMS)


def read(program: str, folder: Path, values: Any) -> FileContents:
    return exports.read_whole(PROGRAMS[program][1](folder, values), MOST, folder / "pictures")


def leaves(values: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(values, dict):
        for name, value in values.items():
            yield from leaves(value, f"{place}.{name}")
    elif isinstance(values, list | tuple):
        for value in values:
            yield from leaves(value, place)
    else:
        yield place, values


def kept_text(found: FileContents) -> str:
    values = [conversation_values(one) for one in found.conversations]
    return json.dumps([values, [folder_values(folder) for folder in found.folders]])


@EVERY
def test_every_value_is_kept_or_its_field_is_named(program: str, tmp_path: Path) -> None:
    values = PROGRAMS[program][0]()
    found = read(program, tmp_path, values)
    assert found.damaged == []
    kept, named = kept_text(found), list(found.left_out)
    lost = []
    for place, value in leaves(values):
        if not isinstance(value, str) or not value.startswith("w-"):
            continue
        value = value.partition(" \ue200")[0]  # a mark, for which a link stands
        names = place.strip(".").split(".")
        is_named = any(
            name.partition(": ")[2].split(".")[-1] in names for name in named if ": " in name
        )
        noun = next((noun for end, noun in COUNTED.items() if place.endswith(end)), None)
        if value not in kept and not is_named and noun not in named:
            lost.append((place, value))
    assert lost == []


@EVERY
def test_what_a_program_has_comes_in_as_what_it_is(program: str, tmp_path: Path) -> None:
    found = read(program, tmp_path, PROGRAMS[program][0]())
    (conversation,) = found.conversations
    told = reported(conversation, found.left_out)
    assert conversation.is_pinned
    is_hosted = program in ("ChatGPT", "Claude")
    assert (conversation.model is None) is is_hosted
    wanted = {
        "ChatGPT": {
            "message": 5, "alternative message": 1, "picture": 3,
            "reasoned answer": 1, "tool call": 4, "known ending": 5, "system prompt": 1,
            "model": 2, "folder": 1, "star": 1,
        },
        "Claude": {
            "message": 2, "alternative message": 1, "picture": 2, "attached file": 1,
            "reasoned answer": 1, "tool call": 3, "known ending": 1, "model": 1,
            "folder": 1, "star": 1,
        },
        "LM Studio": {
            "message": 2, "alternative message": 1, "picture": 1,
            "reasoned answer": 1, "tool call": 1, "known ending": 1, "system prompt": 1,
            "stop sequence": 1, "model": 2, "star": 1, "draft": 1,
        },
        "Jan": {
            "message": 4, "attached file": 1, "reasoned answer": 2, "tool call": 2,
            "known ending": 1, "system prompt": 1, "stop sequence": 1, "model": 1,
            "folder": 1, "star": 1,
        },
    }  # fmt: skip
    assert told.kept == wanted[program]


@EVERY
@settings(
    max_examples=cases(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_a_field_that_nobody_knows_is_named_wherever_it_is(
    program: str, tmp_path: Path, data: st.DataObject
) -> None:
    values = copy.deepcopy(PROGRAMS[program][0]())
    places = [place for place in objects(values) if not free(place[0])]
    place, holder = data.draw(st.sampled_from(places))
    holder["w_new_field"] = data.draw(st.sampled_from(["text", 7, {"a": 1}, [1], True]))
    found = read(program, tmp_path, values)
    assert any("w_new_field" in name or parent(place) in name for name in found.left_out), place


def objects(values: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(values, dict):
        yield place, values
        for name, value in values.items():
            yield from objects(value, f"{place}.{name}")
    elif isinstance(values, list | tuple):
        for value in values:
            yield from objects(value, place)


def parent(place: str) -> str:
    return place.rsplit(".", 1)[-1] or "w_new_field"


def free(place: str) -> bool:
    """Return whether an object is kept whole, or is a set of things and no thing."""
    kept = (
        "input",
        "parameters",
        "response",
        "messages",
        "fields",
        "mapping",
        "function",
        "updates",
    )
    return bool({*place.split(".")} & {*kept})


def test_a_canvas_and_an_artifact_show_their_text_after_each_change(tmp_path: Path) -> None:
    for program, name in (("ChatGPT", "Canvas"), ("Claude", "Artifact")):
        folder = tmp_path / program
        folder.mkdir()
        (conversation,) = read(program, folder, PROGRAMS[program][0]()).conversations
        runs = [message.run for message in conversation.tree if message.run is not None]
        calls = [(run, call) for run in runs for call in run.tool_calls if call.name == name]
        texts = [run.result_of(call.id).text for run, call in calls]  # type: ignore[union-attr]
        assert len(texts) == 2
        assert texts[0].split(" ")[0] in ("first", "old")
        assert texts[1].split(" ")[0] in ("second", "new")
        assert texts[0].split(" ")[1] == texts[1].split(" ")[1]
        assert all("content" not in json.loads(call.arguments) for _, call in calls)


def test_a_source_is_a_link_where_it_was(tmp_path: Path) -> None:
    (conversation,) = read("ChatGPT", tmp_path, exports.chatgpt()).conversations
    assert "](https://source.test))" in conversation.messages[-1].said
    assert "\ue200" not in conversation.messages[-1].said


PROJECT = {
    "uuid": "p-1", "name": "Garden", "prompt_template": "Be green.", "description": "My garden",
    "docs": [{"uuid": "d", "filename": "soil.md", "content": "Loam."}, {"filename": "a.txt"}],
}  # fmt: skip
MEMORY = {"conversations_memory": "Likes roses.", "project_memories": {"p-1": "Has loam."}}


@pytest.mark.parametrize(
    "files",
    [
        {"projects.json": [PROJECT, {"uuid": 7}], "memories.json": [MEMORY]},
        {"projects/p-1.json": PROJECT, "projects/7.json": {"uuid": 7}, "memories/a.json": MEMORY},
    ],
    ids=["lists", "folders"],
)
def test_claudes_projects_are_folders_with_their_instructions_documents_and_memory(
    tmp_path: Path, files: dict[str, Any]
) -> None:
    every = {**files, "conversations.json": [exports.claude()]}
    path = zipped(tmp_path / "c.zip", {name: json.dumps(value) for name, value in every.items()})
    found = exports.read_whole(path, MOST)
    made = {conversation.title: conversation for conversation in found.conversations}
    (folder,) = found.folders
    assert (folder.name, folder.system_prompt) == ("Garden", "Be green.")
    kept = {
        title: (one.placement.folder_id, [(file.name, file.text.strip()) for file in shown.files])
        for title, one in made.items()
        if len(one.messages) == 1 and (shown := one.messages[0])
    }
    missing = ("a.txt", "(the file is not in the export)")
    assert kept == {
        "Documents of Garden": (folder.id, [("soil.md", "Loam."), missing]),
        "Memory of Garden": (folder.id, [("memory.md", "Has loam.")]),
        "Memory of Claude": ("", [("memory.md", "Likes roses.")]),
    }
    assert made["Documents of Garden"].messages[0].typed == "My garden"
    (other,) = (one for title, one in made.items() if title not in kept)
    assert other.placement.folder_id == folder.id
    assert found.left_out["project document"] == 1
    assert len(found.damaged) == 1
    assert found.unread == []


def test_what_chatgpt_remembered_is_part_of_the_instructions(tmp_path: Path) -> None:
    (conversation,) = read("ChatGPT", tmp_path, exports.chatgpt()).conversations
    prompt = conversation.settings.system_prompt
    assert "Memories of earlier conversations:\n\nw-memory-" in prompt


def test_a_report_is_read_back_as_it_was_kept(tmp_path: Path) -> None:
    found = read("LM Studio", tmp_path, exports.lm_studio())
    told = [reported(one, found.left_out) for one in found.conversations]
    report = made_report("LM Studio", "c.zip", told, {"picture": 1}, ["x: y"], ["a.txt"])
    assert report_from(report_json(report)) == report
    text = report.text()
    assert "Kept: 2 messages" in text
    assert "contextOverflowPolicy" in text
    assert "Left out: 1 picture" in text
    assert left_out_parts({}) == []


WORDS = {
    "ChatGPT": ["4 sources", "1 search term", "1 search picture", "1 attached file"],
    "Claude": ["1 abstract", "1 created file"],
    "LM Studio": ["1 note", "1 attached file", "1 setting"],
    "Jan": ["1 sound recording", "1 attached file"],
}


@EVERY
def test_what_is_missing_is_said_in_words_and_its_fields_only_in_the_copied_report(
    program: str, tmp_path: Path
) -> None:
    found = read(program, tmp_path, PROGRAMS[program][0]())
    told = reported(found.conversations[0], found.left_out)
    report = made_report(program, "c.zip", [told], found.left_out, (), ())
    rest = "\n".join(report.rest())
    for words in WORDS[program]:
        assert words in told.missed_words
        assert words in rest
    fields = [name for key in found.left_out if (name := key.partition(": ")[2])]
    assert fields
    for name in fields:
        assert name not in told.missed_words
        assert name not in rest
        assert name in report.text()
