"""Answers whose text is mostly decided by a schema, with forced tokens and without."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.engine import Engine
from engine.values.events import Finished
from engine.values.limits import Limits
from engine.values.request import (
    GenerationRequest,
    Message,
    OutputConstraint,
    Sampling,
    Tool,
    ToolChoice,
)


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_NOTICE = "This text may be copied freely by everybody who keeps this notice in it."
_REPORT = _object(
    document_type={"const": "weekly report about the state of the greenhouse"},
    name={"type": "string", "maxLength": 12},
    review_status={"enum": ["finished early", "finished late", "not finished at all"]},
    license_notice={"const": _NOTICE},
    number_of_plants={"type": "integer", "minimum": 0, "maximum": 9},
)
_CALL = Tool(
    "schedule_greenhouse_watering",
    "Waters plants.",
    _object(
        time_zone_of_the_schedule={"const": "Europe/Berlin"},
        number_of_repetitions_per_week={"type": "integer", "minimum": 1, "maximum": 9},
        notification_recipients={"enum": ["everybody in the house", "nobody at all"]},
    ),
)
_SAID: dict[str, Any] = {
    "messages": (Message("user", "Say: hello"),),
    "sampling": Sampling(temperature=0),
    "max_tokens": 600,
    "thinking": False,
}
_HELD = GenerationRequest(constraint=OutputConstraint(_REPORT), **_SAID)
_CALLS = GenerationRequest(tools=(_CALL,), tool_choice=ToolChoice("required"), **_SAID)
CASES = (("a report with long fixed parts", _HELD), ("a forced call", _CALLS))
# Each round is so many answers.
_ANSWERS = 6


class Sides:
    """Two engines with one model, of which one takes what is forced several tokens at a time."""

    def __init__(self, model: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._engines = {plain: Engine(Limits(plain_decoding=plain)) for plain in (True, False)}
        self.last: Finished | None = None
        for engine in self._engines.values():
            self._loop.run_until_complete(engine.load(model))

    def rate(self, request: GenerationRequest, *, is_plain: bool) -> float:
        """Return tokens per second of a few answers, one after the other."""
        ends = self._loop.run_until_complete(self._answered(self._engines[is_plain], request))
        self.last = ends[-1]
        tokens = sum(one.usage.output_tokens - 1 for one in ends)
        return tokens / sum(one.timing.decode_s for one in ends)

    async def _answered(self, engine: Engine, request: GenerationRequest) -> Sequence[Finished]:
        ends = []
        for _ in range(_ANSWERS):
            generation = await engine.generate(request)
            ends.append((await generation.collect()).finished)
        return ends

    def close(self) -> None:
        for engine in self._engines.values():
            engine.close()
        self._loop.close()
