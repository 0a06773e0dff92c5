"""Plans the prompt of a message: for the context meter, and for the request.

Main thread.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace

from engine import Engine
from engine.errors import EngineError
from engine.library.model_info import ModelInfo
from engine.library.purpose import purpose_of
from engine.values.embedding import EmbeddingRequest
from engine.values.request import GenerationRequest
from ui.kit.tasks import cancel_tasks, finish_tasks, restart_task
from ui.records.conversations import Conversation, ConversationSettings, WhenFull
from ui.records.facts import Fact
from ui.records.messages import ConversationMessage
from ui.records.passages import Document, FindPassages, Found, PassageSearch, QuestionVector
from ui.records.pictures import NO_PICTURES, Pictures, read_pictures
from ui.records.prompt_fit import MakeRequest, PromptFit, TokenCounter, fitted_prompt
from ui.records.requests import fitted, prompt_messages, sent_messages
from ui.records.runs import LeftOut
from ui.records.store import ConversationStore

# Passages that become vectors together, between which the engine does other work.
_TOGETHER = 16
_EMBEDDING = "embed passages"


class PromptPlanner:
    """Fits the messages of conversations into the contexts of their models."""

    def __init__(self, engine: Engine, store: ConversationStore) -> None:
        self._engine = engine
        self._store = store
        self._pictures = NO_PICTURES  # of the last plan
        self.when_full: WhenFull = "leave_out"

    def when_full_of(self, conversation: Conversation) -> WhenFull:
        """Return what happens to a conversation's oldest messages when it is too long."""
        return conversation.when_full or self.when_full

    def counter(self, model: ModelInfo) -> TokenCounter:
        return TokenCounter(self._engine, model)

    async def pictures(self, path: Sequence[ConversationMessage], model: ModelInfo) -> Pictures:
        """Return the pictures of messages that a model sees."""
        if not model.can_see:
            return {}
        # The requests of a conversation's turns, which are recorded, share their pictures.
        folder, before = self._store.pictures_folder, self._pictures
        self._pictures = await asyncio.to_thread(read_pictures, folder, path, before)
        return self._pictures

    async def fit(
        self,
        conversation: Conversation,
        message: ConversationMessage,
        request: GenerationRequest,
        settings: ConversationSettings,
        model: ModelInfo,
        before: LeftOut | None,
        *,
        facts: Sequence[Fact],
        without: str | int | None = None,
        uncut: str = "",
        is_draft: bool = False,
    ) -> tuple[PromptFit, MakeRequest]:
        """Return the prompt that ends with a message, and the function that makes its requests.

        The message need not be in the conversation yet. ``before`` is what the answer before was
        without; ``uncut`` names a message to send whole.
        """
        pictures = await self.pictures(conversation.tree.path_to(message), model)
        begun = request.messages[-1].content if request.continues_message else ""
        is_summarized = self.when_full_of(conversation) == "summarize"

        def make(messages: Sequence[ConversationMessage], first: str) -> GenerationRequest:
            summarized = first if is_summarized else ""
            system = settings.system_prompt
            sent = prompt_messages(messages, system, facts, begun, summarized, pictures)
            return fitted(replace(request, messages=sent), settings, model, without)

        fit = await fitted_prompt(
            conversation.tree.path_to(message),
            sent_messages(conversation, message),
            make,
            self.counter(model),
            self.when_full_of(conversation),
            before,
            uncut,
            self.search_of(conversation, message, is_draft=is_draft),
        )
        return fit, make

    def search_of(
        self, conversation: Conversation, message: ConversationMessage, *, is_draft: bool
    ) -> FindPassages | None:
        """Return the search for passages; None if there is nothing to search."""
        folder_id = conversation.placement.folder_id
        path = conversation.tree.path_to(message)
        if not folder_id and not any(each.attached_chars for each in path):
            return None

        async def find(documents: Sequence[Document], questions: Sequence[str]) -> Found:
            has_any = bool(documents or folder_id)
            if is_draft and not has_any:  # nothing to remove from the index
                return Found((), ())
            search = PassageSearch(documents, questions, conversation.id, folder_id, is_draft)
            model = self._embedding_model() if has_any and questions and not is_draft else None
            if model is None:
                return await self._store.find_passages(search)
            with contextlib.suppress(EngineError):
                [numbers] = await self._vectors(model, questions[-1:])
                search = replace(search, vector=QuestionVector(model, numbers))
            found = await self._store.find_passages(search)
            # Their words are enough until all have vectors, which may take minutes.
            restart_task(self, self._embed(conversation.id, folder_id, model), _EMBEDDING)
            return found

        return find

    def _embedding_model(self) -> str | None:
        """Return the name of a loaded embedding model."""
        models = (model for model in self._engine.models if model.is_loaded)
        return next((m.id for m in models if purpose_of(m.folder, "") == "embeddings"), None)

    async def _vectors(self, model: str, texts: Sequence[str]) -> list[bytes]:
        request = EmbeddingRequest(tuple(texts), truncates=True, model=model)
        return [vector.tobytes() for vector in (await self._engine.embed(request)).vectors]

    async def _embed(self, conversation_id: str, folder_id: str, model: str) -> None:
        """Give all passages of a conversation's documents vectors."""
        owners = conversation_id, folder_id
        with contextlib.suppress(EngineError):  # such as a model that is unloaded
            while missing := await self._store.passages_without_vector(*owners, model, _TOGETHER):
                vectors = await self._vectors(model, [text for _, text in missing])
                numbers = [number for number, _ in missing]
                if not await self._store.save_vectors(model, [*zip(numbers, vectors, strict=True)]):
                    return

    async def finish(self) -> None:
        """End the embedding of passages."""
        cancel_tasks(self, _EMBEDDING)
        await finish_tasks(self)
