"""Loads a model with mlx-lm. Importing mlx-lm takes a second, so the first load imports it.

No MLX until a model is loaded. Engine thread, except for ``check_model``.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from engine.inference.backend import BatchLimits
from engine.inference.cache.folder import DiskCache
from engine.inference.library_imports import importing_mlx_lm
from engine.library.loading import LoadProgress, OnLoadProgress, ReadingAhead

if TYPE_CHECKING:
    from engine.inference.mlx_backend import MlxBackend


class Loader(Protocol):
    """Loads a model from its folder, on the engine thread."""

    def __call__(
        self,
        folder: Path,
        *,
        limits: BatchLimits,
        on_progress: OnLoadProgress,
        draft: Path | None = None,
    ) -> "MlxBackend":
        """Load a model."""
        ...


def load_model(
    folder: Path,
    *,
    limits: BatchLimits,
    on_progress: OnLoadProgress,
    draft: Path | None = None,
) -> "MlxBackend":
    """Load a model folder. See ``Loader``.

    Args:
        folder: The model.
        limits: The limits of its batch.
        on_progress: Called before each part of the work; may raise ``LoadCancelled``.
        draft: A draft model to load beside it, which must have the same vocabulary.

    Raises:
        ModelLoadFailed: The model cannot be loaded; the message gives the cause.
    """
    on_progress(LoadProgress("libraries"))
    with ReadingAhead(folder) as ahead:
        with importing_mlx_lm():
            import psutil  # noqa: F401  # the first request asks how much memory is free

            from engine.inference import mlx_loading

        return mlx_loading.load(
            folder, limits=limits, on_progress=ahead.until_weights(on_progress), draft=draft
        )


def keeping_on_disk(loader: Loader, disk: DiskCache | None) -> Loader:
    """Return a loader whose models keep their caches on disk; without ``disk``, the same loader."""

    def load(
        folder: Path, *, limits: BatchLimits, on_progress: OnLoadProgress, **drafting: Any
    ) -> "MlxBackend":
        kept = replace(limits, disk=disk)
        return loader(folder, limits=kept, on_progress=on_progress, **drafting)

    return loader if disk is None else load


def check_model(folder: Path) -> None:
    """Check a model folder without loading it. Any thread, also while another model is loaded.

    Raises:
        ModelLoadFailed: ``load_model`` cannot load it; the message says why.
    """
    with importing_mlx_lm():
        from engine.inference import mlx_loading

    mlx_loading.check(folder)


def mlx_in_use() -> str:
    """Return the version of MLX and the device that it computes on. Any thread."""
    import mlx.core as mx

    core: Any = mx  # its stubs do not know its version
    return f"{core.__version__}, {core.default_device()}"
