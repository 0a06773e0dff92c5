"""A request of another program as a run that the inspector can show. Pure; any thread."""

import json
from typing import Any

from api.captures.parsing import parse
from api.captures.requests import stops_of_body
from engine.chat import ToolCall
from ui.viewmodels.inspector.shown_run import ShownRun, Source
from ui.viewmodels.inspector.traces import RunTrace
from ui.viewmodels.requests import RequestEntry
from ui.viewmodels.runs import Run, RunState

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens",
           "num_predict")  # fmt: skip


def shown_request(entry: RequestEntry, trace: RunTrace | None = None) -> ShownRun | None:
    """Return the first answer to a request as a run; None where no model answered.

    Args:
        entry: The request.
        trace: Its tokens, where they were recorded and have not been forgotten.
    """
    if not entry.ends:
        return None
    body = _json(entry.asked.text)
    capture = parse(entry.answered.text)
    run = Run(
        stops=stops_of_body(body),
        max_tokens=_limit(body),
        model_id=entry.model,
        state=RunState.FINISHED,
        text=capture.text,
        thinking=capture.thinking,
        tool_calls=[ToolCall("", call.name, call.arguments) for call in capture.tool_calls],
        finished=entry.ends[0],
        started_at=entry.began_at,
    )
    name = f"{entry.agent or entry.client}, {entry.method} {entry.path}"
    return ShownRun(run, trace, _question(body), Source.REQUEST, name)


def _json(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _limit(body: dict[str, Any]) -> int | None:
    for holder in (body, body.get("sampling_params"), body.get("options")):
        for name in _LIMITS:
            value = holder.get(name) if isinstance(holder, dict) else None
            if isinstance(value, int) and value > 0:
                return value
    return None


def _question(body: dict[str, Any]) -> str:
    """Return the last thing that the user said, in whichever dialect it was asked."""
    turns = body.get("messages", body.get("input"))
    if isinstance(turns, list):
        for turn in reversed(turns):
            if isinstance(turn, dict) and turn.get("role") == "user":
                return _text(turn.get("content"))
    return _text(body.get("prompt", body.get("text", turns)))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "\n".join(part for part in parts if isinstance(part, str))
    return ""
