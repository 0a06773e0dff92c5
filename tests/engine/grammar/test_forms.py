"""Schemas and grammars are compiled beside the engine thread, within bounds."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.engine import Engine
from engine.errors import InvalidRequest
from engine.grammar import grammar_compiler
from engine.grammar.compilation import new_matcher
from tests.engine.grammar.forms import held
from tests.support.asking import ask, loaded_engine, run
from tests.support.schemas import DEADLY, optional

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]

# Runs where a death ends no test: each schema as the answer's form and as a tool's arguments, then
# the deepest grammars, and a good schema.
PROGRAM = """
import asyncio, json
from pathlib import Path
from engine.values.request import Tool
from engine.errors import InvalidRequest
from engine.values.request import OutputConstraint, TextForm, ToolChoice
from engine.engine import Engine
from tests.support.asking import ask
from tests.support.schemas import DEADLY, aliases, chain

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
    deep = []
    for name in ("a", "A"):
        rules = [f"{name}{n}:{name}{n + 1}" for n in range(4500)]
        lark = chr(10).join([f"start:{name}0", *rules, f'{name}4500:"x"'])
        form = OutputConstraint(text_form=TextForm(grammar=lark))
        deep.append((await ask(engine, "Say: x", constraint=form)).text)
    for schema in (chain(1500), aliases(4000)):
        await ask(engine, "Say: x", constraint=OutputConstraint(schema), max_tokens=3)
    good = await ask(engine, "Say: x", constraint=OutputConstraint({"const": 7}))
    await engine.aclose()
    print(json.dumps([bounded, deep, good.text]))

asyncio.run(main())
"""


def test_hostile_schemas_and_deep_grammars_do_not_end_the_program() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=300
    )
    bounded, deep, good = json.loads(done.stdout)
    assert bounded.keys() == DEADLY.keys()
    # A tool's schema that does not compile is left out of the grammar.
    for name, fields in bounded.items():
        assert fields == ["constraint.json_schema"], name
    assert deep == ["x", "x"]
    assert good == "7"


@pytest.fixture
def goes_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Until it is set, no schema compiles but ``{"const": 1}``."""
    event = threading.Event()

    def waiting(tokenizer: Any, grammar: str) -> Any:
        if '"const": 1' not in grammar:
            event.wait(60)
        return new_matcher(tokenizer, grammar)

    monkeypatch.setattr(grammar_compiler, "new_matcher", waiting)
    yield event
    event.set()


async def test_cancelled_schema_compilation_blocks_no_other_request(
    demo_model_path: Path, goes_on: threading.Event
) -> None:
    async with loaded_engine(demo_model_path) as engine:
        await ask(engine, "Say: x", constraint=held({"const": 1}))
        leaving = asyncio.create_task(ask(engine, "Say: x", constraint=held({"const": 2})))
        free = await ask(engine, "Say: x", max_tokens=3)
        known = await ask(engine, "Say: x", constraint=held({"const": 1}))
        assert not leaving.done()
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        goes_on.set()
        after = await ask(engine, "Say: x", constraint=held({"const": 3}))
    assert free.finished.usage.output_tokens > 0
    assert (known.text, after.text) == ("1", "3")


def test_too_many_optional_properties_are_refused(engine: Engine) -> None:
    with pytest.raises(InvalidRequest, match="about 500 optional properties"):
        run(ask(engine, "Say: x", constraint=held(optional(700)), max_tokens=30))
