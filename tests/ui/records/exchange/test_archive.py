import json
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from engine.files.json_fields import DamagedFile
from tests.support.answers.said import conversation
from tests.support.kept import preferences_state
from tests.support.memory_store import MemoryConversationStore
from tests.support.outside.exports import import_all, read_whole
from ui.chat.session.conversation_files import ConversationFiles
from ui.chat.session.conversation_list import ConversationList
from ui.chat.session.presets import PresetList
from ui.chat.session.traces import Traces
from ui.records.codec import Preset, presets_from_json, presets_json
from ui.records.conversations import (
    Conversation,
    ConversationFolder,
    ConversationSettings,
    Placement,
)
from ui.records.exchange.archive import (
    conversation_markdown,
    conversations_from_json,
    conversations_json,
)
from ui.records.messages import ConversationMessage
from ui.records.run_report import markdown_report
from ui.records.stop_entries import StopEntry
from ui.tools.memory import Memory


def test_a_conversation_survives_a_file_whole_with_its_versions() -> None:
    written = conversation("Größe?\n```")
    question, first = written.messages
    written.tree.add(ConversationMessage("user", "edited"), None)
    written.tree.show(first)
    (read,) = conversations_from_json(conversations_json([written]))
    for name in ("title", "settings", "stops", "draft", "created_at", "updated_at", "is_pinned"):
        assert getattr(read, name) == getattr(written, name)
    assert [m.content for m in read.messages] == ["Größe?\n```", "1 2 3"]
    assert [m.content for m in read.tree.versions(read.messages[0])] == ["Größe?\n```", "edited"]
    before, after = first.run, read.messages[1].run
    assert before is not None
    assert after is not None
    assert (after.finished, after.stops, after.thinking) == (
        before.finished,
        before.stops,
        before.thinking,
    )
    assert read.id != written.id
    assert question.id not in {m.id for m in read.tree}


def test_an_archive_carries_folders_and_presets(tmp_path: Path) -> None:
    written = conversation()
    folder = ConversationFolder("Work", "Be formal.", (StopEntry.of("END", False),), is_open=False)
    written.placement = Placement(folder.id, True)
    written.stops_from = f"folder:{folder.id}"
    preset = Preset("Terse", ConversationSettings("Be brief."))
    path = tmp_path / "all.json"
    path.write_text(conversations_json([written], [folder], [preset]), encoding="utf-8")
    found = read_whole(path, 1 << 20)
    (read,) = found.conversations
    assert read.placement == written.placement
    assert read.stops_from == written.stops_from
    assert read.origin == f"fullstop:{written.id}"
    assert (found.folders, found.presets, found.damaged) == ([folder], [preset], [])


def test_an_archive_of_an_earlier_version_opens() -> None:
    text = (Path(__file__).parent / "earlier" / "archive-1.json").read_text(encoding="utf-8")
    counting, plain = conversations_from_json(text)
    assert [m.content for m in counting.messages] == ["Count to five.", "1, 2, 3, 4, 5 "]
    assert len(counting.tree) == 3
    assert (counting.title, plain.draft) == ("Counting", "only a draft")
    assert counting.placement == Placement()


def test_a_damaged_part_of_an_archive_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    values = json.loads(conversations_json([conversation(), conversation(), conversation()]))
    values["conversations"][1]["messages"][0]["text"] = 7
    values["folders"] = [{"name": "without an id"}]
    (tmp_path / "all.json").write_text(json.dumps(values), encoding="utf-8")
    found = read_whole(tmp_path / "all.json", 1 << 20)
    assert len(found.conversations) == 2
    assert found.damaged == [
        "conversations[1].messages[0].text: must be text",
        "folders[0].id: is missing",
    ]


@pytest.mark.parametrize("has_run", [True, False])
def test_an_answer_without_a_known_end_is_not_called_interrupted(has_run: bool) -> None:
    values = json.loads(conversations_json([conversation()]))
    answer = values["conversations"][0]["messages"][1]
    if has_run:
        answer["run"]["state"] = "of a later version"
    else:
        del answer["run"]
    (read,) = conversations_from_json(json.dumps(values))
    run = read.messages[1].run
    assert run is not None
    assert (run.text, run.state) == ("1 2 3", "unrecorded")
    assert run.is_over
    assert "nterrupted" not in conversation_markdown(read) + markdown_report(run, "Count")


