"""Passages get vectors where an embedding model is loaded."""

import asyncio
from array import array
from functools import partial
from pathlib import Path
from typing import cast

from app.store.conversation_store import SqliteConversationStore
from engine import Engine
from engine.errors import EngineError
from engine.scheduling.model_list import ModelStatus
from engine.values.embedding import EmbeddingRequest, Embeddings, Vector
from ui.chat.session.prompt_planner import PromptPlanner
from ui.records.attachments import Attachment
from ui.records.conversations import Conversation
from ui.records.messages import question
from ui.records.passages import Document

TEXT = "\n\n".join(
    f"# {title}\n\n{fact} {'Filler text. ' * 100}"
    for title, fact in (("Meals", "Bread and soup."), ("Animals", "Dogs bark."))
)
NOTES = Attachment("notes.txt", TEXT)


class EmbeddingEngine:
    """An engine whose vectors know that zoology is about dogs."""

    def __init__(self, name: str) -> None:
        self.models = (ModelStatus(name, Path(f"/models/{name}"), "ready"),)
        self.embedded: list[str] = []
        self.fails = False

    async def embed(self, request: EmbeddingRequest) -> Embeddings:
        assert request.model == self.models[0].id
        if self.fails:
            raise EngineError("gone")
        texts = [text for text in request.inputs if isinstance(text, str)]
        self.embedded += texts
        vectors = [self._vector("Dogs" in text or "zoology" in text) for text in texts]
        return Embeddings(tuple(vectors), tuple(len(text) for text in texts))

    def _vector(self, is_animal: bool) -> Vector:
        return array("f", [float(is_animal), float(not is_animal)])


async def found_first(engine: EmbeddingEngine, store: SqliteConversationStore) -> str:
    conversation = Conversation("c", [question("zoology?", [NOTES])], id="c")
    planner = PromptPlanner(cast(Engine, engine), store)
    find = planner.search_of(conversation, conversation.messages[0], is_draft=False)
    assert find is not None
    found = await find([Document.of(NOTES)], ["zoology?"])
    is_embedding = engine.models[0].id == "demo-embed" and not engine.fails
    async with asyncio.timeout(60):
        missing = partial(store.passages_without_vector, "c", "", "demo-embed", 9)
        while is_embedding and await missing():  # noqa: ASYNC110 - what is awaited is the store
            await asyncio.sleep(0.01)
    await planner.finish()
    return "" if found.is_spread else found.ranked[0][1].text


async def test_question_is_not_embedded_without_documents() -> None:
    store = SqliteConversationStore(None)
    await store.open()
    engine = EmbeddingEngine("demo-embed")
    conversation = Conversation("c", [question("zoology?", [NOTES])], id="c")
    planner = PromptPlanner(cast(Engine, engine), store)
    find = planner.search_of(conversation, conversation.messages[0], is_draft=False)
    assert find is not None
    assert not (await find([], ["zoology?"])).documents, "the file goes whole"
    await planner.finish()
    assert engine.embedded == []
    await store.aclose()


async def test_passages_are_embedded_once_and_found_by_their_vectors() -> None:
    store = SqliteConversationStore(None)
    await store.open()
    engine = EmbeddingEngine("demo-embed")
    assert await found_first(engine, store) == "", "words alone, while there are no vectors yet"
    assert len(engine.embedded) == 3
    assert "Dogs bark" in await found_first(engine, store)
    assert len(engine.embedded) == 4, "the question alone"
    engine.fails = True
    assert await found_first(engine, store) == ""
    assert await found_first(EmbeddingEngine("demo-chat"), store) == ""
    await store.aclose()
