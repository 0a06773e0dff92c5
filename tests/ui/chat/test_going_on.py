"""An answer that is continued goes on from the tokens that were recorded, not from their text."""

from pathlib import Path

import pytest

from engine.stopping.record import StopKind
from tests.support.asking import loaded_engine
from tests.support.scripted import GO, Stage
from tests.ui.driving import ended, session
from ui.chat.session.conversation_controller import ConversationController
from ui.records.conversations import Conversation, ConversationSettings
from ui.records.runs import Run
from ui.records.stop_entries import StopEntry

# In other tokens than a tokenizer makes of the text: "tea" could also be the piece "tea".
PIECES = ["Boil the t", "ea", ".\n", "St", "ir", " it."]


async def whole(chat: ConversationController, run: Run | None) -> Run:
    assert run is not None
    await ended(chat)
    return run


@pytest.mark.parametrize(
    ("stop", "limit", "recorded"),
    [("\nSt", None, 4), ("tea", None, 2), (None, 2, 2)],
)
async def test_the_continued_prompt_has_the_recorded_ids_with_those_of_the_stop(
    tmp_path: Path, stop: str | None, limit: int | None, recorded: int
) -> None:
    stage = Stage(tmp_path, {"Tea?": PIECES}, pieces=[*PIECES, "tea", "Stir"])
    conversation = Conversation(settings=ConversationSettings("Be brief.", max_tokens=limit))
    conversation.stops = [StopEntry.of(stop)] if stop is not None else []
    async with loaded_engine(Path("scripted"), loader=stage.load) as engine:
        chat = session(engine, conversation)
        first = await whole(chat, chat.send("Tea?"))
        assert first.finished is not None
        assert first.finished.stop.kind in (StopKind.STOP_STRING, StopKind.MAX_TOKENS)
        conversation.settings = ConversationSettings("Be brief.")
        longer = await whole(chat, chat.continue_answer(conversation.messages[-1]))
        trace = chat._traces.get(longer.id)
        assert trace is not None
        assert trace.request is not None
        ids = [token_id for piece in PIECES for token_id in stage.ids(piece)]
        assert list(trace.request.begun) == ids[:recorded]
        read = [token_id for token_id, _ in await engine.prompt_pieces(trace.request)]
        assert read[-recorded - 1 :] == [stage.id(GO), *ids[:recorded]]
        assert longer.text == "".join(PIECES)
        assert longer.continued_chars == len("".join(PIECES[:recorded]))
        assert [token.token_id for token in trace.tokens][: len(ids) - recorded] == ids[recorded:]


async def test_with_another_system_prompt_an_answer_goes_on_from_its_text(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"Tea?": PIECES})
    conversation = Conversation(settings=ConversationSettings(max_tokens=2))
    async with loaded_engine(Path("scripted"), loader=stage.load) as engine:
        chat = session(engine, conversation)
        await whole(chat, chat.send("Tea?"))
        conversation.settings = ConversationSettings("Be brief.", max_tokens=1)
        longer = await whole(chat, chat.continue_answer(conversation.messages[-1]))
        trace = chat._traces.get(longer.id)
        assert trace is not None
        assert trace.request is not None
        assert trace.request.begun == ()
        assert trace.request.messages[0].content == "Be brief."
        assert trace.request.messages[-1].content == "Boil the tea"
