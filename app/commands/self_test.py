"""``fullstop --self-test``: checks that this installation works, with the demo model.

Loads MLX and the demo model, answers a question up to a stop, answers it once more over HTTP, and
builds the window off screen if Qt can be loaded. Needs no network and no display. It writes only to
a temporary folder, so the user's settings and conversations are not touched. Main thread.
"""

import asyncio
import contextlib
import http.client
import json
import os
import platform
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from app import __version__, exits, paths
from app.commands.window import qt_problem
from app.composition import new_engine
from engine import (
    Engine,
    Finished,
    GenerationRequest,
    Message,
    Sampling,
    StopKind,
    StopRules,
    TextDelta,
    mlx_in_use,
    sentence,
)

COUNT = "Count from 1 to 10, one number per line"
STOP = "6"
COUNTED = "1\n2\n3\n4\n5\n"
_TIMEOUT_S = 30.0
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
            outcome = await asyncio.wait_for(work(), _CHECK_LIMIT_S)
        except CheckLeftOut as why:
            self._print_result("left out", name, str(why))
        except TimeoutError:
            self.is_stuck = True
            self._print_result("failed", name, f"no result within {_CHECK_LIMIT_S:.0f} seconds")
        except Exception as error:
            self._print_result("failed", name, _in_a_line(str(error)) or type(error).__name__)
        else:
            self._print_result("ok", name, outcome)
        return name not in self.failures

    def _print_result(self, outcome: str, name: str, detail: str) -> None:
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
            _run_checks(test)
    if test.failures:
        print(f"failed: {', '.join(test.failures)}", file=sys.stderr)
        return exits.FAILURE
    print("everything works")
    return exits.OK


def _run_checks(test: SelfTest) -> None:
    engine = new_engine()
    try:
        if not asyncio.run(_engine_checks(test, engine)):
            return
        problem = qt_problem()
        if problem is None:
            from app.desktop.window import check_window

            check_window(test.check, engine, COUNT, STOP)
        else:
            asyncio.run(test.check("window", lambda: _left_out(problem)))
    finally:
        if not test.is_stuck:
            engine.close()


async def _engine_checks(test: SelfTest, engine: Engine) -> bool:
    """Check everything except the window; return whether the engine can be used further."""
    if not await test.check("MLX", _mlx):
        return False
    if not await test.check("demo model", lambda: _demo_model(engine)):
        return False
    await test.check("ask", lambda: _ask(engine))
    await test.check("serve", lambda: _serve(engine))
    return True


async def _mlx() -> str:
    return mlx_in_use()


async def _demo_model(engine: Engine) -> str:
    info = await engine.load(paths.demo_model())
    return f"{info.architecture}, {info.size_bytes / 1e6:.0f} MB"


async def _ask(engine: Engine) -> str:
    """Generate an answer that ends at the stop; return why it ended."""
    request = GenerationRequest(
        (Message("user", COUNT),), Sampling(temperature=0), StopRules.of(STOP), thinking=False
    )
    generation = await engine.generate(request)
    text = ""
    async for event in generation.events():
        if isinstance(event, TextDelta):
            text += event.text
        elif isinstance(event, Finished):
            if event.stop.kind is not StopKind.STOP_STRING or text != COUNTED:
                raise CheckFailed(f"the answer was {text!r}; {sentence(event)}")
            return sentence(event)
    raise CheckFailed("the answer has no end")


async def _serve(engine: Engine) -> str:
    """Serve the engine, and request a streamed answer that ends at the stop."""
    from api.server.server import ServerThread
    from api.transport.config import ServerConfig

    server = ServerThread(engine, ServerConfig(port=0))
    address = await asyncio.to_thread(server.start)
    try:
        text, reason = await asyncio.to_thread(streamed_chat, address.url, COUNT, STOP)
    finally:
        await asyncio.to_thread(server.stop)
    if (text, reason) != (COUNTED, "stop"):
        raise CheckFailed(f"the answer was {text!r}, its finish_reason {reason!r}")
    return f"streamed, stopped by {STOP!r}"


def streamed_chat(url: str, question: str, stop: str) -> tuple[str, str | None]:
    """Return the text and the finish_reason of a streamed Chat Completions answer.

    Shares no code with the server. Blocks; any thread.

    Raises:
        CheckFailed: The server refuses the request.
    """
    body = {
        "model": "any",
        "temperature": 0,
        "stream": True,
        "stop": [stop],
        "messages": [{"role": "user", "content": question}],
    }
    place = urlsplit(url)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=_TIMEOUT_S)
    try:
        headers = {"content-type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        response = connection.getresponse()
        received = response.read().decode()
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise CheckFailed(f"status {response.status}: {received}")
    events = [line[6:] for line in received.splitlines() if line.startswith("data: {")]
    choices = [choice for event in events for choice in json.loads(event)["choices"]]
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    return text, next((choice["finish_reason"] for choice in reversed(choices)), None)


async def _left_out(why: str) -> str:
    raise CheckLeftOut(why)


@contextlib.contextmanager
def _own_surroundings(scratch: Path) -> Iterator[None]:
    """Keep the self-test away from the user's settings, conversations, caches and keychain."""
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
