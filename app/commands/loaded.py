"""``fullstop ps`` and ``fullstop stop``: the models that servers here have loaded. Main thread."""

import os
from argparse import Namespace
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from api.terminal_text import harmless_json
from app import exits
from app.exits import CommandError, did_you_mean
from app.printer import table
from app.running_servers import RunningServer, running_servers
from app.settings.serve_resolution import resolve_serve_options
from engine.wording import format_size

_HEAD = ("NAME", "SIZE", "CONTEXT", "UNTIL", "SERVER")
_TAG = ":latest"


def show(options: Namespace) -> int:
    """List the loaded models of all servers; return the exit code."""
    loaded = [(server, model) for server in _servers() for model in server.loaded()]
    if options.is_json:
        print(
            harmless_json({"models": [{**model, "server": server.url} for server, model in loaded]})
        )
        return exits.OK
    rows = [
        (
            _name(model),
            format_size(model.get("size", 0)),
            f"{model.get('context_length') or 0:,}",
            _until(model.get("expires_at")),
            server.url,
        )
        for server, model in loaded
    ]
    print(table(_HEAD, rows), end="")
    return exits.OK


def unload(options: Namespace) -> int:
    """Unload a model from every server that has loaded it; return the exit code."""
    loaded = [(server, _name(model)) for server in _servers() for model in server.loaded()]
    typed = options.model.removesuffix(_TAG)
    meant = [(server, name) for server, name in loaded if typed in (name, name.rpartition("/")[2])]
    if not meant:
        near = did_you_mean(options.model, (name for _, name in loaded))
        raise CommandError(
            f"no server has loaded {options.model}.{near} fullstop ps lists what is loaded."
        )
    for server, name in meant:
        server.unload(name)
        print(f"{name} is unloaded from {server.url} once its answers have ended")
    return exits.OK


def _servers() -> "Sequence[RunningServer]":
    servers = tuple(running_servers(resolve_serve_options({}, os.environ)))
    if not servers:
        raise CommandError("no Fullstop server runs on this computer; fullstop serve starts one")
    return servers


def _name(model: dict[str, Any]) -> str:
    """Return a model's own name: Ollama's API adds a tag, which models here do not have."""
    return str(model.get("name")).removesuffix(_TAG)


def _until(expires_at: Any) -> str:
    try:
        when = datetime.fromisoformat(expires_at).astimezone()
    except (TypeError, ValueError):
        return ""
    if when.year - datetime.now().year > 50:
        return "for ever"
    return when.strftime("%Y-%m-%d %H:%M")
