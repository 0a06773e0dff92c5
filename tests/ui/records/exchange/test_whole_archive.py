"""Everything of one computer as one archive: on another one, all of it is as it was."""

import json
import os
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from app.store.traces import TraceFiles
from engine.output.answer import DecodingSetting
from engine.output.families import Family
from engine.recording.run_trace import RunTrace
from engine.stopping.rules import StopRules
from tests.support.answers.said import FINISHED, conversation, finished_run
from tests.support.kept import preferences_state
from tests.support.memory_store import MemoryConversationStore
from ui.chat.session.conversation_files import ConversationFiles
from ui.chat.session.conversation_list import ConversationList
from ui.chat.session.presets import PresetList
from ui.chat.session.traces import Traces
from ui.records.attachments import Attachment
from ui.records.codec import Preset, run_values
from ui.records.conversations import (
    Conversation,
    ConversationFolder,
    ConversationSettings,
    Placement,
)
from ui.records.exchange.contents import FileContents
from ui.records.facts import MAX_FACTS, Fact
from ui.records.messages import ConversationMessage
from ui.records.stop_entries import StopEntry
from ui.tools.memory import Memory
from ui.tools.memory_page import facts_json

_ROOM = 10_000_000


def small_trace(residue: str) -> RunTrace:
    setting = DecodingSetting(
        model="m", family=Family(), eos=(2,), context_budget=9, has_bytes=True
    )
    trace = RunTrace(setting, StopRules.of("END"), 64)
    trace.stop, trace.residue = FINISHED.stop, residue
    return trace


class Computer:
    """One computer's conversations, presets and traces."""

    def __init__(self, folder: Path, most_bytes: int = _ROOM) -> None:
        self.store = MemoryConversationStore()
        self.conversations = ConversationList(self.store)
        self.presets = PresetList(self.store)
        self.kept = TraceFiles(folder, most_bytes)
        self.traces = Traces(self.kept)
        self.memory = Memory(self.store, preferences_state(), lambda: (), lambda _: None)
        self.files = ConversationFiles(
            self.store, self.conversations, self.presets, self.traces, self.memory
        )
        self.looked: list[FileContents] = []
        self.said: list[str] = []
        self.undo: Callable[[], object] = list
        self.files.imports.looked.connect(self.looked.append)
        self.files.transfers.ended.connect(
            lambda ended: ended.outcome and self.said.append(ended.outcome)
        )
        self.files.transfers.ended.connect(lambda ended: setattr(self, "undo", ended.undo))
        self.files.refused.connect(self.said.append)

    def every(self) -> list[Conversation]:
        return list(self.conversations.every())

    async def export(self, path: Path) -> None:
        self.files.export_all_to(path)
        await self.files.finish()

    async def take(self, path: Path, *, again: bool = False) -> None:
        """Import all of a file that is new here, or what is here already once again."""
        self.files.imports.look_into(path)
        await self.files.finish()
        preview = self.looked[-1]
        self.files.imports.take(preview, preview.here if again else preview.new)
        await self.files.finish()

    def content(self, one: Conversation) -> list[bytes | None]:
        runs = [message.run for message in one.tree if message.run is not None]
        return [self.kept.content(run.id).result(60) for run in runs]


def filled(folder: Path) -> Computer:
    """Return a computer with some of everything."""
    computer = Computer(folder)
    work = ConversationFolder(
        "Work", "Be formal.", (StopEntry.of("END"), StopEntry.of("\n", False)), is_open=False
    )
    for one in (work, ConversationFolder("Empty")):
        computer.conversations.folders.keep(one)
    computer.presets.keep(Preset("Terse", ConversationSettings("Be brief."), (StopEntry.of("x"),)))
    for number in range(3):
        one = conversation(f"Größe {number}?")
        one.title, one.created_at, one.updated_at = f"Talk {number}", 1e9 + number, 2e9 - number
        question = one.messages[0]
        one.tree.add(ConversationMessage("assistant", "other", finished_run("other")), question)
        for message in one.tree:
            if message.run is not None:
                computer.kept.save(one.id, message.run.id, small_trace(message.text))
        if number == 0:
            one.placement = Placement(work.id, True)
            one.stops_from = f"folder:{work.id}"
        elif number == 1:
            one.is_pinned = True
        else:
            one.attachments = (Attachment("notes.txt", "all of the notes"),)
        computer.conversations.add(one)
    return computer


