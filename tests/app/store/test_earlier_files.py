"""Files that earlier versions of the program wrote, kept here byte for byte."""

import shutil
import sqlite3
from pathlib import Path

from app.store.schema import VERSION
from engine.stopping.record import StopKind
from tests.app.store.conftest import opened, recovered
from ui.records.conversations import ConversationFolder, Placement
from ui.records.stop_entries import StopEntry
from ui.records.store import Recovered

EARLIER = Path(__file__).parent / "earlier"


async def test_database_version_2_is_migrated(path: Path) -> None:
    path.parent.mkdir()
    shutil.copyfile(EARLIER / "conversations-2.db", path)
    folder = ConversationFolder("Work", "Be formal.", (StopEntry.of("END"),))

    async with opened(path) as store:
        assert store.problem is None
        counting, plain = store.conversations()
        await store.fill(counting)
        assert (counting.title, plain.draft) == ("Counting", "only a draft")
        assert counting.is_pinned
        assert counting.placement == Placement()
        assert [m.content for m in counting.messages] == ["Count to five.", "1, 2, 3, 4, 5 "]
        assert len(counting.tree) == 3
        run = counting.messages[-1].run
        assert run is not None
        assert run.finished is not None
        assert run.finished.stop.kind is StopKind.STOP_STRING
        assert [preset.name for preset in store.presets()] == ["Careful"]
        counting.placement = Placement(folder.id, True)
        counting.origin, counting.stops_from = "chatgpt:1", f"folder:{folder.id}"
        store.save_folder(folder)
        store.save(counting)
    async with opened(path) as store:
        counting = store.conversations()[0]
        assert counting.placement == Placement(folder.id, True)
        assert (counting.origin, counting.stops_from) == ("chatgpt:1", f"folder:{folder.id}")
        assert store.folders() == [folder]
        store.delete_folder(folder.id)
    async with opened(path) as store:
        assert store.folders() == []
    assert path.stat().st_mode & 0o777 == 0o600
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
    connection.close()


async def test_damaged_database_version_2_is_recovered(path: Path) -> None:
    path.parent.mkdir()
    shutil.copyfile(EARLIER / "conversations-2.db", path)
    with sqlite3.connect(path) as damaging:
        damaging.execute("PRAGMA writable_schema = ON")
        damaging.execute(
            "UPDATE sqlite_master SET sql = CAST(x'41ff42' AS TEXT) WHERE name = 'presets'"
        )
    damaging.close()

    async with opened(path) as store:
        assert store.problem is not None
        assert store.conversations() == []
        outcome, _ = await recovered(store)
        assert outcome == Recovered(conversations=2, messages=3)
    async with opened(path) as store:
        assert {one.title for one in store.conversations()} == {"Counting", "Plain"}


async def test_database_version_2_accepts_pins_and_summaries(path: Path) -> None:
    path.parent.mkdir()
    shutil.copyfile(EARLIER / "conversations-2.db", path)

    async with opened(path) as store:
        counting = store.conversations()[0]
        await store.fill(counting)
        assert not any(message.is_pinned or message.summary for message in counting.tree)
        asked, answer = counting.messages
        asked.summary, answer.is_pinned = "Before.", True
        counting.when_full = "summarize"
        counting.queue = (("And then?", ()),)
        store.save(counting)
        store.save_messages(counting, [asked, answer])
    async with opened(path) as store:
        counting = store.conversations()[0]
        assert (counting.when_full, counting.queue[0][0]) == ("summarize", "And then?")
        await store.fill(counting)
        asked, answer = counting.messages
        assert (asked.summary, asked.is_pinned, answer.is_pinned) == ("Before.", False, True)
        assert answer.run is not None
        assert answer.run.finished is not None
