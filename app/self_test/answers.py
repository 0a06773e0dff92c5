"""Answers of the demo model for the self-test: one for each way in which an answer can end.

Knows no server and no window. Runs on the caller's event loop.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from app import paths
from engine import (
    Engine,
    Finished,
    GenerationRequest,
    Limits,
    Message,
    OutputConstraint,
    Sampling,
    StopKind,
    StopRules,
    TextDelta,
    Tool,
    load_model,
    sentence,
)

COUNT = "Count from 1 to 10, one number per line"
STOP = "6"
COUNTED = "1\n2\n3\n4\n5\n"
_COUNTED_TO_TEN = f"{COUNTED}6\n7\n8\n9\n10"
_SHORT_CONTEXT = 128
_LITTLE_MEMORY = 3 << 19  # bytes: for one answer of some 256 tokens of the demo model
_HELD = "held to a schema"
_FAULT = "a fault made on purpose"
_WEATHER = Tool(
    "get_weather",
    "Get the weather in a city",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)

StopCheck = Callable[[], Awaitable[str]]


class WrongStop(Exception):
    """An answer did not end as it should; the message says how it ended."""


def stop_checks(engine: Engine, scratch: Path) -> dict[StopKind, StopCheck]:
    """Return, for each stop kind, a check that ends an answer that way and returns a sentence."""
    asked = _greedy(COUNT)
    endless = replace(asked, stops=StopRules(ignore_eos=True))
    weather = replace(_greedy("What is the weather in Paris?"), tools=(_WEATHER,))

    async def stop_token() -> str:
        [(token_id, _)] = await engine.tokenize(STOP)
        wanted = replace(asked, stops=StopRules(token_ids=(token_id,)))
        return await _ends(engine, wanted, StopKind.STOP_TOKEN, COUNTED)

    async def context_full() -> str:
        short = Engine()
        try:
            await short.load(_with_short_context(scratch))
            return await _ends(short, endless, StopKind.CONTEXT_FULL)
        finally:
            await short.aclose()

    async def memory_full() -> str:
        narrow = Engine(Limits(context_bytes=_LITTLE_MEMORY))
        try:
            await narrow.load(paths.demo_model())
            return await _ends(narrow, endless, StopKind.MEMORY_FULL)
        finally:
            await narrow.aclose()

    async def error() -> str:
        failing = Engine(loader=_load_failing)
        try:
            await failing.load(paths.demo_model())
            return await _ends(failing, asked, StopKind.ERROR)
        finally:
            await failing.aclose()

    return {
        StopKind.EOS: lambda: _ends(engine, asked, StopKind.EOS, _COUNTED_TO_TEN),
        StopKind.STOP_STRING: lambda: _ends(
            engine, replace(asked, stops=StopRules((STOP,))), StopKind.STOP_STRING, COUNTED
        ),
        StopKind.STOP_TOKEN: stop_token,
        StopKind.MAX_TOKENS: lambda: _ends(
            engine, replace(asked, max_tokens=5), StopKind.MAX_TOKENS, "1\n2\n3"
        ),
        StopKind.TOOL_CALL: lambda: _ends(engine, weather, StopKind.TOOL_CALL),
        StopKind.CONTEXT_FULL: context_full,
        StopKind.MEMORY_FULL: memory_full,
        StopKind.CANCELLED: lambda: _ends(engine, endless, StopKind.CANCELLED, is_cancelled=True),
        StopKind.ERROR: error,
    }


async def held_answer(engine: Engine) -> str:
    """Generate an answer that follows a JSON schema, which another process compiles; return it."""
    wanted = json.dumps(_HELD)
    asked = replace(_greedy(COUNT), constraint=OutputConstraint({"const": _HELD}))
    await _ends(engine, asked, StopKind.EOS, wanted)
    return wanted


def _greedy(question: str) -> GenerationRequest:
    return GenerationRequest((Message("user", question),), Sampling(temperature=0), thinking=False)


async def _ends(
    engine: Engine,
    request: GenerationRequest,
    kind: StopKind,
    text: str | None = None,
    *,
    is_cancelled: bool = False,
) -> str:
    """Generate an answer and return why it ended."""
    generation = await engine.generate(request)
    said: list[str] = []
    finished: Finished | None = None
    async for event in generation.events():
        if isinstance(event, TextDelta):
            said.append(event.text)
            if is_cancelled:
                generation.cancel()
        elif isinstance(event, Finished):
            finished = event
    if finished is None:
        raise WrongStop("the answer has no end")
    why = sentence(finished)
    if finished.stop.kind is not kind:
        raise WrongStop(f"it ended by {finished.stop.kind}: {why}")
    if text is not None and "".join(said) != text:
        raise WrongStop(f"it said {''.join(said)!r} instead of {text!r}")
    return why


def _with_short_context(folder: Path) -> Path:
    """Return a folder with the demo model, configured with a short context."""
    folder.mkdir()
    model = paths.demo_model()
    for file in model.iterdir():
        if file.suffix in (".safetensors", ".jinja", ".json"):
            (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    config["max_position_embeddings"] = _SHORT_CONTEXT
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def _load_failing(folder: Path, **options: Any) -> Any:
    """Load a model whose steps fail, as if the GPU failed."""

    def fail() -> NoReturn:
        raise RuntimeError(_FAULT)

    backend = load_model(folder, **options)
    backend.step = fail  # type: ignore[method-assign]
    return backend
