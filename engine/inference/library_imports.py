"""Imports mlx-lm, and with it transformers, without their side effects and in half the time."""

import contextlib
import threading
from collections.abc import Iterator

from engine.inference.mlx_lm_internals import limit_of_open_files_kept
from engine.inference.transformers_internals import names_of_models_read_later
from engine.library.hub_internals import client_imported_later
from engine.processes.interpreter import collector_paused

# No MLX until the block of ``importing_mlx_lm`` imports it.

_ONE_AT_A_TIME = threading.Lock()


@contextlib.contextmanager
def importing_mlx_lm() -> Iterator[None]:
    """Wrap imports of modules that import mlx-lm; costs nothing if they are imported already."""
    with (
        _ONE_AT_A_TIME,
        collector_paused(),
        limit_of_open_files_kept(),
        names_of_models_read_later(),
        client_imported_later(),
    ):
        yield
