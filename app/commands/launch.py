"""``fullstop launch``: starts a coding agent that uses this program's server.

Finds the server of the window or of ``serve``, or starts a server that ends with the agent.
Changes none of the agent's own files. Main thread.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from app import exits, paths
from app.agents.commands import lacks, lines, with_folder
from app.agents.programs import AGENTS, NO_KEY, AgentProgram, Target
from app.exits import CommandError
from app.process.signals import ending_in_order
from app.running_servers import (
    RunningServer,
    ServedModel,
    running_server,
    running_servers,
    server_addresses,
)
from app.settings.serve import ServeOptions
from app.settings.serve_resolution import resolve_serve_options
from engine.files.causes import os_cause

_PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_LOOPBACK = "127.0.0.1,localhost"


def run(options: Namespace) -> int:
    """Start the agent and return its exit code."""
    agent = AGENTS[options.agent]
    settings = resolve_serve_options({}, os.environ)
    if options.print:
        return _print(agent, options, settings)
    program = shutil.which(agent.program)
    if program is None:
        raise CommandError(
            f"{agent.title} is not installed: there is no {agent.program} on the PATH. To install "
            f"it: {agent.install}"
        )
    with (
        tempfile.TemporaryDirectory(prefix="fullstop-") as name,
        ending_in_order(),
        contextlib.ExitStack() as stack,
    ):
        folder = Path(name)
        server = _running(options, settings)
        if server is None:
            which = options.model or (settings.model[0] if settings.model else "the demo model")
            _print_status(f"starting a server with {Path(which).name} …")
            model = None if options.model is None else str(paths.model_folder(options.model))
            url = stack.enter_context(own_server(folder, model))
            server = running_server(url, settings)
            if server is None:
                raise CommandError(f"the server at {url} does not list its models")
        served = _model(server, options)
        _check(agent, served, options)
        _print_status(f"{agent.title} uses {served.id} at {server.url}")
        target = Target(server.url, served.id, served.context, server.key)
        return _started(program, agent, target, tuple(options.arguments), folder)


def _running(options: Namespace, settings: ServeOptions) -> RunningServer | None:
    if options.url is not None:
        url = options.url.rstrip("/").removesuffix("/v1")
        if (server := running_server(url, settings)) is not None:
            return server
        raise CommandError(
            f"no Fullstop server answers at {url}; start one with fullstop serve, or leave --url "
            "out"
        )
    for server in running_servers(settings):
        if server.model(options.model) is not None:
            return server
        if server.models:
            _print_status(f"the server at {server.url} does not serve {options.model}")
    return None


def _model(server: RunningServer, options: Namespace) -> ServedModel:
    # A server that was started for a model serves it, whatever the name of its folder.
    model = server.model(options.model) or (None if options.url else server.model(None))
    if model is not None:
        return model
    names = ", ".join(model.id for model in server.models) or "none"
    requested = options.model or "a model"
    raise CommandError(f"the server at {server.url} does not serve {requested}; it serves: {names}")


def _check(agent: AgentProgram, model: ServedModel, options: Namespace) -> None:
    if missing := lacks(agent, model.context, model.can_call_tools):
        remedy = (
            "Choose another model with --model (fullstop models lists downloaded models, fullstop "
            f"models search finds more), or start {agent.title} anyway with --anyway"
        )
        text = f"{model.id} is not suitable for {agent.title}: {missing}. {remedy}"
        if not options.anyway:
            raise CommandError(text)
        _print_status(f"warning: {text}")
    if model.id == paths.demo_model().name:
        _print_status(
            "warning: the demo model only counts, repeats and explains itself. For real work "
            f"download a model (fullstop models search) and name it: fullstop launch "
            f"{options.agent} --model owner/name"
        )


def _started(
    program: str,
    agent: AgentProgram,
    target: Target,
    more: tuple[str, ...],
    folder: Path,
) -> int:
    """Run the agent until it ends; return its exit code, or 128 and the signal that ended it."""
    setup = with_folder(agent.set_up(target), str(folder))
    for name, text in setup.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    command = [program, *setup.arguments, *more]
    try:
        with _passing_on() as passing:
            process = subprocess.Popen(command, env=_environment(setup.variables))
            passing.append(process)
            code = process.wait()
    except OSError as error:
        raise CommandError(f"{program} cannot be started: {os_cause(error)}") from error
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def _passing_on() -> "Iterator[list[subprocess.Popen[bytes]]]":
    """Leave Ctrl-C to the running program, and pass on other signals that would end this one."""
    running: list[subprocess.Popen[bytes]] = []

    def forward(number: int, _frame: object) -> None:
        if number in _PASSED_ON:
            for process in running:
                process.send_signal(number)

    # A function instead of SIG_IGN, which the program would inherit.
    old = {number: signal.signal(number, forward) for number in (signal.SIGINT, *_PASSED_ON)}
    try:
        yield running
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _environment(variables: dict[str, str]) -> dict[str, str]:
    environment = {**os.environ, **variables}
    if any(environment.get(name) or environment.get(name.upper()) for name in _PROXIES):
        for name in ("no_proxy", "NO_PROXY"):
            environment[name] = ",".join(filter(None, (environment.get(name), _LOOPBACK)))
    return environment


def _print(agent: AgentProgram, options: Namespace, settings: ServeOptions) -> int:
    server = _running(options, settings)
    if server is not None:
        served = _model(server, options)
        target = Target(server.url, served.id, served.context, server.key)
    else:
        name = options.model or (settings.model[0] if settings.model else paths.demo_model().name)
        model = "" if options.model is None else f" --model {options.model}"
        print(f"# No server runs yet. In another terminal: fullstop serve{model}")
        key = settings.api_key or NO_KEY
        target = Target(server_addresses(settings)[-1], Path(name).name, key=key)
    print(lines(agent, target, tuple(options.arguments)), end="")
    return exits.OK


def _print_status(text: str) -> None:
    print(f"fullstop: {text}", file=sys.stderr, flush=True)


_LISTENS = "listening on "


@contextlib.contextmanager
def own_server(folder: Path, model: str | None) -> Iterator[str]:
    """Run a server on a free port; raise ``CommandError`` with its last output if it fails."""
    log = folder / "server.log"
    command = [sys.executable, "-P", "-m", "app", "serve", "--host", "127.0.0.1", "--port", "0"]
    command += ["--images", "note"]  # for agents that can send no header
    if model is not None:
        command += ["--model", model]
    # A folder ``app`` of the agent must not replace this program's.
    folders = os.pathsep.join(os.path.abspath(folder) for folder in sys.path if folder)
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": folders},
            start_new_session=True,  # a Ctrl-C is meant for the agent
        )
    try:
        yield _address(process, log)
    finally:
        process.terminate()
        try:
            process.wait(20.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    """Wait until the server listens, however long its model takes to load; return the address."""
    while True:
        has_ended = process.poll() is not None
        output = log.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        for line in output:
            if line.startswith(_LISTENS) and line.endswith("\n"):
                return line.removeprefix(_LISTENS).strip()
        if has_ended:
            last = "".join(output[-12:]).strip()
            raise CommandError(f"the server did not start:\n{last}")
        time.sleep(0.05)