def test_markdown_has_what_is_shown_and_why_it_ended() -> None:
    text = conversation_markdown(conversation())
    assert text.startswith("# Counting\n\n## System prompt\n\nBe brief.\n\n## You\n\nCount\n")
    assert "## demo-model, " in text
    assert '1 2 3\n~~6~~\n\nCalled `add`:\n\n    {"a": 1}\n\n*' in text
    assert "Stopped by “⏎6”" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v.pop("fullstop_conversations"), "fullstop_conversations: is missing"),
        (lambda v: v.update(fullstop_conversations=99), "newer version"),
        (
            lambda v: v["conversations"][0]["messages"][1].update(parent="x"),
            r"conversations\[0\].messages\[1\].parent: must be the id of an earlier message",
        ),
        (
            lambda v: v["conversations"][0].update(stops=[{"sequence": ""}]),
            r"conversations\[0\].stops: each stop sequence must be non-empty",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_named(change: object, message: str) -> None:
    values = json.loads(conversations_json([conversation()]))
    assert callable(change)
    change(values)
    with pytest.raises(DamagedFile, match=message):
        conversations_from_json(json.dumps(values))


def test_presets_survive_a_file() -> None:
    presets = [
        Preset(
            "Terse",
            ConversationSettings("Be brief.", temperature=0.2, seed=7),
            (StopEntry.of("\n", False),),
        ),
        Preset("Ä", ConversationSettings()),
    ]
    assert presets_from_json(presets_json(presets)) == presets


def library() -> tuple[ConversationFiles, ConversationList]:
    store = MemoryConversationStore()
    store.save(conversation())
    conversations = ConversationList(store)
    memory = Memory(store, preferences_state(), lambda: (), lambda _: None)
    files = ConversationFiles(store, conversations, PresetList(store), Traces(), memory)
    return files, conversations


async def test_exported_conversations_are_imported_beside_the_existing_ones(
    qapp: QApplication, tmp_path: Path
) -> None:
    files, conversations = library()
    added: list[Conversation] = []
    files.added.connect(added.append)
    files.export_to(tmp_path / "c.json", conversations.every()[0])
    files.export_to(tmp_path / "c.md", conversations.every()[0])
    files.export_all_to(tmp_path / "all.json")
    await files.finish()
    import_all(files, tmp_path / "all.json")
    await files.finish()
    assert len(conversations.every()) == 2
    assert added[0].title == "Counting"
    assert (tmp_path / "c.md").read_text().startswith("# Counting")
    assert (tmp_path / "c.json").read_text() == (tmp_path / "all.json").read_text()


async def test_an_import_cancelled_while_its_file_is_read_adds_nothing(
    qapp: QApplication, tmp_path: Path
) -> None:
    files, conversations = library()
    events: list[object] = []
    files.imports.looked.connect(events.append)
    files.refused.connect(events.append)
    text = conversations_json([conversation(str(number)) for number in range(60)])
    (tmp_path / "many.json").write_text(text, encoding="utf-8")

    def cancel() -> None:
        if files.transfers.now is not None and not files.transfers.now.is_cancelled:
            files.transfers.cancel()

    files.transfers.changed.connect(cancel)
    files.imports.look_into(tmp_path / "many.json")
    await files.finish()
    assert files.transfers.now is None
    assert (events, len(conversations.every())) == ([], 1)


async def test_a_file_that_holds_nothing_is_refused_in_words(
    qapp: QApplication, tmp_path: Path
) -> None:
    files, conversations = library()
    said: list[str] = []
    files.refused.connect(said.append)
    (tmp_path / "no.json").write_bytes(b"\xff\xfe")
    import_all(files, tmp_path / "no.json")
    import_all(files, tmp_path / "missing.json")
    files.export_to(tmp_path / "no folder" / "c.json", conversations.every()[0])
    await files.finish()
    assert len(said) == 3
    assert "“missing.json” could not be read: there is no such file or folder." in said
    assert len(conversations.every()) == 1


async def test_a_duplicate_is_a_conversation_of_its_own(qapp: QApplication) -> None:
    files, conversations = library()
    files.duplicate(conversations.every()[0])
    await files.finish()
    assert [conversations.every()[row].title for row in range(2)] == [
        "Counting (copy)",
        "Counting",
    ]
    copy, original = conversations.every()[0], conversations.every()[1]
    copy.add(ConversationMessage("user", "more"))
    assert len(original.messages) == 2


async def test_presets_are_exported_and_imported_by_name(
    qapp: QApplication, tmp_path: Path
) -> None:
    store = MemoryConversationStore()
    presets = PresetList(store)
    presets.keep(Preset("Terse", ConversationSettings("Be brief.")))
    presets.export_to(tmp_path / "presets.json")
    await presets.finish()
    presets.keep(Preset("Terse", ConversationSettings("Changed.")))
    presets.keep(Preset("Other", ConversationSettings()))
    presets.import_from(tmp_path / "presets.json")
    await presets.finish()
    assert [preset.name for preset in presets.all()] == ["Other", "Terse"]
    kept = presets.get("Terse")
    assert kept is not None
    assert kept.settings.system_prompt == "Be brief."
    presets.delete("Other")
    assert [preset.name for preset in store.presets()] == ["Terse"]


async def test_a_file_without_presets_is_refused_in_words(
    qapp: QApplication, tmp_path: Path
) -> None:
    presets = PresetList(MemoryConversationStore())
    said: list[str] = []
    presets.refused.connect(said.append)
    (tmp_path / "p.json").write_text(conversations_json([]))
    for name in ("p.json", "missing.json"):
        presets.import_from(tmp_path / name)
        await presets.finish()
    presets.export_to(tmp_path)
    await presets.finish()
    assert [line.split(":")[0] for line in said] == [
        "p.json is not a file of presets",
        "“missing.json” could not be read",
        f"“{tmp_path.name}” could not be written",
    ]
