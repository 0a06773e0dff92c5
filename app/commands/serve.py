"""``fullstop serve``: runs the server without a window, until a signal ends it.

Must not import Qt. Main thread: the server and its signals share one event loop. Started by
``mlx.launch`` on several machines, it is one server with a sharded model (see
``app.engines``).
"""

import asyncio
import contextlib
import fcntl
import gc
import logging
import os
import stat
import sys
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any

from api.server.server import ApiServer, CannotListen
from api.server.telemetry import telemetry_for
from api.server.tls import context_of
from api.service.config import ConfigError, ServerConfig
from api.service.response_store import prepare_folder
from app import __version__, exits, paths
from app.engines import (
    base_of,
    follow_rank_0,
    load,
    meet,
    open_engine,
    read_user_template,
    world_of_this_process,
)
from app.exits import CommandError
from app.private_files import access_problem, made_private
from app.process.logs import log_as_json_lines, log_to_standard_error
from app.process.open_files import raise_open_file_limit
from app.process.registered_servers import register_server
from app.process.signals import EndingSignals, end_process
from app.process.streams import takes_controls, write_in_background
from app.served_models import served_models
from app.settings.options import check_guessing
from app.settings.repetition import repetition_detection
from app.settings.serve import ServeOptions
from app.terminal.status_line import LOADS, LoadMeter, live_line
from engine import DiskCache, OfferedModel
from engine.distributed.world import World
from engine.files.causes import os_cause
from engine.library.adapters import adapted_name
from engine.library.model_info import ModelInfo
from engine.values.limits import Limits
from engine.wording import counted, format_size

_log = logging.getLogger(__name__)
_OPTIONS = {
    "allowed_origins": "--allow-origin",
    "allowed_hosts": "--allow-host",
    "api_key": "--api-key",
    "tls_cert": "--tls-cert",
    "tls_key": "--tls-key",
    "kept_responses_folder": "--kept-responses-folder",
}
_IN_CLEAR = (
    "traffic is not encrypted: anyone on the network can read the API key, the "
    "prompts and the answers; use --tls-cert and --tls-key, or listen on 127.0.0.1 and connect "
    "through an SSH tunnel"
)


def run(options: ServeOptions) -> int:
    """Serve until a signal; return the exit code."""
    write_in_background()
    if options.log != "json":
        log_to_standard_error(options.verbose)
        if not takes_controls(sys.stderr):  # nothing else shows there how far a load is
            LOADS.setLevel(logging.INFO)
        return _run(options)
    log_as_json_lines()
    try:
        return _run(options)
    except CommandError as failed:
        # A log that is JSON has nothing between its lines, and this one matters most.
        _log.error("%s", failed)
        return failed.exit_code


def _run(options: ServeOptions) -> int:
    raise_open_file_limit()
    world = world_of_this_process()
    if world is not None and world.rank > 0:
        return follow_rank_0(world)
    try:
        config = ServerConfig(
            product=f"Fullstop/{__version__}",
            allowed_origins=options.allow_origin,
            allowed_hosts=options.allow_host,
            keeps_prompts=options.disk_cache_bytes is not None,
            repetition=repetition_detection(options.repetition_detection),
            **_shared(options, ServerConfig),
        )
        context_of(config)  # before anything is loaded
        if config.kept_responses_folder is not None:
            prepare_folder(config.kept_responses_folder)
    except ConfigError as error:
        option = _OPTIONS.get(error.setting, f"--{error.setting}")
        reason = str(error).removeprefix(f"{error.setting}: ")
        raise CommandError(f"{option}: {reason}", exits.USAGE) from error
    if world is not None and options.disk_cache_bytes:
        raise CommandError(
            "--disk-cache-bytes: leave it out: if several machines share a model, each has only a "
            "part of a cache, and none is kept on disk",
            exits.USAGE,
        )
    _warn_of_a_readable_key(options)
    check_guessing(options.draft_model, is_plain=options.plain_decoding)
    models = served_models(options, is_shared_out=world is not None)
    default, offered = models
    own = next((model.base for model in offered or () if model.folder == default), None)
    base = own or base_of(default)
    template = read_user_template(options.chat_template, default, base)
    world = None if world is None else meet(world)
    with contextlib.closing(EndingSignals()) as signals:
        asyncio.run(_serve(options, models, base, template, config, world, signals))
    if world is not None:
        end_process(exits.OK)
    return exits.OK


