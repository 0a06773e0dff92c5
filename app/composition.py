"""Puts engines together: alone, beside several models, or over several processes.

``mlx.launch`` starts the processes: rank 0 is the server, with an engine whose model is sharded;
the others only follow. Main thread.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from app import exits, paths
from app.exits import CommandError, did_you_mean
from app.process_groups import kill_process_groups
from app.settings.serve import ServeOptions
from app.streams import drain_streams
from engine import (
    DiskCache,
    DraftLoadFailed,
    Engine,
    EngineError,
    Limits,
    Loader,
    ModelInfo,
    ModelLoadFailed,
    OfferedModel,
    Offering,
    UnknownModel,
    plain_cause,
)
from engine.distributed.world import World, launched
from engine.library.local_models import FoundModel, ModelFolders, Origin, discover, look_into
from engine.library.model_folder import check_folder


def quieten_libraries() -> None:
    """Keep advice for programmers off standard error."""
    # Takes effect when mlx-lm imports transformers; important messages still reach us as errors.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


@contextlib.asynccontextmanager
async def open_engine(
    limits: Limits | None = None, loader: Loader | None = None, disk: DiskCache | None = None
) -> AsyncIterator[Engine]:
    """Yield an engine without a model; it is always shut down at the end of the block."""
    quieten_libraries()
    engine = Engine(limits, disk=disk) if loader is None else Engine(limits, loader, check_folder)
    try:
        async with engine:
            yield engine
    finally:
        _closed.append(engine)
        if disk is not None:
            await asyncio.to_thread(disk.close)


_closed: list[Engine] = []


def end_if_stuck(exit_code: int) -> None:
    """End the process if a closed engine's model hangs in a library, which exit would wait for."""
    if any(engine.is_stuck for engine in _closed):
        drain_streams()
        kill_process_groups()
        os._exit(exit_code)


async def load(engine: Engine, folder: Path, draft: Path | None = None) -> ModelInfo:
    """Load a model; raise ``CommandError`` with the reason and a remedy if that fails."""
    try:
        return await engine.load(folder, draft=draft)
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
    near = "" if folder.exists() else did_you_mean(str(folder), paths.model_names())
    return (
        f"the model cannot be loaded: {plain_cause(str(error))}.{near} --model takes the folder of "
        "an MLX model (config.json, *.safetensors, tokenizer.json), or the name of a downloaded "
        "model (fullstop models lists them); without --model the demo model is used."
    )


def served_models(
    options: ServeOptions, *, is_shared_out: bool = False
) -> tuple[Path, list[OfferedModel] | None]:
    """Return the default model's folder, and the models to offer; None for any name.

    Raises ``CommandError`` for contradicting options.
    """
    given = [Path(text).expanduser() for text in options.model]
    folders = tuple(Path(folder).expanduser() for folder in options.models_folder)
    has_several = len(given) > 1 or bool(folders)
    if has_several and (options.one_model or is_shared_out):
        why = "--one-model" if options.one_model else "a model on several machines"
        raise CommandError(
            f"{why} does not allow a choice of models; give one --model, and no --models-folder",
            exits.USAGE,
        )
    default = given[0] if given else paths.demo_model()
    is_one = options.one_model or is_shared_out or (len(given) == 1 and not folders)
    offered = [] if is_one else _offered(given, folders)
    if not has_several and len(offered) < 2:
        return default, None
    return default, _with_names(offered, options, default)


def _offered(given: Sequence[Path], folders: tuple[Path, ...]) -> list[OfferedModel]:
    """Return the given models and those of given folders; without either, all local models."""
    for folder in folders:
        if not folder.is_dir():
            raise CommandError(f"--models-folder: {folder} is not a folder", exits.USAGE)
    if not given and not folders:
        return offered_models(paths.local_models())
    first = [look_into(folder, Origin.FOLDER) for folder in given]
    for model in first:
        if model.problem:
            raise CommandError(f"--model {model.folder}: {model.problem}")
    if not given:
        first = [look_into(paths.demo_model(), Origin.BUNDLED)]
    return offered_models([*first, *discover(ModelFolders(added=folders))])


def _with_names(
    offered: Sequence[OfferedModel], options: ServeOptions, default: Path
) -> list[OfferedModel]:
    """Return the models with their aliases, pins and the draft model of the default one."""
    offering = Offering(offered)
    aliases: dict[str, list[str]] = {}
    for given_alias in options.alias:
        alias, separator, name = given_alias.partition("=")
        if not (separator and alias and name):
            raise CommandError(
                f"--alias: {given_alias!r} is not NAME=MODEL; write it like "
                "claude-haiku=some-mlx-model",
                exits.USAGE,
            )
        aliases.setdefault(_found("--alias", offering, name).id, []).append(alias)
    pinned = {_found("--pin", offering, name).id for name in options.pin}
    first = offering.of_folder(default)
    return [
        replace(
            model,
            aliases=tuple(aliases.get(model.id, ())),
            is_pinned=model.id in pinned,
            draft=options.draft_model if model == first else None,
        )
        for model in offered
    ]


def _found(option: str, offering: Offering, name: str) -> OfferedModel:
    try:
        return offering.find(name)
    except UnknownModel as error:
        raise CommandError(f"{option}: {error}", exits.USAGE) from error


def offered_models(models: Iterable[FoundModel]) -> list[OfferedModel]:
    """Return the complete models with ids, the id of a second one of a name with its owner."""
    offers: dict[str, OfferedModel] = {}
    for model in models:
        if model.is_partial or model.problem or model.is_gguf:
            continue
        name = model.name
        if name in offers:
            if offers[name].folder.resolve() == model.folder.resolve():
                continue
            name = f"{model.folder.parent.name}/{name}"
        offers.setdefault(name, OfferedModel(name, model.folder, found=model))
    return list(offers.values())


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


@contextlib.asynccontextmanager
async def open_engine_of(
    world: World | None, limits: Limits, disk: DiskCache | None = None
) -> AsyncIterator[Engine]:
    """Yield an engine without a model, shared by all processes of a world if there is one."""
    if world is None:
        async with open_engine(limits, disk=disk) as engine:
            yield engine
        return
    from engine.distributed.leader import Leader  # only several processes need it

    leader = Leader(world)
    try:
        async with open_engine(limits, leader) as engine:
            yield engine
    finally:
        leader.end()


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


def exit_process() -> NoReturn:
    """End the process, whatever its threads wait for."""
    drain_streams()
    kill_process_groups()
    os._exit(exits.OK)
