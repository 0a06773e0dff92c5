"""Schemas, tools and requests that the tests of constrained answers share."""

import asyncio
import json
from pathlib import Path
from typing import Any

import jsonschema

from engine.engine import Engine
from engine.generation import Answer
from engine.stopping.record import StopKind
from engine.values.request import GenerationRequest, OutputConstraint, Tool
from tests.support.scripted import TEMPLATE, Stage


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


WORD = {"type": "string", "maxLength": 12}


POINT = closed(x={"type": "integer", "minimum": 0, "maximum": 99})


def held(schema: dict[str, Any] | None) -> OutputConstraint:
    return OutputConstraint(schema)


async def ask_all(engine: Engine, requests: list[GenerationRequest]) -> list[Answer]:
    async def one(wanted: GenerationRequest) -> Answer:
        return await (await engine.generate(wanted)).collect()

    return list(await asyncio.gather(*(one(wanted) for wanted in requests)))


OPEN = {"type": "object", "properties": {"name": {"enum": ["a", "b"]}}, "required": ["name"]}


TAGS = ["<think>", "</think>"]


OPENED = TEMPLATE.replace("<|go|>", "<think>\n<|go|>")


CLOSED = TEMPLATE.replace("<|go|>", "<think>\n\n</think>\n\n<|go|>")


ADD = Tool("add", "Adds.", closed(a={"type": "integer", "minimum": 0, "maximum": 99}))


SAY = Tool("say \"it\"", "Says.", closed(text={"type": "string", "maxLength": 9}))  # fmt: skip


CALL_TAGS = ["<tool_call>", "</tool_call>"]


def json_calls(folder: Path, script: list[str | int], **options: Any) -> Stage:
    template = options.pop("template", TEMPLATE) + "{# <tool_call> tool_call.name #}"
    plain = [*CALL_TAGS, *options.pop("plain", ())]
    return Stage(folder, {"go": script}, plain=plain, template=template, **options)


def check_call(answer: Answer, *tools: Tool) -> None:
    [call] = answer.tool_calls
    [tool] = [tool for tool in tools if tool.name == call.name]
    jsonschema.validate(json.loads(call.arguments), dict(tool.parameters))
    assert answer.text == ""
    assert answer.finished.stop.kind is StopKind.TOOL_CALL
