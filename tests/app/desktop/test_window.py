import json
from pathlib import Path

import pytest

from app.desktop.window import requested_conversation
from app.exits import CommandError
from app.settings.options import AnswerOptions, ChatOptions
from engine.stopping.rules import Stop, StopScope
from engine.values.request import Message
from ui.preferences import NewConversation
from ui.records.stop_entries import StopEntry


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


def test_stop_file_joins_the_stops_of_the_command_line(tmp_path: Path) -> None:
    exported, lines = tmp_path / "stops.json", tmp_path / "stops.txt"
    rows = ["a", {"sequence": "b", "scope": "all"}, {"sequence": "c", "is_enabled": False}]
    exported.write_text(json.dumps(rows))
    lines.write_text(" END \n")
    answer = AnswerOptions(("last",), stop_files=(str(exported), str(lines)))
    assert answer.request((Message("user", "Hi"),)).stops.stops == (
        Stop("a"),
        Stop("b", StopScope.ALL),
        Stop(" END "),
        Stop("last"),
    )
    assert answer.new_conversation().stops[2] == StopEntry.of("c", is_enabled=False)


@pytest.mark.parametrize(
    ("text", "said"),
    [("[1]", "Entry 1 of the list is not a string"), (None, "there is no such file")],
)
def test_unusable_stop_file_is_named(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "stops.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(CommandError, match=rf"stops\.json: {said}"):
        AnswerOptions(stop_files=(str(file),)).stop_entries()
