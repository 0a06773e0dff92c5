"""Measures the server against the engine without HTTP and against ``mlx_lm.server`` beside it.

    python -m tests.benchmarks.serving [--rounds 5] [--only one,sixteen,first,burst,memory]

All three run the demo model in processes pinned to one core and take turns; the client has
another core to itself. Only ratios of one run mean anything: the machines are noisy. Where other
work takes the core away, the processor time that a side used for each token says more than the
clock; both are told. Nothing here passes or fails: read the ratios beside their targets.
"""

import argparse
import asyncio
import json
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.reading import Reading, cores, free_port, pin

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "assets" / "demo-model"
LONG = "Count from 1 to 100, one number per line"
STREAM_TOKENS, ROW_TOKENS = 256, 128
PATH = "/v1/chat/completions"


def report(what: str, value: str, target: str) -> None:
    """Print one row."""
    print(f"{what:<62} {value:>9}   target {target}", flush=True)


def pin_one(core: int) -> None:
    """Keep this process on one core, as far as there are several."""
    found = cores()
    pin(found[core % len(found) :][:1] if found else ())


# -- the engine without HTTP, in a process of its own -----------------------------------------


async def engine_readings(engine: Any, prompts: list[str], tokens: int) -> list[Reading]:
    """Ask the engine all prompts at once."""
    from engine.values.chat import Message
    from engine.values.events import TextDelta
    from engine.values.request import GenerationRequest, Sampling

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
    from engine.scheduling.service import Engine

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


