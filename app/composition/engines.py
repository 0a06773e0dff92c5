"""Builds an engine, loads the model that the command line names, and shuts the engine down.

Knows no window and no server. Runs on the caller's event loop.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from app.process.exits import CommandError
from engine import (
    DiskCache,
    DraftLoadFailed,
    Engine,
    EngineError,
    Limits,
    Loader,
    ModelLoadFailed,
    plain_cause,
)
from engine.library.models import check_folder


def new_engine(
    limits: Limits | None = None, loader: Loader | None = None, disk: DiskCache | None = None
) -> Engine:
    """Return an engine without a model; silences the advice of its libraries.

    Args:
        limits: The engine's limits; None for the usual limits.
        loader: Loads models; None for the usual loader.
        disk: Keeps prompt caches on disk; None keeps none.
    """
    quieten_libraries()
    if loader is None:
        return Engine(limits, disk=disk)
    return Engine(limits, loader, check_folder)


def quieten_libraries() -> None:
    """Keep advice for programmers off standard error."""
    # Takes effect when mlx-lm imports transformers; important messages still reach us as errors.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


@contextlib.asynccontextmanager
async def open_engine(
    limits: Limits | None = None, loader: Loader | None = None, disk: DiskCache | None = None
) -> AsyncIterator[Engine]:
    """Yield an engine without a model; it is always shut down at the end of the block.

    Args:
        limits: The engine's limits.
        loader: Loads its models; None for mlx-lm's loader.
        disk: Keeps prompt caches on disk. It is closed too, after pending writes.
    """
    engine = new_engine(limits, loader, disk)
    try:
        yield engine
    finally:
        await engine.aclose()
        _closed.append(engine)
        if disk is not None:
            await asyncio.to_thread(disk.close)


_closed: list[Engine] = []


def end_if_stuck(exit_code: int) -> None:
    """End the process at once if a model of a closed engine still hangs in its thread.

    What hangs in a library cannot be interrupted, and the libraries wait for it at their end. All
    else has ended by now.
    """
    if any(engine.is_stuck for engine in _closed):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)


async def load(engine: Engine, folder: Path, draft: Path | None = None) -> None:
    """Load a model.

    Args:
        engine: The engine that loads it.
        folder: The model.
        draft: The folder of the draft model; None for none.

    Raises:
        CommandError: It cannot be loaded; the message says why and gives a remedy.
    """
    try:
        await engine.load(folder, draft=draft)
    except DraftLoadFailed as error:
        raise CommandError(
            f"{plain_cause(str(error))}. --draft-model takes the folder of an MLX model, or the "
            "name of a downloaded model, whose vocabulary is that of --model; without it no draft "
            "model is used."
        ) from error
    except ModelLoadFailed as error:
        raise CommandError(
            f"the model cannot be loaded: {plain_cause(str(error))}. --model takes the folder of "
            "an MLX model (config.json, *.safetensors, tokenizer.json), or the name of a "
            "downloaded model (fullstop models lists them); without --model the demo model is used."
        ) from error
    except EngineError as error:
        raise CommandError(plain_cause(str(error))) from error
