"""Loads a model with the limits of its engine."""

from typing import TYPE_CHECKING

from engine.errors import EngineError, ModelLoadFailed
from engine.inference.backend import BatchLimits, OnLoadProgress
from engine.scheduling.context import EngineContext
from engine.scheduling.failures import cause_of
from engine.scheduling.jobs import Source

if TYPE_CHECKING:
    from engine.inference.mlx_backend import MlxBackend


def load_backend(
    context: EngineContext, source: Source, cache_bytes: int, on_progress: OnLoadProgress
) -> "MlxBackend":
    """Return a loaded model; raises ``EngineError``, whatever went wrong in a library."""
    limits, folder = context.limits, source.folder
    batch = BatchLimits(
        limits.prefill_chunk, cache_bytes, limits.max_rows, not limits.plain_decoding, context.disk
    )
    # Most loaders do not know about draft models.
    draft = {} if source.draft is None else {"draft": source.draft}
    try:
        return context.loader(folder, limits=batch, on_progress=on_progress, **draft)
    except EngineError:
        raise
    except Exception as error:
        raise ModelLoadFailed(cause_of(error, folder, folder.resolve())) from error
