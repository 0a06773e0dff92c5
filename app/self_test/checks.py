"""``fullstop --self-test``: checks that this installation works, with the demo model.

Loads MLX and the demo model, ends an answer in every possible way, serves both vendors' clients,
and builds the window off screen if Qt can be loaded. Needs no network and no display. It writes
only to a temporary folder, so a person's settings and conversations are not touched. Main thread;
imports Qt only if a window is possible.
"""

import asyncio
import contextlib
import logging
import os
import platform
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from app import __version__, exits, paths
from app.composition import new_engine
from app.desktop.displays import qt_problem
from app.self_test.answers import COUNT, COUNTED, STOP, held_answer, stop_checks
from app.self_test.client import chat_problem, messages_problem
from engine import Engine, StopKind, mlx_in_use

_CHECK_LIMIT_S = 60.0
_LONGEST_REASON = 300  # characters
_UNTOUCHED = {
    "FULLSTOP_DATA_DIR": "data",
    "FULLSTOP_CONFIG_DIR": "config",
    "XDG_CACHE_HOME": "cache",
    "TMPDIR": "tmp",  # MLX compiles kernels there on Linux
}


class CheckFailed(Exception):
    """A check failed; the message says what happened instead."""


class CheckLeftOut(Exception):
    """A check does not apply to this machine; the message says why."""


class SelfTest:
    """Runs checks one after the other and prints a line for each."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.is_stuck = False

    async def check(self, name: str, work: Callable[[], Awaitable[str]]) -> bool:
        """Run one check, print its result, and return whether it did not fail."""
        try:
            found = await asyncio.wait_for(work(), _CHECK_LIMIT_S)
        except CheckLeftOut as why:
            self._say("left out", name, str(why))
        except TimeoutError:
            self.is_stuck = True
            self._say("failed", name, f"no result within {_CHECK_LIMIT_S:.0f} seconds")
        except Exception as error:
            self._say("failed", name, _in_a_line(str(error)) or type(error).__name__)
        else:
            self._say("ok", name, found)
        return name not in self.failures

    def _say(self, outcome: str, name: str, detail: str) -> None:
        if outcome == "failed":
            self.failures.append(name)
        print(f"{outcome:<8}  {name:<18}  {detail}".rstrip(), flush=True)


def _in_a_line(text: str) -> str:
    """Return the beginning of a text on one line, because some of MLX's errors are pages long."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]} …"


def run() -> int:
    """Run all checks; return 0 if none failed, else 1."""
    print(f"Fullstop {__version__}, Python {platform.python_version()}, {platform.platform()}")
    test = SelfTest()
    with tempfile.TemporaryDirectory(prefix="fullstop-self-test-") as folder:
        scratch = Path(folder)
        with _own_surroundings(scratch):
            _run_checks(test, scratch)
    if test.failures:
        print(f"failed: {', '.join(test.failures)}", file=sys.stderr)
        return exits.FAILURE
    print("everything works")
    return exits.OK


def _run_checks(test: SelfTest, scratch: Path) -> None:
    engine = new_engine()
    try:
        if not asyncio.run(_engine_checks(test, engine, scratch)):
            return
        problem = qt_problem()
        if problem is None:
            from app.self_test import window_check as self_test_window

            self_test_window.run(test.check, engine)
        else:
            asyncio.run(test.check("window", lambda: _left_out(problem)))
    finally:
        if not test.is_stuck:
            engine.close()


async def _engine_checks(test: SelfTest, engine: Engine, scratch: Path) -> bool:
    """Check everything except the window; return whether the engine can be used further."""
    if not await test.check("MLX", _mlx):
        return False
    if not await test.check("demo model", lambda: _demo_model(engine)):
        return False
    for kind, work in stop_checks(engine, scratch / "short-context").items():
        with _without_log(kind is StopKind.ERROR):
            await test.check(f"stop: {kind}", work)
    await test.check("JSON schema", lambda: held_answer(engine))
    await test.check("server: Messages", lambda: _served(engine, messages_problem))
    await test.check("server: Chat", lambda: _served(engine, chat_problem))
    return True


async def _mlx() -> str:
    return mlx_in_use()


async def _demo_model(engine: Engine) -> str:
    info = await engine.load(paths.demo_model())
    return f"{info.architecture}, {info.size_bytes / 1e6:.0f} MB"


async def _served(engine: Engine, problem_of: Callable[[str, str, str, str], str | None]) -> str:
    from api.server.server import ServerThread
    from api.transport.config import ServerConfig

    server = ServerThread(engine, ServerConfig(port=0))
    address = await asyncio.to_thread(server.start)
    try:
        problem = await asyncio.to_thread(problem_of, address.url, COUNT, STOP, COUNTED)
    finally:
        await asyncio.to_thread(server.stop)
    if problem is not None:
        raise CheckFailed(problem)
    return f"streamed, stopped by {STOP!r}"


async def _left_out(why: str) -> str:
    raise CheckLeftOut(why)


@contextlib.contextmanager
def _own_surroundings(scratch: Path) -> Iterator[None]:
    """Keep the self-test away from this person's settings, conversations, caches and keychain."""
    wanted = {name: str(scratch / folder) for name, folder in _UNTOUCHED.items()}
    wanted["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
    wanted["QT_QPA_PLATFORM"] = "offscreen"
    for folder in _UNTOUCHED.values():
        (scratch / folder).mkdir()
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _without_log(is_quiet: bool) -> Iterator[None]:
    """Keep deliberate faults out of the log."""
    if is_quiet:
        logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        if is_quiet:
            logging.disable(logging.NOTSET)
