"""Frees what MLX keeps for a thread that ends. Imports no MLX; any thread."""

import sys


def leave_thread() -> None:
    """Free what MLX keeps for the calling thread, which must not use MLX afterwards.

    A stream that outlives its thread can abort the process at exit. Does nothing where MLX was
    never imported.
    """
    if (mx := sys.modules.get("mlx.core")) is not None:
        mx.synchronize()
        mx.clear_streams()
