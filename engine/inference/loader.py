"""Loads a model with mlx-lm. Importing mlx-lm takes a second, so the first load imports it.

No MLX until a model is loaded. Engine thread, except for ``check_model``.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.inference.backend import BatchLimits, LoadProgress, OnLoadProgress
from engine.inference.mlx_lm_internals import limit_of_open_files_kept
from engine.inference.transformers_internals import names_of_models_read_later
from engine.threads import collector_paused, free_mlx_thread
from engine.values.request import Picture
from engine.values.tokens import Comparison

if TYPE_CHECKING:
    from engine.inference.mlx_backend import MlxBackend

# Reentrant: a module that is imported so may import others so.
_ONE_IMPORT_AT_A_TIME = threading.RLock()


Loader = Callable[..., "MlxBackend"]
"""Loads a model as ``load_model`` does, from the same arguments."""


def load_model(
    folder: Path,
    *,
    limits: BatchLimits,
    on_progress: OnLoadProgress,
    draft: Path | None = None,
    user_template: str | None = None,
    base: Path | None = None,
) -> "MlxBackend":
    """Load a model folder, and a draft model beside it; raises ``ModelLoadFailed``.

    With a ``base``, the folder is that of an adapter.
    """
    on_progress(LoadProgress("libraries"))
    with importing_mlx_lm():
        import psutil  # noqa: F401  # the first request asks how much memory is free

        from engine.inference import mlx_loading

    return mlx_loading.load(
        folder,
        limits=limits,
        on_progress=on_progress,
        draft=draft,
        user_template=user_template,
        base=base,
    )


def with_template(backend: "MlxBackend", user_template: str | None) -> "MlxBackend":
    """Return a model in memory with another chat template, None for its own.

    Raises ``ModelLoadFailed``.
    """
    from engine.inference import mlx_loading

    return mlx_loading.with_template(backend, user_template)


def check_model(folder: Path) -> None:
    """Check a folder without loading it, on any thread; raises ``ModelLoadFailed``."""
    with importing_mlx_lm():
        from engine.inference import mlx_loading

    mlx_loading.check(folder)


def compare_with_plain_loop(
    folder: Path,
    answers: Sequence[tuple[Sequence[int], Sequence[int]]],
    on_progress: OnLoadProgress,
    on_token: Callable[[int], None],
    base: Path | None = None,
) -> list[Comparison]:
    """Compare greedy answers with mlx-lm's plain loop, which loads the model for itself.

    Any thread, which must not use MLX afterwards. ``answers`` are the token ids of each prompt and
    of its answer; ``on_token`` is called with the number of tokens compared, and may raise.

    Raises:
        ModelLoadFailed: The model cannot be loaded; the message gives the cause.
    """
    with importing_mlx_lm():
        from engine.inference import plain_loop
    try:
        return plain_loop.compare(folder, answers, on_progress, on_token, base)
    finally:
        free_mlx_thread()


def compare_with_mlx_vlm(
    folder: Path,
    picture: Picture,
    answer: tuple[Sequence[int], Sequence[int]],
    on_token: Callable[[int], None],
) -> Comparison:
    """Compare a greedy answer to a prompt with a picture with mlx-vlm's whole model.

    Otherwise like ``compare_with_plain_loop``; raises whatever mlx-vlm does.
    """
    with importing_mlx_lm():
        from engine.inference.vision import whole_model
    try:
        return whole_model.compare(folder, picture, answer, on_token)
    finally:
        free_mlx_thread()


def mlx_in_use() -> str:
    """Return the version of MLX and the device that it computes on. Any thread."""
    import mlx.core as mx

    core: Any = mx  # its stubs do not know its version
    return f"{core.__version__}, {core.default_device()}"


@contextlib.contextmanager
def importing_mlx_lm() -> Iterator[None]:
    """Import mlx-lm, and with it transformers, without side effects and in half the time."""
    with (
        _ONE_IMPORT_AT_A_TIME,
        collector_paused(),
        limit_of_open_files_kept(),
        names_of_models_read_later(),
    ):
        yield