def facts(one: Conversation) -> dict[str, object]:
    """Return all that has to be equal on both sides."""
    names = (
        "title", "settings", "stops", "draft", "attachments", "placement", "is_pinned",
        "created_at", "updated_at", "stops_from",
    )  # fmt: skip
    said = [
        (
            message.role,
            message.content,
            message.created_at,
            message.shown_rank,
            message.run and {**run_values(message.run), "id": ""},
        )
        for message in one.tree
    ]
    return {**{name: getattr(one, name) for name in names}, "said": said}


async def test_everything_comes_back_equal_from_one_archive(
    qapp: QApplication, tmp_path: Path
) -> None:
    here, there = filled(tmp_path / "a"), Computer(tmp_path / "b")
    await here.export(tmp_path / "all.zip")
    assert here.said == ["Exported 3 conversations to “all.zip”."]
    parts = zipfile.ZipFile(tmp_path / "all.zip").infolist()
    assert min(one.date_time[0] for one in parts) > 2000, "each part has a date"
    await there.take(tmp_path / "all.zip")
    assert [facts(one) for one in there.every()] == [facts(one) for one in here.every()]
    assert there.conversations.folders.all() == here.conversations.folders.all()
    assert there.presets.all() == here.presets.all()
    for before, after in zip(here.every(), there.every(), strict=True):
        assert there.content(after) == here.content(before)
        assert None not in there.content(after)
        for message in after.tree:
            if message.run is not None:
                trace = await there.traces.find(message.run.id)
                assert trace is not None
                assert trace.residue == message.text
    owners = {one.conversation_id for one in there.kept.stored().result(60)}
    assert owners == {one.id for one in there.every()}, "they go with their conversations"
    order = [
        [each.kept.content(one.run_id).result(60) for one in each.kept.stored().result(60)]
        for each in (here, there)
    ]
    assert order[0] == order[1], "the oldest go first on both"
    assert there.said == [
        "Imported 3 conversations from Fullstop. "
        "The recorded tokens of 6 answers were imported too."
    ]
    here.kept.close()
    there.kept.close()


async def test_damaged_traces_of_an_archive_are_left_out_in_words(
    qapp: QApplication, tmp_path: Path
) -> None:
    here, there = filled(tmp_path / "a"), Computer(tmp_path / "b")
    await here.export(tmp_path / "all.zip")
    with (
        zipfile.ZipFile(tmp_path / "all.zip") as whole,
        zipfile.ZipFile(tmp_path / "worse.zip", "w") as worse,
    ):
        names = [one for one in whole.namelist() if one.startswith("traces/")]
        for name in whole.namelist():
            worse.writestr(name, b"damaged" if name in names[:2] else whole.read(name))
    # Bytes within the file that have changed since it was written.
    content = (tmp_path / "worse.zip").read_bytes()
    part = here.kept.content(Path(names[2]).stem).result(60)
    assert part is not None
    (tmp_path / "worse.zip").write_bytes(content.replace(part, b"?" * len(part), 1))
    await there.take(tmp_path / "worse.zip")
    assert len(there.every()) == 3
    assert len(there.kept.stored().result(60)) == 3
    assert there.said == [
        "Imported 3 conversations from Fullstop. "
        "The recorded tokens of 3 answers were imported too. "
        "Those of 3 answers are damaged and left out."
    ]
    here.kept.close()
    there.kept.close()


async def test_traces_stay_out_where_there_is_no_room_or_they_are_not_wanted(
    qapp: QApplication, tmp_path: Path
) -> None:
    here, there = filled(tmp_path / "a"), Computer(tmp_path / "b", 0)
    for name in ("all.zip", "all.json"):
        await here.export(tmp_path / name)
    assert (
        zipfile.ZipFile(tmp_path / "all.zip").read("conversations.json")
        == (tmp_path / "all.json").read_bytes()
    )
    await there.take(tmp_path / "all.zip")
    assert there.said == [
        "Imported 3 conversations from Fullstop. Settings ▸ Storage leaves no room for "
        "the recorded tokens of 6 answers."
    ]
    plain = Computer(tmp_path / "c")
    await plain.take(tmp_path / "all.json")
    assert [facts(one) for one in plain.every()] == [facts(one) for one in here.every()]
    assert plain.kept.stored().result(60) == []
    assert plain.said == ["Imported 3 conversations from Fullstop."]
    for one in (here, there, plain):
        one.kept.close()


async def test_a_cancelled_import_says_how_much_came_and_keeps_it(
    qapp: QApplication, tmp_path: Path
) -> None:
    here, there = filled(tmp_path / "a"), Computer(tmp_path / "b")
    await here.export(tmp_path / "all.zip")
    there.files.imports.added.connect(lambda _: there.files.transfers.cancel())
    await there.take(tmp_path / "all.zip")
    assert there.said == ["Cancelled after 1 of 3 conversations from Fullstop; these stay."]
    assert len(there.every()) == 1
    here.kept.close()
    there.kept.close()


