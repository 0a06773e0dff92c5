"""The engine's requests as bodies of the Messages API. Pure; any thread."""

from api.dialects.shared.asking import (
    JsonObject,
    answers_itself,
    arguments_of,
    filled,
    system_apart,
)
from api.dialects.shared.parameters.sampling import sampling_to_wire
from engine import GenerationRequest, Message, ToolChoice

# The API requires a limit; this one is used if the run had none.
_ANSWER_ROOM = 4096


def ask(request: GenerationRequest, model: str, prompt: str) -> JsonObject | None:
    """Return the body that asks for a generation; None if the API cannot express it."""
    system, turns = system_apart(request)
    if not turns or answers_itself(request):
        return None
    return {
        "model": model,
        **filled(
            max_tokens=_ANSWER_ROOM if request.max_tokens is None else request.max_tokens,
            system=system,
            messages=[_turn(message) for message in turns],
            stop_sequences=list(request.stops.strings),
            stop_token_ids=list(request.stops.token_ids),
            **sampling_to_wire(request.sampling, "Anthropic"),
            thinking=_thinking(request),
            output_config=filled(effort=request.effort),
            tools=[
                {"name": t.name, "description": t.description, "input_schema": dict(t.parameters)}
                for t in request.tools
            ],
            tool_choice=_choice(request.tool_choice),
        ),
    }


def _turn(message: Message) -> JsonObject:
    if message.role == "tool":
        result = {
            "type": "tool_result",
            "tool_use_id": message.tool_call_id or "",
            "content": message.content,
        }
        return {"role": "user", "content": [result]}
    if not message.tool_calls:
        return {"role": message.role, "content": message.content}
    text = [{"type": "text", "text": message.content}] if message.content else []
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments_of(call)}
        for call in message.tool_calls
    ]
    return {"role": "assistant", "content": [*text, *calls]}


def _choice(choice: ToolChoice) -> JsonObject | None:
    if choice.mode == "required":
        return {"type": "tool", "name": choice.name} if choice.name else {"type": "any"}
    return {"type": "none"} if choice.mode == "none" else None


def _thinking(request: GenerationRequest) -> JsonObject | None:
    if request.thinking is None:
        return None
    if request.thinking and request.thinking_budget is not None:
        return {"type": "enabled", "budget_tokens": request.thinking_budget}
    return {"type": "adaptive" if request.thinking else "disabled"}
