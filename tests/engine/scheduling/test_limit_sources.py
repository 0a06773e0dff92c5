"""The record of an answer that a limit ended has who set the limit."""

from pathlib import Path

import pytest

from app.settings.options import AnswerOptions
from engine.stopping.record import StopKind
from engine.values.request import LimitSource, Message
from tests.support.asking import scripted_answer
from tests.support.scripted import Stage
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage
from ui.records.requests import request_for


@pytest.mark.parametrize(
    ("asked", "kind", "source"),
    [
        ({"max_tokens": 3}, StopKind.MAX_TOKENS, LimitSource.REQUEST),
        ({"max_tokens": 0}, StopKind.MAX_TOKENS, LimitSource.REQUEST),
        (
            {"max_tokens": 3, "max_tokens_from": LimitSource.SETTINGS},
            StopKind.MAX_TOKENS,
            LimitSource.SETTINGS,
        ),
        ({}, StopKind.CONTEXT_FULL, LimitSource.MODEL),
        ({"max_tokens": 999}, StopKind.CONTEXT_FULL, LimitSource.MODEL),
        ({"max_tokens": 50}, StopKind.EOS, None),
    ],
)
def test_record_has_who_set_the_limit(
    tmp_path: Path, asked: dict[str, object], kind: StopKind, source: LimitSource | None
) -> None:
    context = 24 if kind is StopKind.CONTEXT_FULL else 200
    stage = Stage(tmp_path, {"go": ["a"] * 30}, context=context)
    finished = scripted_answer(stage, "go", **asked).finished
    assert (finished.stop.kind, finished.details.limit_from) == (kind, source)


def test_requests_of_the_window_and_of_the_command_line_name_their_source() -> None:
    question = ConversationMessage("user", "Hi")
    sent = request_for(Conversation(messages=[question]), None, question)
    assert sent.max_tokens_from is sent.thinking_budget_from is LimitSource.SETTINGS
    asked = AnswerOptions().request((Message("user", "Hi"),))
    assert asked.max_tokens_from is asked.thinking_budget_from is LimitSource.COMMAND
