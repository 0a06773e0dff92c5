"""Opens an engine, alone or shared by several processes, and loads its model.

``mlx.launch`` starts the processes: rank 0 is the server, with an engine whose model is sharded;
the others only follow. Main thread.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from app import exits, paths
from app.exits import CommandError, did_you_mean
from app.process.signals import end_process
from app.settings.options import ModelOptions
from engine import DiskCache, Engine, validate_template
from engine.distributed.world import World, launched
from engine.errors import DraftLoadFailed, EngineError, InvalidTemplate, ModelLoadFailed
from engine.library.adapters import is_adapter
from engine.library.local_models import Origin, look_into
from engine.library.model_folder import check_folder
from engine.library.model_info import ModelInfo
from engine.library.template_files import read_template
from engine.values.limits import Limits
from engine.values.verdict import plain_cause


def quieten_libraries() -> None:
    """Keep advice for programmers off standard error."""
    # Takes effect when mlx-lm imports transformers; important messages still reach us as errors.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


_closed: list[Engine] = []


@contextlib.asynccontextmanager
async def open_engine(
    limits: Limits | None = None, disk: DiskCache | None = None, world: World | None = None
) -> AsyncIterator[Engine]:
    """Yield an engine without a model, shared by all processes of a world if there is one.

    It is always shut down at the end of the block.
    """
    quieten_libraries()
    leader = None
    if world is None:
        engine = Engine(limits, disk=disk)
    else:
        from engine.distributed.leader import Leader  # only several processes need it

        leader = Leader(world)
        engine = Engine(limits, leader, check_folder)
    try:
        async with engine:
            yield engine
    finally:
        _closed.append(engine)
        if disk is not None:
            await asyncio.to_thread(disk.close)
        if leader is not None:
            leader.end()


def end_if_stuck(exit_code: int) -> None:
    """End the process if a closed engine's model hangs in a library, which exit would wait for."""
    if any(engine.is_stuck for engine in _closed):
        end_process(exit_code)


def folder_and_base(options: ModelOptions, usual: Path | None = None) -> tuple[Path, Path | None]:
    """Return the folder to load, and its base if that is an adapter's folder."""
    folder = options.adapter or options.model or usual or paths.demo_model()
    return folder, base_of(folder, None if options.adapter is None else options.model)


def base_of(folder: Path, base: Path | None = None) -> Path | None:
    """Return the base of an adapter, by default its config's; None for a model."""
    if not is_adapter(folder):
        return None
    if fault := look_into(folder, Origin.FOLDER).trouble:
        raise CommandError(f"{folder}: {fault}")
    if base is None and (base := (adapter := paths.adapter_at(folder)).base) is None:
        raise CommandError(f"{folder}: {adapter.obstacle} --model gives its base.")
    return base


def read_user_template(file: Path | None, folder: Path, base: Path | None = None) -> str | None:
    """Return the user's chat template for a model; raises ``CommandError`` for an invalid one."""
    if file is None:
        return None
    quieten_libraries()
    try:
        source = read_template(file)
        validate_template(base or base_of(folder) or folder, source)
    except InvalidTemplate as error:
        raise CommandError(f"--chat-template: {file}: {error}", exits.USAGE) from error
    return source


async def load(
    engine: Engine,
    folder: Path,
    draft: Path | None = None,
    user_template: str | None = None,
    base: Path | None = None,
) -> ModelInfo:
    """Load a model; raise ``CommandError`` with the reason and a remedy if that fails."""
    try:
        return await engine.load(folder, draft=draft, user_template=user_template, base=base)
    except DraftLoadFailed as error:
        raise CommandError(
            f"{plain_cause(str(error))}. --draft-model takes the folder of an MLX model, or the "
            "name of a downloaded model, whose vocabulary is that of --model, or of the assistant "
            "of a Gemma 4 model; without it no draft model is used."
        ) from error
    except ModelLoadFailed as error:
        raise CommandError(_not_loaded(folder, error)) from error
    except EngineError as error:
        raise CommandError(plain_cause(str(error))) from error


def _not_loaded(folder: Path, error: ModelLoadFailed) -> str:
    near = "" if os.path.exists(folder) else did_you_mean(str(folder), paths.model_names())
    return (
        f"the model cannot be loaded: {plain_cause(str(error))}.{near} --model takes the folder of "
        "an MLX model (config.json, *.safetensors, tokenizer.json), or the name of a downloaded "
        "model (fullstop models lists them); without --model the demo model is used."
    )


def world_of_this_process() -> World | None:
    """Return the group of processes that this one belongs to; None if it runs alone."""
    try:
        return launched(os.environ)
    except EngineError as error:
        raise CommandError(str(error)) from error


def meet(world: World) -> World:
    """Wait for the other processes; signals still end this one."""
    from engine.distributed.sharding import meet  # imports MLX

    if world.rank == 0:
        others = ", ".join(world.name_of(rank) for rank in range(1, world.size))
        print(f"waiting for {others}", file=sys.stderr, flush=True)
    # While MLX waits, Python cannot handle signals.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return meet(world)
    except EngineError as error:
        raise CommandError(str(error)) from error
    finally:
        signal.signal(signal.SIGINT, before)


def follow_rank_0(world: World) -> int:
    """Follow rank 0 until it ends; return the exit code."""
    from engine.distributed.follower import follow  # only several processes need it

    quieten_libraries()
    world = meet(world)
    # Ctrl-C reaches all processes of a terminal; rank 0 handles it and ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        follow(world)
    except EngineError as error:
        raise CommandError(f"rank {world.rank}: {error}") from error
    return exits.OK