async def _serve(
    options: ServeOptions,
    models: tuple[Path, list[OfferedModel] | None],
    base: Path | None,
    template: str | None,
    config: ServerConfig,
    world: World | None,
    signals: EndingSignals,
) -> None:
    default, offered = models
    is_ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    limits = Limits(**_shared(options, Limits))
    disk = _disk_cache(options)
    with signals.delivered(loop, is_ending.set):
        async with open_engine(limits, disk, world) as engine:
            ending = asyncio.create_task(is_ending.wait())
            engine.offer(offered)
            loading = asyncio.create_task(
                load(engine, default, options.draft_model, template, base)
            )
            telemetry = telemetry_for(os.environ, __version__, config.api_key)
            server = ApiServer(engine, config, () if telemetry is None else (telemetry,))
            meter = LoadMeter(engine)
            logging_loads = asyncio.create_task(meter.log())

            def live() -> AbstractAsyncContextManager[None]:
                if options.log == "json":  # such a log must contain no other lines
                    return nullcontext()
                return live_line(lambda: meter.server_text(server.metrics), sys.stderr)

            listening = contextlib.ExitStack()
            try:
                # Listen before the model is loaded, so that a taken port is reported at once.
                address = await server.start()
                listening.enter_context(register_server(address.url))
                name = adapted_name(default, base)
                LOADS.info("loading: %s", name, extra={"fields": {"model": name}})
                async with live():
                    await asyncio.wait({loading, ending}, return_when=asyncio.FIRST_COMPLETED)
                if not is_ending.is_set():
                    await loading
                    _announce(address.url, engine.model, config, is_json=options.log == "json")
                    gc.freeze()  # collections need not visit the model’s objects
                    async with live():
                        await ending
            except OSError as error:
                own = error.strerror if isinstance(error, CannotListen) else os_cause(error)
                raise CommandError(f"cannot serve: {own}") from error
            finally:
                for task in (loading, ending, logging_loads):
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError, CommandError):
                        await task
                await server.stop()
                listening.close()
                if telemetry is not None:
                    await asyncio.to_thread(telemetry.close)


def _announce(url: str, model: ModelInfo | None, config: ServerConfig, *, is_json: bool) -> None:
    """Print that the server listens; programs wait for the first line."""
    print(f"listening on {url}", flush=True)
    if is_json:
        _log.info("listening", extra={"fields": server_facts(url, model, config)})
    else:
        print("\n".join(server_banner(url, model, config)), flush=True)
    if config.is_readable_on_the_way:
        _warn(_IN_CLEAR, is_json=is_json)


def server_banner(url: str, model: ModelInfo | None, config: ServerConfig) -> list[str]:
    """Return the facts that a user needs to use a server that has started."""
    key = "required" if config.api_key is not None else "none; programs may send any"
    return [
        f"  model    {_model_text(model)}",
        f"  API key  {key}",
        f"  OpenAI   {url}/v1",
        f"  others   {url} (Anthropic, Ollama, /generate; GET {url}/openapi.json lists all routes)",
        "Ctrl-C ends it.",
    ]


def server_facts(url: str, model: ModelInfo | None, config: ServerConfig) -> dict[str, object]:
    """Return the same for a JSON log; see ``server_banner``."""
    return {
        "url": url,
        "model": None if model is None else model.id,
        "context": None if model is None else model.context_length,
        "requires_key": config.api_key is not None,
    }


def _model_text(model: ModelInfo | None) -> str:
    if model is None:
        return "none"
    draft = "" if model.draft is None else f", draft {model.draft.id}"
    if model.own_head_problem == "":
        draft += ", own draft head"
    if model.user_template is not None:
        draft += ", your chat template"
    context = counted(model.context_length, "token")
    return f"{model.id} (context {context}, {format_size(model.weights_bytes)}{draft})"


def _warn_of_a_readable_key(options: ServeOptions) -> None:
    file = options.api_key_file
    if file is not None and file.stat().st_mode & stat.S_IROTH:
        text = f"every user of this computer can read the key in {file}; chmod 600 prevents that"
        _warn(text, is_json=options.log == "json")


def _warn(text: str, *, is_json: bool) -> None:
    if is_json:
        _log.warning("%s", text)
    else:
        print(f"fullstop: warning: {text}", file=sys.stderr, flush=True)


def _disk_cache(options: ServeOptions) -> DiskCache | None:
    """Return the disk cache; without one, delete the caches of earlier servers."""
    folder = paths.kept_prompts_folder("served")
    if options.disk_cache_bytes is None and not os.path.isdir(folder):
        return None
    if problem := access_problem(folder, os.R_OK | os.W_OK):
        if options.disk_cache_bytes:
            _warn(f"No prompt cache on disk: {problem}", is_json=options.log == "json")
        return None
    with contextlib.suppress(OSError):  # the cache reports a folder that cannot be used
        lock = os.open(made_private(folder), os.O_RDONLY)  # until the process ends
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not options.disk_cache_bytes:
                return None  # another server uses it
        fcntl.flock(lock, fcntl.LOCK_SH)
    return DiskCache(folder, options.disk_cache_bytes or 0)


def _shared(options: ServeOptions, target: type[ServerConfig] | type[Limits]) -> dict[str, Any]:
    """Return the options that are also fields of the target."""
    names = {field_.name for field_ in fields(target)} & {field_.name for field_ in fields(options)}
    return {name: getattr(options, name) for name in names}
