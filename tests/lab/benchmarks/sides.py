"""The sides that ``serving`` compares: the engine alone, our server, and ``mlx_lm.server``.

Run as a module it is the engine's side, which answers on standard output.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
MODEL = ROOT / "assets" / "demo-model"
PATH = "/v1/chat/completions"


@dataclass(frozen=True)
class Reading:
    """One answer as its reader saw it, in seconds since it was asked for."""

    first_s: float
    last_s: float
    tokens: int


def pin_one(core: int) -> None:
    """Keep this process on one core, as far as there are several."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[core % len(cores)]})


def free_port() -> int:
    """Return a port of this computer that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        port: int = held.getsockname()[1]
        return port


# -- the engine without HTTP, in a process of its own -----------------------------------------


async def engine_readings(engine: Any, prompts: list[str], tokens: int) -> list[Reading]:
    """Ask the engine all prompts at once."""
    from engine.values.events import TextDelta
    from engine.values.request import GenerationRequest, Message, Sampling

    async def one(prompt: str) -> Reading:
        begin = time.perf_counter()
        generation = await engine.generate(
            GenerationRequest(
                (Message("user", prompt),),
                sampling=Sampling(temperature=0),
                max_tokens=tokens,
                thinking=False,
            )
        )
        first = last = 0.0
        async for batch in generation.batches():
            if any(isinstance(event, TextDelta) for event in batch):
                last = time.perf_counter() - begin
                first = first or last
        return Reading(first, last, generation.finished.usage.output_tokens)

    return list(await asyncio.gather(*(one(prompt) for prompt in prompts)))


def engine_side() -> None:
    """Answer lines of JSON on standard input: prompts and a token limit."""
    from engine.engine import Engine

    engine = Engine()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(engine.load(MODEL))
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        readings = loop.run_until_complete(
            engine_readings(engine, asked["prompts"], asked["tokens"])
        )
        print(json.dumps([[one.first_s, one.last_s, one.tokens] for one in readings]), flush=True)
    engine.close()


# -- a server, asked over raw sockets ---------------------------------------------------------


def question(port: int, prompt: str, tokens: int, **options: object) -> bytes:
    """Return the bytes of a request to stream an answer."""
    body = json.dumps(
        {
            "model": "default_model",
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            "chat_template_kwargs": {"enable_thinking": False},
            **options,
        }
    ).encode()
    return (
        f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body
    )


@contextmanager
def endless_answer(port: int, prompt: str) -> Iterator[None]:
    """Stream an answer that does not end; it begins before this is entered."""
    with socket.create_connection(("127.0.0.1", port)) as link:
        # A bias against the demo model's end: mlx_lm.server knows no ``ignore_eos``.
        link.sendall(question(port, prompt, 1 << 14, logit_bias={"2": -100}))
        lines = link.makefile("rb")
        while b'"content":' not in (line := lines.readline()):
            if not line:
                raise ConnectionError("the server ended the answer")
        reader = threading.Thread(target=lambda: [None for _ in lines], daemon=True)
        reader.start()
        yield
        link.shutdown(socket.SHUT_RDWR)
        reader.join()


async def server_readings(port: int, prompts: Sequence[str], tokens: int) -> list[Reading]:
    """Ask a server all prompts at once, on connections of their own."""
    links = [await asyncio.open_connection("127.0.0.1", port) for _ in prompts]

    async def one(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, prompt: str
    ) -> Reading:
        begin = time.perf_counter()
        writer.write(question(port, prompt, tokens))
        first = last = 0.0
        usage = b""
        while line := await reader.readline():
            if b'"content":' in line and b'"content":""' not in line.replace(b" ", b""):
                last = time.perf_counter() - begin
                first = first or last
            elif b'"completion_tokens"' in line:
                usage = line
        writer.close()
        found = json.loads(usage.removeprefix(b"data: "))["usage"]["completion_tokens"]
        return Reading(first, last, found)

    return list(
        await asyncio.gather(
            *(one(*link, prompt) for link, prompt in zip(links, prompts, strict=True))
        )
    )


Ask = Callable[[Sequence[str], int], list[Reading]]


@dataclass(frozen=True)
class Side:
    """One of the three that are compared."""

    name: str
    process: subprocess.Popen[str]
    ask: Ask
    port: int = 0

    @property
    def processor_s(self) -> float:
        """Time that the process has spent on a core so far, all its threads together."""
        # The kernel's clock of another process (clock_getcpuclockid): threads that ended count.
        return time.clock_gettime((~self.process.pid << 3) | 2)

    @property
    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith("VmRSS")]
        return int(line.split()[1]) / 1000


@contextmanager
def started(*words: str, **more: Any) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: pin_one(0),
        **more,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


@contextmanager
def bare_engine() -> Iterator[Side]:
    with started("-m", "tests.lab.benchmarks.sides", stdin=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"

        def ask(prompts: Sequence[str], tokens: int) -> list[Reading]:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(json.dumps({"prompts": list(prompts), "tokens": tokens}) + "\n")
            child.stdin.flush()
            return [Reading(*one) for one in json.loads(child.stdout.readline())]

        yield Side("engine", child, ask)


def asks(port: int) -> Ask:
    """Return what asks the server on a port."""
    return lambda prompts, tokens: asyncio.run(server_readings(port, prompts, tokens))


@contextmanager
def our_server() -> Iterator[Side]:
    with started("-m", "app", "serve", "--port", "0", "--model", str(MODEL)) as child:
        assert child.stdout is not None
        port = int(child.stdout.readline().rstrip("/\n").rpartition(":")[2])
        yield Side("serve", child, asks(port), port)


@contextmanager
def their_server() -> Iterator[Side]:
    port = free_port()
    words = ("-m", "mlx_lm", "server", "--model", str(MODEL), "--port", str(port))
    with started(*words, "--log-level", "ERROR", stderr=subprocess.DEVNULL) as child:
        ends_at = time.monotonic() + 120
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if time.monotonic() > ends_at or child.poll() is not None:
                    raise
                time.sleep(0.1)
        side = Side("mlx_lm.server", child, asks(port), port)
        side.ask(["Hello"], 2)
        yield side


if __name__ == "__main__":
    engine_side()
