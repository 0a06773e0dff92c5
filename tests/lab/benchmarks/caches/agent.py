"""Measures a coding agent's first two turns: the time to the first text, as a client sees it.

    python -m tests.lab.benchmarks.caches.agent [--rounds 1] [--tokens 19000]

A server of its own on the demo model gets what such agents send to Messages, as a stream: a long
system prompt, 12 tools and a question; then the same with the answer and a result behind it. The
prompt is as long as an agent's default prompt is with its vendor's tokenizer. The figure is the
ratio of the two in one round; each round has a prompt of its own, so that none finds the one
before. A round takes minutes on two cores.
"""

import argparse
import asyncio
import json
import statistics
import time
import urllib.request
from pathlib import Path
from typing import Any

from api.server.server import ServerThread
from engine.scheduling.service import Engine
from tests.lab.benchmarks.measuring import MODEL, prepare, report

TOOLS = 12


def tool(number: int) -> dict[str, Any]:
    """Return a typical tool of an agent: a description, and an object with a few fields."""
    fields = {name: {"type": "string", "description": f"The {name}"} for name in ("path", "text")}
    schema = {"type": "object", "properties": fields, "required": ["path"]}
    return {
        "name": f"tool_{number}",
        "description": "Does a thing to a file",
        "input_schema": schema,
    }


def asked(system: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "model": "m",
        "max_tokens": 8,
        "temperature": 0,
        "system": system,
        "messages": messages,
        "tools": [tool(number) for number in range(TOOLS)],
    }


def post(url: str, path: str, body: dict[str, Any]) -> Any:
    """Send a request; return its open answer."""
    data, kind = json.dumps(body).encode(), {"content-type": "application/json"}
    return urllib.request.urlopen(urllib.request.Request(url + path, data, kind), timeout=3600)


def size(url: str, body: dict[str, Any]) -> int:
    counted = {name: body[name] for name in ("model", "system", "messages", "tools")}
    with post(url, "/v1/messages/count_tokens", counted) as answer:
        return int(json.load(answer)["input_tokens"])


def first_text(url: str, body: dict[str, Any]) -> tuple[float, str, int]:
    """Ask for a stream; return the seconds to the first text, the text, and the cached tokens."""
    begin_s, first_s, text, cached = time.perf_counter(), 0.0, "", 0
    with post(url, "/v1/messages", {**body, "stream": True}) as answer:
        for line in answer:
            if not line.startswith(b"data: "):
                continue
            event = json.loads(line.removeprefix(b"data: "))
            if event["type"] == "content_block_delta":
                first_s = first_s or time.perf_counter() - begin_s
                text += event["delta"].get("text", "")
            elif event["type"] == "message_delta":
                cached = event["usage"]["cache_read_input_tokens"]
    assert first_s, "the answer had no text"
    return first_s, text, cached


def prompt_of(url: str, number: int, tokens: int) -> str:
    """Return a system prompt with which a request has about as many tokens."""
    words = "You are an agent that works on files. "
    ask = [{"role": "user", "content": "Count from 1 to 10"}]
    one, many = (size(url, asked(words * count, ask)) for count in (1, 101))
    each = (many - one) / 100
    return f"{number}. " + words * round((tokens - one) / each)


def turns(url: str, number: int, tokens: int) -> float:
    """Ask two turns; return the time of the second divided by that of the first."""
    ask = {"role": "user", "content": "Count from 1 to 10, one number per line"}
    system = prompt_of(url, number, tokens)
    body = asked(system, [ask])
    prompt = size(url, body)
    first_s, text, _ = first_text(url, body)
    more = [ask, {"role": "assistant", "content": text}, {"role": "user", "content": "Go on"}]
    second_s, _, cached = first_text(url, asked(system, more))
    print(
        f"{prompt} tokens, {TOOLS} tools: first {first_s:.2f} s, second {second_s:.3f} s, "
        f"of whose prompt {cached} tokens were cached",
        flush=True,
    )
    return second_s / first_s


def main() -> None:
    prepare()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=19_000)
    given = parser.parse_args()
    engine = Engine()
    asyncio.run(engine.load(Path(MODEL)))
    server = ServerThread(engine)
    url = server.start().url
    try:
        # The first step of a fresh model takes longer than any other.
        first_text(url, asked("", [{"role": "user", "content": "Count to 3"}]))
        found = [turns(url, number, given.tokens) for number in range(given.rounds)]
    finally:
        server.stop()
        engine.close()
    report(
        "an agent's second turn / first, first text", f"{statistics.median(found):.4f}", "<= 0.01"
    )


if __name__ == "__main__":
    main()
