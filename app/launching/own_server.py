"""A separate ``fullstop serve`` for one agent, which ends with the agent. Blocks; main thread."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from app.process.exits import CommandError

_EACH_S = 0.05
_ENDING_S = 20.0
_MOST_SHOWN_LINES = 12
_LISTENS = "listening on "


@contextlib.contextmanager
def own_server(folder: Path, model: str | None) -> Iterator[str]:
    """Run a server on a free port during the block; yield its address.

    Args:
        folder: The folder of the server's log.
        model: The model to serve; None for the one of the settings.

    Raises:
        CommandError: It does not start; the message has its last output.
    """
    log = folder / "server.log"
    words = [sys.executable, "-P", "-m", "app", "serve", "--host", "127.0.0.1", "--port", "0"]
    words += ["--images", "note"]  # for agents that can send no header
    if model is not None:
        words += ["--model", model]
    with log.open("wb") as output:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=_environment(),
            start_new_session=True,  # a Ctrl-C is meant for the agent
        )
    try:
        yield _address(process, log)
    finally:
        process.terminate()
        try:
            process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    """Wait until the server listens, however long its model takes to load; return the address."""
    while True:
        has_ended = process.poll() is not None
        said = log.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        for line in said:
            if line.startswith(_LISTENS) and line.endswith("\n"):
                return line.removeprefix(_LISTENS).strip()
        if has_ended:
            last = "".join(said[-_MOST_SHOWN_LINES:]).strip()
            raise CommandError(f"the server did not start:\n{last}")
        time.sleep(_EACH_S)


def _environment() -> dict[str, str]:
    """Return this environment, with the same module path as this process.

    A folder named ``app`` in the agent's working folder must not replace this program's.
    """
    places = [os.path.abspath(place) for place in sys.path if place]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
