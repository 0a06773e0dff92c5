"""``fullstop --self-test``: checks that this installation works, with the demo model.

Loads MLX and the demo model, ends an answer in every possible way, serves both vendors' clients,
and builds the window off screen if Qt can be loaded. Needs no network and no display. It writes
only to a temporary folder, so a person's settings and conversations are not touched. Main thread.
"""

import asyncio
import contextlib
import http.client
import json
import logging
import os
import platform
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from app import __version__, exits, paths
from app.commands.window import qt_problem
from app.composition import new_engine
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
    mlx_in_use,
    sentence,
)

# A plain HTTP client for the self-test: sends requests like the two vendors' clients.
#
# Reads the streams with the standard library only and shares no code with the server. Blocks; any
# thread.

_TIMEOUT_S = 30.0
_MAX_TOKENS = 200


def messages_problem(url: str, question: str, stop: str, text: str) -> str | None:
    """Request a streamed Messages answer; return what is wrong with it, or None."""
    asked = {"stop_sequences": [stop]}
    status, frames = _streamed(url, "/v1/messages", question, asked)
    if status != http.client.OK:
        return f"status {status}: {frames}"
    events = [json.loads(frame) for frame in frames]
    said = "".join(
        event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta"
    )
    ends = [event["delta"] for event in events if event["type"] == "message_delta"]
    if not events or events[-1]["type"] != "message_stop":
        return "the stream does not end in message_stop"
    wanted = [("stop_sequence", stop)]
    seen = [(end.get("stop_reason"), end.get("stop_sequence")) for end in ends]
    return _difference(said, text, seen, wanted)


def chat_problem(url: str, question: str, stop: str, text: str) -> str | None:
    """Request a streamed Chat Completions answer; return the same as ``messages_problem``."""
    status, frames = _streamed(url, "/v1/chat/completions", question, {"stop": [stop]})
    if status != http.client.OK:
        return f"status {status}: {frames}"
    if not frames or frames[-1] != "[DONE]":
        return "the stream does not end in [DONE]"
    choices = [choice for frame in frames[:-1] for choice in json.loads(frame)["choices"]]
    said = "".join(choice["delta"].get("content") or "" for choice in choices)
    seen = [
        (choice["finish_reason"], choice.get("matched_stop"))
        for choice in choices
        if choice["finish_reason"] is not None
    ]
    return _difference(said, text, seen, [("stop", stop)])


def _difference(said: str, text: str, seen: object, wanted: object) -> str | None:
    if said != text:
        return f"the answer was {said!r} instead of {text!r}"
    if seen != wanted:
        return f"the reason was {seen!r} instead of {wanted!r}"
    return None


def _streamed(url: str, path: str, question: str, options: dict[str, Any]) -> tuple[int, list[str]]:
    """Return the status and the data of each event, or the body of a refusal."""
    body = {
        "model": "any",
        "max_tokens": _MAX_TOKENS,
        "temperature": 0,
        "stream": True,
        "messages": [{"role": "user", "content": question}],
        **options,
    }
    place = urlsplit(url)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=_TIMEOUT_S)
    try:
        headers = {"content-type": "application/json"}
        connection.request("POST", path, json.dumps(body).encode(), headers)
        answer = connection.getresponse()
        text = answer.read().decode()
    finally:
        connection.close()
    if answer.status != http.client.OK:
        return answer.status, [text]
    lines = text.splitlines()
    return answer.status, [line.removeprefix("data: ") for line in lines if line.startswith("data")]


# Answers of the demo model for the self-test: one for each way in which an answer can end.

COUNT = "Count from 1 to 10, one number per line"
STOP = "6"
COUNTED = "1\n2\n3\n4\n5\n"
_COUNTED_TO_TEN = f"{COUNTED}6\n7\n8\n9\n10"
_SHORT_CONTEXT = 128
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
        async with Engine() as short:
            await short.load(_with_short_context(scratch))
            return await _ends(short, endless, StopKind.CONTEXT_FULL)

    async def memory_full() -> str:
        model = engine.model
        assert model is not None
        shortest = model.answer_cache.allocated_bytes(1)
        async with Engine(Limits(context_bytes=shortest)) as narrow:
            await narrow.load(paths.demo_model())
            return await _ends(narrow, endless, StopKind.MEMORY_FULL)

    async def error() -> str:
        async with Engine(loader=_load_failing) as failing:
            await failing.load(paths.demo_model())
            return await _ends(failing, asked, StopKind.ERROR)

    return {
        StopKind.EOS: lambda: _ends(engine, asked, StopKind.EOS, _COUNTED_TO_TEN),
        StopKind.STOP_STRING: lambda: _ends(
            engine, replace(asked, stops=StopRules.of(STOP)), StopKind.STOP_STRING, COUNTED
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
    backend.batch.step = fail  # type: ignore[method-assign]
    return backend


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
            self._say("left out", name, str(why))
        except TimeoutError:
            self.is_stuck = True
            self._say("failed", name, f"no result within {_CHECK_LIMIT_S:.0f} seconds")
        except Exception as error:
            self._say("failed", name, _in_a_line(str(error)) or type(error).__name__)
        else:
            self._say("ok", name, outcome)
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
            from app.desktop.window import check_window

            check_window(test.check, engine, COUNT, STOP)
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