@pytest.mark.parametrize("chosen", ["", "conversations.json"])
async def test_traces_of_an_unpacked_archive_are_imported(
    chosen: str, qapp: QApplication, tmp_path: Path
) -> None:
    here, there = filled(tmp_path / "a"), Computer(tmp_path / "b")
    await here.export(tmp_path / "all.zip")
    unpacked = tmp_path / "all"
    zipfile.ZipFile(tmp_path / "all.zip").extractall(unpacked)
    traces = sorted((unpacked / "traces").iterdir())
    for age, path in enumerate(traces):
        os.utime(path, (1e9 - age, 1e9 - age))
    traces[0].write_bytes(b"damaged")
    await there.take(unpacked / chosen)
    assert there.said == [
        "Imported 3 conversations from Fullstop. The recorded tokens of 5 answers were "
        "imported too. Those of 1 answer are damaged and left out."
    ]
    before = [here.kept.content(path.stem).result(60) for path in traces[:0:-1]]
    kept = [there.kept.content(one.run_id).result(60) for one in there.kept.stored().result(60)]
    assert kept == before, "the oldest go first"
    here.kept.close()
    there.kept.close()


async def test_copies_keep_their_traces_when_the_original_is_deleted(
    qapp: QApplication, tmp_path: Path
) -> None:
    here = filled(tmp_path / "a")
    originals = here.every()
    before = [here.content(one) for one in originals]
    ages = {one.written_at for one in here.kept.stored().result(60)}
    here.files.duplicate(originals[0])
    await here.files.finish()
    await here.export(tmp_path / "all.json")
    await here.take(tmp_path / "all.json", again=True)
    copies = [one for one in here.every() if one not in originals]
    assert len(copies) == 1 + 4
    copied_ages = {one.written_at for one in here.kept.stored().result(60)}
    assert copied_ages == ages, "copies are as old as what they were copied from"
    here.conversations.delete(*originals)
    # As the next start does.
    here.kept.retain(frozenset(one.id for one in here.every()))
    first, *others = (here.content(one) for one in copies)
    assert first == before[0]
    assert sorted(others, key=str) == sorted([*before, before[0]], key=str)
    here.kept.close()


async def test_facts_come_with_everything_and_only_then(qapp: QApplication, tmp_path: Path) -> None:
    here, there = filled(tmp_path / "a"), Computer(tmp_path / "b")
    kept = [here.memory.add("The user lives in Berlin."), here.memory.add("It <b>rains</b>")]
    private = here.conversations.folders.all()[0]
    here.conversations.folders.keep(replace(private, has_memory=False))
    await here.export(tmp_path / "all.json")
    text = (tmp_path / "all.json").read_text()
    hostile = {"id": "x", "text": "y" * 1_000_000, "created_at": 1}
    worse = text.replace('"facts": [', f'"facts": [{json.dumps(hostile)}, ')
    (tmp_path / "worse.json").write_text(worse)
    there.memory.add("the user LIVES in Berlin.")
    await there.take(tmp_path / "worse.json")
    assert [fact.text for fact in there.memory.facts] == [
        "the user LIVES in Berlin.", "It <b>rains</b>",
    ]  # fmt: skip
    assert there.memory.facts[1] == kept[1]
    assert "1 fact added to the memory." in there.said[0]
    assert "facts[0].text: has 1,000,000 characters" in there.said[0]
    there.undo()
    assert [fact.text for fact in there.memory.facts] == ["the user LIVES in Berlin."]
    (tmp_path / "facts.json").write_text(facts_json(kept))
    there.memory.take_new(Fact(f"Fact {number}") for number in range(MAX_FACTS - 2))
    there.files.imports.look_into(tmp_path / "facts.json")
    await there.files.finish()
    there.memory.edit(there.memory.facts[0].id, "Other")
    there.files.imports.take(there.looked[-1], [])
    await there.files.finish()
    assert there.memory.facts[-1] == kept[0]
    assert there.said[-1] == (
        "1 fact added to the memory. 1 fact did not fit: the memory keeps 200."
    )
    assert there.conversations.folders.all() == here.conversations.folders.all()
    here.files.export_to(tmp_path / "some.json", here.every()[0])
    await here.files.finish()
    assert "Berlin" not in (tmp_path / "some.json").read_text()
    here.kept.close()
    there.kept.close()
