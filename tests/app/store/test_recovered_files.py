"""Files in the message field of a damaged database are recovered with the draft."""

from pathlib import Path

from tests.app.store.conftest import BAD_SCHEMA, changed, opened, recovered
from ui.records.attachments import Attachment
from ui.records.conversations import Conversation
from ui.records.store import Recovered


async def test_files_in_the_message_field_are_recovered_once_with_the_draft(path: Path) -> None:
    file = Attachment("notes.txt", "all of the notes")

    async with opened(path) as store:
        for title, draft in (("Kept", "about these"), ("Lost", ""), ("Silent", "")):
            one = Conversation(title, draft=draft)
            if title != "Silent":
                one.attachments = (file, file)
            store.save(one)

    bad = "INSERT INTO attached SELECT id, 'damaged' FROM conversations WHERE title = 'Silent'"
    changed(path, bad, "DELETE FROM conversations WHERE title = 'Lost'", BAD_SCHEMA)

    async with opened(path) as store:
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
