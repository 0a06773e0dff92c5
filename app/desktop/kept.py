"""Opens what is kept of this person's conversations: the store, and the tokens of answers.

Main thread.
"""

import contextlib
import logging
from collections.abc import AsyncIterator

from app.folders import paths
from app.store.conversation_store import open_store
from app.store.store_problems import StoreUnavailable
from app.store.traces.trace_files import TraceFiles
from ui.preferences.preferences_state import PreferencesState
from ui.records.store import ConversationStore, MemoryConversationStore

_log = logging.getLogger(__name__)


def kept_traces(store: ConversationStore, preferences: PreferencesState) -> TraceFiles:
    """Return what keeps the recorded tokens of conversations, those of deleted ones left out."""
    traces = TraceFiles(paths.traces_folder(), preferences.now.kept_traces_bytes)
    preferences.changed.connect(lambda _: traces.limit_to(preferences.now.kept_traces_bytes))
    if store.problem is None:
        # Where conversations could not be read, nobody knows which were deleted.
        traces.keep_only(frozenset(one.id for one in store.load_all()))
    return traces


@contextlib.asynccontextmanager
async def kept_conversations() -> AsyncIterator[ConversationStore]:
    """Yield the store of this person's conversations; memory, which says so, if there is none."""
    try:
        store = await open_store(paths.conversations_file(), may_wait=True)
    except StoreUnavailable as unavailable:
        _log.error("conversations are not saved: %s", unavailable)
        yield MemoryConversationStore(unavailable.problem)
        return
    try:
        yield store
    finally:
        await store.close()
