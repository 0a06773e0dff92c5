"""The engine's requests as bodies of the Responses API. Pure; any thread."""

from collections.abc import Iterator

from api.dialects.openai.asking import common_fields, last_turn_fields
from api.dialects.shared.asking import JsonObject, filled, functions, system_apart
from engine import GenerationRequest, Message


def ask(request: GenerationRequest, model: str, prompt: str) -> JsonObject | None:
    """Return the body that asks for a generation; None if the API cannot express it."""
    system, turns = system_apart(request)
    if not turns:
        return None
    return {
        "model": model,
        **common_fields(request),
        **last_turn_fields(request),
        **filled(
            instructions=system,
            input=[item for message in turns for item in _items(message)],
            max_output_tokens=request.max_tokens,
            reasoning=_reasoning(request),
            thinking_budget=request.thinking_budget,
            tools=[{"type": "function", **one["function"]} for one in functions(request)],
        ),
    }


def _reasoning(request: GenerationRequest) -> JsonObject | None:
    if request.effort is not None:
        return {"effort": request.effort}
    if request.thinking is None:
        return None
    # An effort could be read as a budget, so a requested summary turns reasoning on instead.
    return {"summary": "auto"} if request.thinking else {"effort": "none"}


def _items(message: Message) -> Iterator[JsonObject]:
    if message.role == "tool":
        yield {
            "type": "function_call_output",
            "call_id": message.tool_call_id or "",
            "output": message.content,
        }
        return
    if message.content:
        yield {"role": message.role, "content": message.content}
    for call in message.tool_calls:
        yield {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }
