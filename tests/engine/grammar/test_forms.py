"""Schemas are compiled beside the engine thread, and first where they can do no harm."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from engine.errors import EngineClosed, InvalidRequest, QueueFull
from engine.grammar import form_compiler
from engine.grammar.compilation import new_matcher
from engine.scheduling import preparation
from engine.scheduling.service import Engine
from engine.values.request import GenerationRequest, OutputConstraint, Tool, ToolChoice
from tests.support.asking import ask, request, run
from tests.support.schemas import DEADLY, optional

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]

# Runs where a death ends no test: each schema as the answer's form and as a tool's arguments, and
# then a good one; at last two with the bounds off, so that only the helper stands in between.
PROGRAM = """
import asyncio, json
from pathlib import Path
from engine.values.request import Tool
from engine.errors import InvalidRequest
from engine.values.request import OutputConstraint, ToolChoice
from engine.grammar.schema_bounds import Bounds
from engine.scheduling.service import Engine
from tests.support.asking import ask
from tests.support.schemas import DEADLY

async def refused(engine, schema):
    fields = []
    tool = Tool("add", "", {"type": "object", "properties": {"a": schema}, "$defs":
                            schema.get("$defs", {})})
    for more in ({"constraint": OutputConstraint(schema)},
                 {"tools": (tool,), "tool_choice": ToolChoice("required")}):
        try:
            await ask(engine, "Say: x", max_tokens=5, **more)
        except InvalidRequest as refusal:
            fields.append(refusal.field)
    return fields

async def main():
    engine = Engine()
    await engine.load(Path("assets/demo-model"))
    bounded = {name: await refused(engine, schema) for name, schema in DEADLY.items()}
    await ask(engine, "Say: x", constraint=OutputConstraint({"const": 5}))
    starts = [engine.forms.helper.starts]
    Bounds.check = lambda *_: None
    unbounded = {name: await refused(engine, DEADLY[name]) for name in ("const", "chain of 1,500")}
    good = await ask(engine, "Say: x", constraint=OutputConstraint({"const": 7}))
    starts.append(engine.forms.helper.starts)
    await engine.aclose()
    print(json.dumps([bounded, unbounded, good.text, starts]))

