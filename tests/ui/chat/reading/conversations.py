"""Conversations that are long enough to scroll, and the end of their answers."""

from tests.support.answers.said import finished_run
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage


def long_conversation(turns: int = 24) -> Conversation:
    messages: list[ConversationMessage] = []
    for number in range(turns):
        messages.append(ConversationMessage("user", f"Question {number}"))
        text = f"Answer {number}: **bold** words.\n\n" + "More words follow.\n\n" * 6
        run = finished_run(text, thinking="", thinking_s=None, tool_calls=[])
        messages.append(ConversationMessage("assistant", text, run))
    return Conversation("Long", messages)
