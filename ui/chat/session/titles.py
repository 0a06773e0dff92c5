"""Titles of conversations, which the model writes in the background. Main thread."""

import re
from pathlib import Path

from PySide6.QtCore import QObject

from engine import Engine
from engine.errors import EngineError
from engine.stopping.record import StopKind
from ui.chat.session.background_answers import answer_text, background_request
from ui.chat.session.conversation_list import ConversationList
from ui.chat.session.open_conversations import OpenConversations
from ui.kit.tasks import finish_tasks, start_task
from ui.models.models import Models
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage
from ui.records.runs import Run
from ui.records.titles import plain_line, title_of

_READ_CHARS = 1_200
_LABEL = re.compile(r"^(?:title|titel|titre|título)\s*[:：]\s*", re.IGNORECASE)
_QUOTES = "\"'“”„‘’«»`*_ "
# Beginnings of replies to the user instead of a title.
_CHATTER = re.compile(r"^(?:sure|certainly|of course|here (?:is|are)|i('m| am| can)|sorry)\b", re.I)


class Titles(QObject):
    """Names a conversation once its first answer is there, unless the user has named it."""

    def __init__(
        self,
        engine: Engine,
        in_memory: OpenConversations,
        conversations: ConversationList,
        model: Models,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self.is_on = True
        self.excluded_models: tuple[Path, ...] = ()
        self._engine = engine
        self._conversations = conversations
        self._model = model
        in_memory.answer_ended.connect(self._consider)

    async def finish(self) -> None:
        self.is_on = False
        await finish_tasks(self)

    def _consider(self, conversation: Conversation, run: Run) -> None:
        questions = [message for message in conversation.messages if message.run is None]
        is_answer = run.finished is not None and run.finished.stop.kind is not StopKind.TOOL_CALL
        if not self.is_on or len(questions) != 1 or not (is_answer and run.text.strip()):
            return
        if conversation.title == _first_title(questions[0]):
            start_task(self, self._name(conversation, questions[0], run), "name a conversation")

    async def _name(
        self, conversation: Conversation, question: ConversationMessage, run: Run
    ) -> None:
        try:
            title = await self._written(conversation, question, run)
        except EngineError:
            return
        is_deleted = self._conversations.with_id(conversation.id) is None
        if title and not is_deleted and conversation.title == _first_title(question):
            self._conversations.rename(conversation, title)

    async def _written(
        self, conversation: Conversation, question: ConversationMessage, run: Run
    ) -> str:
        """Return a title; empty if the model writes none, or is not in memory any more."""
        choice = conversation.model
        info = self._model.status(None if choice is None else choice.folder).info
        if info is None or info.path in self.excluded_models:
            return ""
        prompt = (
            "Write a title of at most six words for the conversation below, in its language. "
            "Write the title only.\n\n"
            f"User: {question.typed[:_READ_CHARS].strip() or _first_title(question)}\n\n"
            f"Assistant: {run.text[:_READ_CHARS].strip()}"
        )
        request = background_request(prompt, info, 24)
        text, finished = await answer_text(self._engine, request)
        return "" if finished.stop.kind is not StopKind.EOS else written_title(text)


def _first_title(question: ConversationMessage) -> str:
    return title_of(question.typed, (file.name for file in question.files))


def written_title(text: str) -> str:
    """Return the title in what a model wrote; empty if that is no title."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    title = _LABEL.sub("", plain_line(line).strip(_QUOTES)).strip(_QUOTES).rstrip(".:;,")
    words = title.split()
    repeats = max((words.count(word) for word in words), default=0)
    is_title = 0 < len(words) <= 8 and len(title) <= 60 and repeats < 3
    if not is_title or _CHATTER.match(title) or not any(char.isalpha() for char in title):
        return ""
    return title