asyncio.run(main())
"""


def test_no_schema_ends_the_program() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=300
    )
    bounded, unbounded, good, starts = json.loads(done.stdout)
    assert bounded.keys() == DEADLY.keys()
    # A tool's schema that does not compile is left out of the grammar.
    for name, fields in [*bounded.items(), *unbounded.items()]:
        assert fields == ["constraint.json_schema"], name
    assert good == "7"
    assert starts[0] == 1 < starts[1]


def held(schema: dict[str, Any]) -> OutputConstraint:
    return OutputConstraint(schema)


def test_nothing_is_compiled_on_the_engine_thread(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []

    def noted(tokenizer: Any, grammar: str) -> Any:
        names.append(threading.current_thread().name)
        return new_matcher(tokenizer, grammar)

    monkeypatch.setattr(form_compiler, "new_matcher", noted)
    assert run(ask(engine, "Say: x", constraint=held({"const": "on which thread"})))
    # Another test's abandoned request may still compile here: what counts is the thread.
    assert set(names) == {"fullstop-quiet"}


def test_a_refused_schema_is_refused_again_without_another_trial(engine: Engine) -> None:
    # Within the bounds, beyond what the compiler's own limits allow.
    schema = {"type": "integer", "multipleOf": 10**9 + 7}
    for _ in range(2):
        with pytest.raises(InvalidRequest, match="fuel") as refusal:
            run(ask(engine, "Say: x", constraint=held(schema)))
        assert refusal.value.field == "constraint.json_schema"
        pid = engine.forms.helper.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)  # it would answer nothing more
    os.kill(pid, signal.SIGCONT)


async def loaded(folder: Path) -> Engine:
    engine = Engine()
    await engine.load(folder)
    return engine


async def stopped_helper(engine: Engine) -> int:
    """Have the helper started, and stop it in its tracks."""
    await ask(engine, "Say: x", constraint=held({"const": 1}))
    pid = engine.forms.helper.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    return pid


async def test_a_caller_can_leave_while_a_schema_compiles_and_no_other_request_waits_for_it(
    demo_model_path: Path,
) -> None:
    engine = await loaded(demo_model_path)
    pid = await stopped_helper(engine)
    leaving = asyncio.create_task(ask(engine, "Say: x", constraint=held({"const": 2})))
    free = await ask(engine, "Say: x", max_tokens=3)
    known = await ask(engine, "Say: x", constraint=held({"const": 1}))
    assert not leaving.done()
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    os.kill(pid, signal.SIGCONT)
    after = await ask(engine, "Say: x", constraint=held({"const": 3}))
    await engine.aclose()
    assert free.finished.usage.output_tokens > 0
    assert (known.text, after.text) == ("1", "3")


async def test_closing_the_engine_ends_the_wait(demo_model_path: Path) -> None:
    engine = await loaded(demo_model_path)
    await stopped_helper(engine)
    waiting = [
        asyncio.create_task(ask(engine, "Say: x", constraint=held({"const": number})))
        for number in (2, 3)
    ]
    await asyncio.sleep(0)
    await engine.aclose()
    for task in waiting:
        with pytest.raises(EngineClosed):
            await task


async def test_too_many_schemas_at_once_are_refused_for_now(
    demo_model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "MAX_WAITING", 1)

    engine = await loaded(demo_model_path)
    pid = await stopped_helper(engine)
    waiting = asyncio.create_task(ask(engine, "Say: x", constraint=held({"const": 2})))
    await asyncio.sleep(0)
    with pytest.raises(QueueFull):
        await ask(engine, "Say: x", constraint=held({"const": 3}))
    os.kill(pid, signal.SIGCONT)
    assert (await waiting).text == "2"
    await engine.aclose()


async def test_a_form_is_made_again_for_another_model_and_after_unloading(
    demo_model_path: Path,
) -> None:
    wanted = request("Say: x", constraint=held({"const": "anew"}))

    engine = await loaded(demo_model_path)
    texts = [(await (await engine.generate(wanted)).collect()).text]
    await engine.load(demo_model_path)
    texts.append((await (await engine.generate(wanted)).collect()).text)
    engine.unload_after(0.01)
    while not engine.status.is_unloaded:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    engine.unload_after(None)
    texts.append((await (await engine.generate(wanted)).collect()).text)
    await engine.aclose()
    assert texts == ['"anew"'] * 3


def test_an_object_of_3000_required_properties_is_an_answer_like_any_other(engine: Engine) -> None:
    wide = optional(3000)
    wide["required"] = list(wide["properties"])
    answer = run(ask(engine, "Say: x", constraint=held(wide), max_tokens=30))
    assert answer.text.startswith('{"p0"')
    assert answer.finished.error is None


@pytest.mark.parametrize(
    "schema",
    [
        optional(700),
        {"properties": optional(700)["properties"]},
        {"items": optional(700)},
        {"anyOf": [{"type": "object"}, {"items": {"anyOf": [optional(400)] * 4}}]},
    ],
    ids=["an object", "an object or else", "in a list", "in one of several lists"],
)
def test_objects_of_too_many_optional_properties_are_refused_before_they_are_written(
    engine: Engine, schema: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequest, match="about 500 optional properties"):
        run(ask(engine, "Say: x", constraint=held(schema), max_tokens=30))


async def test_a_tool_without_use_is_not_compiled(engine: Engine) -> None:
    tool = Tool("add", "", DEADLY["limits of -1e19"])
    asked = GenerationRequest(
        messages=request("Say: x").messages,
        constraint=held({"const": 5}),
        tools=(tool,),
        tool_choice=ToolChoice("none"),
    )

    assert (await (await engine.generate(asked)).collect()).text == "5"