async def server_readings(port: int, prompts: list[str], tokens: int) -> list[Reading]:
    """Ask a server all prompts at once, each on a connection of its own."""
    links = [await asyncio.open_connection("127.0.0.1", port) for _ in prompts]

    async def one(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, prompt: str
    ) -> Reading:
        body = json.dumps(
            {
                "model": "default_model",
                "messages": [{"role": "user", "content": prompt}],
                "max_tokens": tokens,
                "temperature": 0,
                "stream": True,
                "stream_options": {"include_usage": True},
                "chat_template_kwargs": {"enable_thinking": False},
            }
        ).encode()
        begin = time.perf_counter()
        writer.write(
            f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
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


Ask = Callable[[list[str], int], list[Reading]]


@dataclass(frozen=True)
class Side:
    """One of the three that are compared."""

    name: str
    process: subprocess.Popen[str]
    ask: Ask

    @property
    def processor_s(self) -> float:
        """Time that the process has spent on a core so far, all its threads together."""
        # The kernel's clock of another process (clock_getcpuclockid): threads that ended count.
        return time.clock_gettime((~self.process.pid << 3) | 2)

    @property
    def memory_mb(self) -> float:
        """Resident memory."""
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
    """The engine without HTTP."""
    with started("-m", "tests.benchmarks.serving", "--engine-side", stdin=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"

        def ask(prompts: list[str], tokens: int) -> list[Reading]:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(json.dumps({"prompts": prompts, "tokens": tokens}) + "\n")
            child.stdin.flush()
            return [Reading(*one) for one in json.loads(child.stdout.readline())]

        yield Side("engine", child, ask)


def asks(port: int) -> Ask:
    """Return what asks the server on a port."""
    return lambda prompts, tokens: asyncio.run(server_readings(port, prompts, tokens))


@contextmanager
def our_server() -> Iterator[Side]:
    """``fullstop serve``."""
    with started("-m", "app", "serve", "--port", "0", "--model", str(MODEL)) as child:
        assert child.stdout is not None
        port = int(child.stdout.readline().rstrip("/\n").rpartition(":")[2])
        yield Side("serve", child, asks(port))


@contextmanager
def their_server() -> Iterator[Side]:
    """``mlx_lm.server`` on the same model."""
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
        side = Side("mlx_lm.server", child, asks(port))
        side.ask(["Hello"], 2)
        yield side


# -- measurements -----------------------------------------------------------------------------


def rate(readings: list[Reading]) -> float:
    """Return tokens a second, from the first text of all to the last."""
    took = max(one.last_s for one in readings) - min(one.first_s for one in readings)
    return (sum(one.tokens for one in readings) - len(readings)) / took


def alternate(
    sides: list[Side], rounds: int, measure: Callable[[Side, int], float]
) -> dict[str, float]:
    """Let the sides take turns; return the median of each."""
    found: dict[str, list[float]] = {side.name: [] for side in sides}
    for number in range(-1, rounds):
        for side in sides:
            value = measure(side, number)
            if number >= 0:  # the first round warms up
                found[side.name].append(value)
    return {name: statistics.median(values) for name, values in found.items()}


def streams(sides: list[Side], rounds: int, rows: int, tokens: int) -> None:
    """Tokens a second of one or several streams."""

    spent: dict[str, list[float]] = {side.name: [] for side in sides}

    def measure(side: Side, number: int) -> float:
        before = side.processor_s
        readings = side.ask([LONG] * rows, tokens)
        if number >= 0:
            used = side.processor_s - before
            spent[side.name].append(sum(one.tokens for one in readings) / used)
        return rate(readings)

    found = alternate(sides, rounds, measure)
    by_processor = {name: statistics.median(values) for name, values in spent.items()}
    numbers = ", ".join(f"{name} {value:.0f}" for name, value in found.items())
    what = f"{rows} stream{'s' if rows > 1 else ''} of {tokens} tokens"
    report(f"{what}: serve / engine", f"{found['serve'] / found['engine']:.3f}", ">= 0.95")
    report(
        f"{what}: serve / mlx_lm.server",
        f"{found['serve'] / found['mlx_lm.server']:.3f}",
        f"> 1   ({numbers} tok/s)",
    )
    numbers = ", ".join(f"{name} {value:.0f}" for name, value in by_processor.items())
    for other, target in (("engine", ">= 0.95"), ("mlx_lm.server", f"> 1   ({numbers} tok/s)")):
        ratio = by_processor["serve"] / by_processor[other]
        report(f"  by processor time: serve / {other}", f"{ratio:.3f}", target)


def first_token(sides: list[Side], rounds: int) -> None:
    """Time to first token of a short prompt, one at a time."""

    def measure(side: Side, number: int) -> float:
        prompts = [f"Say: {number} {index}" for index in range(8)]
        return statistics.median(side.ask([prompt], 4)[0].first_s for prompt in prompts) * 1000

    found = alternate(sides, rounds, measure)
    numbers = ", ".join(f"{name} {value:.1f}" for name, value in found.items())
    report(
        "first token of a short prompt: serve - engine (ms)",
        f"{found['serve'] - found['engine']:.2f}",
        f"<= 3   ({numbers} ms)",
    )


def burst(sides: list[Side], rounds: int, clients: int = 16) -> None:
    """Median time to first token of clients that arrive at once."""

    def measure(side: Side, number: int) -> float:
        prompts = [f"Repeat exactly: {number} {index} blue" for index in range(clients)]
        return statistics.median(one.first_s for one in side.ask(prompts, 16)) * 1000

    found = alternate(sides, rounds, measure)
    numbers = ", ".join(f"{name} {value:.1f}" for name, value in found.items())
    report(
        f"{clients} at once, median first token: serve / mlx_lm.server",
        f"{found['serve'] / found['mlx_lm.server']:.3f}",
        f"< 1   ({numbers} ms)",
    )


def memory(sides: list[Side]) -> None:
    """Memory of the servers after their first answer."""
    for side in sides:
        side.ask(["Hello"], 2)
    found = {side.name: side.memory_mb for side in sides}
    numbers = ", ".join(f"{name} {value:.0f}" for name, value in found.items())
    report(
        "memory after start: serve - mlx_lm.server (MB)",
        f"{found['serve'] - found['mlx_lm.server']:.0f}",
        f"<= 10   ({numbers} MB)",
    )


def main() -> None:
    """Run the chosen measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="memory,one,sixteen,first,burst")
    parser.add_argument("--engine-side", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine_side:
        engine_side()
        return
    only = set(options.only.split(","))
    with ExitStack() as stack:
        sides = [stack.enter_context(side()) for side in (bare_engine, our_server, their_server)]
        pin_one(1)  # only now: the sides would inherit it
        if "memory" in only:
            memory(sides)
        if "one" in only:
            streams(sides, options.rounds, 1, STREAM_TOKENS)
        if "sixteen" in only:
            streams(sides, options.rounds, 16, ROW_TOKENS)
        if "first" in only:
            first_token(sides, options.rounds)
        if "burst" in only:
            burst(sides, options.rounds)


if __name__ == "__main__":
    main()
