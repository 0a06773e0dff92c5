import asyncio
from pathlib import Path

import pytest

from app.desktop.window import open_conversations, requested_conversation
from app.settings.options import AnswerOptions, ChatOptions
from ui.preferences import NewConversation
from ui.records.conversations import Conversation
from ui.records.store import StoreProblem


def test_conversation_from_options() -> None:
    answer = AnswerOptions(
        ("END", "\n"),
        NewConversation("Brief.", max_tokens=9, temperature=0.5, is_thinking=True),
    )
    conversation = requested_conversation(ChatOptions(answer=answer))
    assert conversation is not None
    assert conversation.enabled_stops() == ("END", "\n")
    settings = conversation.settings
    assert (settings.system_prompt, settings.temperature) == ("Brief.", 0.5)
    assert (settings.max_tokens, settings.is_thinking) == (9, True)


def test_unusable_folder_gives_memory_store(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("FULLSTOP_DATA_DIR", str(tmp_path / "file"))

    async def problem() -> StoreProblem | None:
        async with open_conversations() as store:
            return store.problem

    told = asyncio.run(problem())
    assert told is not None
    assert told.sentence == "Your conversations are not being saved."


def test_data_folder_of_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FULLSTOP_DATA_DIR", str(tmp_path / "data"))

    async def kept(conversation: Conversation) -> list[Conversation]:
        async with open_conversations() as store:
            store.save(conversation)
            return store.conversations()

    first = Conversation("Kept")
    assert asyncio.run(kept(first)) == []
    (found,) = asyncio.run(kept(Conversation()))
    assert found.id == first.id
    assert (tmp_path / "data" / "conversations.db").is_file()
