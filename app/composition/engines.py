"""Puts an engine together with the model that the command line names, and takes it down again.

Knows no window and no server. Runs on the caller's event loop.
"""

import asyncio
import contextlib
import os
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
)
from engine.library.models import check_folder


def new_engine(
    limits: Limits | None = None, loader: Loader | None = None, disk: DiskCache | None = None
) -> Engine:
    """Return an engine without a model, whose libraries keep their advice to themselves.

    Args:
        limits: How much the engine takes on; None for the usual limits.
        loader: Loads models; None for the usual loader.
        disk: Keeps on disk what models have read; None keeps nothing.
    """
    quieten_libraries()
    if loader is None:
        return Engine(limits, disk=disk)
    return Engine(limits, loader, check_folder)


def quieten_libraries() -> None:
    """Keep advice that is meant for programmers off standard error."""
    # Read when mlx-lm imports transformers; what matters of it reaches us as errors of our own.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


@contextlib.asynccontextmanager
async def open_engine(
    limits: Limits | None = None, loader: Loader | None = None, disk: DiskCache | None = None
) -> AsyncIterator[Engine]:
    """Yield an engine without a model; it is shut down on leaving, whatever happened.

    Args:
        limits: How much it takes on.
        loader: Loads its models; None for mlx-lm, which keeps caches on disk.
        disk: Where it keeps them. Closed as well, once what is still to be written is written.
    """
    engine = new_engine(limits, loader, disk)
    try:
        yield engine
    finally:
        await engine.aclose()
        if disk is not None:
            await asyncio.to_thread(disk.close)


async def load(engine: Engine, folder: Path, draft: Path | None = None) -> None:
    """Load a model.

    Args:
        engine: Which loads it.
        folder: The model.
        draft: The draft model beside it, if there is to be one.

    Raises:
        CommandError: It cannot be loaded; the message says why and what would help.
    """
    try:
        await engine.load(folder, draft=draft)
    except DraftLoadFailed as error:
        raise CommandError(
            f"{error}. --draft-model takes the folder of an MLX model, or the name of a downloaded "
            "model, whose vocabulary is that of --model; without it no draft model is used."
        ) from error
    except ModelLoadFailed as error:
        raise CommandError(
            f"the model cannot be loaded: {error}. --model takes the folder of an MLX model "
            "(config.json, *.safetensors, tokenizer.json), or the name of a downloaded model "
            "(fullstop models lists them); without --model the demo model is used."
        ) from error
    except EngineError as error:
        raise CommandError(str(error)) from error
