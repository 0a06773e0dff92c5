"""``fullstop --self-test``: ``ask`` and ``serve`` once, with the demo model.

Needs no network and no display, and writes only to a temporary folder. Main thread.
"""

import asyncio
import json
import os
import platform
import sys
import tempfile
import urllib.request
from typing import Any

from app import __version__, exits, paths
from app.commands.window import qt_problem
from app.engines import open_engine
from engine import Engine, mlx_in_use
from engine.stopping.rules import StopRules
from engine.values.request import GenerationRequest, Message, Sampling
from engine.values.verdict import sentence

COUNT = "Count from 1 to 10, one number per line"
STOP = "6"
COUNTED = "1\n2\n3\n4\n5\n"
_TIMEOUT_S = 300.0


def run() -> int:
    """Run the checks and print a line for each; return 0 if none failed, else 1."""
    print(f"Fullstop {__version__}, Python {platform.python_version()}, {platform.platform()}")
    with tempfile.TemporaryDirectory(prefix="fullstop-") as folder:
        os.environ["TMPDIR"] = folder  # MLX compiles kernels there on Linux
        try:
            asyncio.run(asyncio.wait_for(_check(), _TIMEOUT_S))
        except Exception as error:
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            print(f"failed: {reason}", file=sys.stderr)
            return exits.FAILURE
    print("everything works")
    return exits.OK


async def _check() -> None:
    async with open_engine() as engine:
        _report("MLX", mlx_in_use())
        info = await engine.load(paths.demo_model())
        _report("demo model", f"{info.architecture}, {info.size_bytes / 1e6:.0f} MB")
        _report("ask", await _ask(engine))
        _report("serve", await _serve(engine))
    if problem := qt_problem():
        raise RuntimeError(f"window: {problem}")
    _report("window", "Qt can be loaded")


def _report(name: str, outcome: str) -> None:
    print(f"ok  {name:<10}  {outcome}", flush=True)


async def _ask(engine: Engine) -> str:
    request = GenerationRequest(
        (Message("user", COUNT),), Sampling(temperature=0), StopRules.of(STOP), thinking=False
    )
    answer = await (await engine.generate(request)).collect()
    if answer.text != COUNTED:
        raise RuntimeError(f"ask: the answer was {answer.text!r}; {sentence(answer.finished)}")
    return sentence(answer.finished)


async def _serve(engine: Engine) -> str:
    from api.server.server import ServerThread
    from api.service.config import ServerConfig

    server = ServerThread(engine, ServerConfig(port=0))
    address = await asyncio.to_thread(server.start)
    try:
        choice = await asyncio.to_thread(_post_chat, address.url)
    finally:
        await asyncio.to_thread(server.stop)
    if (choice["message"]["content"], choice["finish_reason"]) != (COUNTED, "stop"):
        raise RuntimeError(f"serve: the answer was {choice}")
    return f"Chat Completions, stopped by {STOP!r}"


def _post_chat(url: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": COUNT}]
    body = {"model": "any", "temperature": 0, "stop": [STOP], "messages": messages}
    request = urllib.request.Request(
        f"{url}/v1/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=_TIMEOUT_S) as response:
        choice: dict[str, Any] = json.load(response)["choices"][0]
    return choice
