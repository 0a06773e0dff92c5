"""When the text of the composer is saved."""

from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from ui.chat.session.workspace import DraftKeeping
from ui.records.conversations import Conversation


def test_a_draft_is_saved_while_somebody_types_without_a_pause(qtbot: QtBot) -> None:
    saved: list[str] = []
    owner, conversation = QObject(), Conversation()
    drafts = DraftKeeping(lambda one: saved.append(one.draft), owner)

    def types_another_letter() -> bool:
        drafts.change(conversation, conversation.draft + "a")
        return bool(saved)

    # It is asked again every 10 ms, so no pause is long enough to count as one.
    qtbot.waitUntil(types_another_letter, timeout=20_000)
    drafts.keep()
    assert saved[-1] == conversation.draft
