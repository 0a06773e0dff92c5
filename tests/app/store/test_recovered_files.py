"""Files in the message field of a damaged database are recovered with the draft."""

from pathlib import Path

from app.store.conversation_store import SqliteConversationStore
from tests.app.store.conftest import BAD_SCHEMA, Use, changed, recovered
from ui.records.attachments import Attachment
from ui.records.conversations import Conversation
from ui.records.store import Recovered


def test_files_in_the_message_field_are_recovered_once_with_the_draft(use: Use, path: Path) -> None:
    file = Attachment("notes.txt", "all of the notes")

    @use
    async def write_drafts(store: SqliteConversationStore) -> None:
        for title, draft in (("Kept", "about these"), ("Lost", ""), ("Silent", "")):
            one = Conversation(title, draft=draft)
            if title != "Silent":
                one.attachments = (file, file)
            store.save(one)

    bad = "INSERT INTO attached SELECT id, 'damaged' FROM conversations WHERE title = 'Silent'"
    changed(path, bad, "DELETE FROM conversations WHERE title = 'Lost'", BAD_SCHEMA)

    @use
    async def steps(store: SqliteConversationStore) -> None:
        outcome, found = await recovered(store)
        assert outcome == Recovered(conversations=3, unreadable=1)
        files = {one.title: (one.draft, one.attachments) for one in found}
        assert files == {
            "Kept": ("about these", (file, file)),
            "Recovered conversation": ("", (file, file)),
            "Silent": ("", ()),
        }
        kept = next(one for one in found if one.title == "Kept")
        kept.attachments = ()
        store.save(kept)
        await store.settled()
        again, found = await recovered(store)
        assert again.conversations == 0
        assert [one.attachments for one in found if one.title == "Kept"] == [()]
