"""Writes calls and results as turns, for models with tools and without. Pure."""

from collections.abc import Iterable

from engine import Message
from ui.records.attachments import without_picture_files
from ui.records.messages import ConversationMessage
from ui.records.tooling.calls import NOT_RUN


def turns_of(messages: list[ConversationMessage]) -> list[Message]:
    """Return the messages as turns, each call followed by its result.

    Reasoning before a call is kept with the call until the question is answered, so that the model
    can continue it.
    """
    questions = [n for n, one in enumerate(messages) if one.role == "user"]
    last_question = questions[-1] if questions else -1
    turns: list[Message] = []
    for number, message in enumerate(messages):
        run = message.run
        if run is None or not run.tool_calls:
            turns.append(Message(message.role, _read_text(message)))
            continue
        thinking = run.thinking if number > last_question else ""
        turns.append(Message("assistant", message.text, thinking, tuple(run.tool_calls)))
        for call in run.tool_calls:
            result = run.result_of(call.id)
            text = NOT_RUN if result is None else result.sent
            turns.append(Message("tool", text, tool_call_id=call.id, name=call.name))
    return turns


def _read_text(message: ConversationMessage) -> str:
    if message.attached_chars:
        return without_picture_files(message.text)
    return "(a picture)" if message.pictures and not message.text.strip() else message.text


def questions_joined(messages: Iterable[Message]) -> list[Message]:
    """Return a conversation without two questions in a row, which many templates reject.

    A message that has no answer is joined with the question after it.
    """
    joined: list[Message] = []
    for message in messages:
        if joined and message.role == "user" == joined[-1].role:
            joined[-1] = Message("user", f"{joined[-1].content}\n\n{message.content}")
        else:
            joined.append(message)
    return joined


def without_tools(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return a conversation for a model whose template has no calls: they are written as text."""
    told: list[Message] = []
    for message in messages:
        role, content = message.role, message.content
        if role == "tool":
            role, content = "user", f"Result of {message.name or 'a tool'}:\n{content}"
        elif message.tool_calls:
            called = "\n".join(f"{one.name}({one.arguments})" for one in message.tool_calls)
            content = "\n\n".join(filter(None, (content, called)))
        told.append(Message(role, content))
    return tuple(questions_joined(told))


def has_tools(messages: Iterable[Message]) -> bool:
    """Return whether a conversation has calls or results."""
    return any(message.role == "tool" or message.tool_calls for message in messages)
