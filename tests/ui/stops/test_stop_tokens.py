"""The tokens of stop sequences, asked for while conversations come and go."""

import asyncio

import pytest
import shiboken6

from ui.kit.tasks import finish_tasks
from ui.stops.stop_rows import Pieces, StopTokens


async def test_tokens_that_arrive_after_their_conversation_was_closed_harm_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    is_asked, may_answer = asyncio.Event(), asyncio.Event()

    async def tokenize(text: str) -> Pieces:
        is_asked.set()
        await may_answer.wait()
        return ((1, text),)

    tokens = StopTokens()
    tokens.use(tokenize, ["END"])
    await is_asked.wait()
    shiboken6.delete(tokens)
    may_answer.set()
    await finish_tasks(tokens)
    assert tokens.count("END") == "1"
    assert caplog.records == []
