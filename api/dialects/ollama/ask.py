"""The engine's requests as bodies of ``/api/chat``. Pure; any thread."""

from api.dialects.shared.asking import JsonObject, answers_itself, arguments_of, filled, functions
from api.dialects.shared.parameters.sampling import sampling_to_wire
from engine import GenerationRequest, Message


def ask(request: GenerationRequest, model: str, prompt: str) -> JsonObject | None:
    """Return the body that asks for a generation; None if the API cannot express it."""
    if not request.messages or answers_itself(request):
        return None
    options = filled(
        stop=list(request.stops.strings),
        num_predict=request.max_tokens,
        **sampling_to_wire(request.sampling, "Ollama"),
    )
    return {
        "model": model,
        "messages": [_turn(message) for message in request.messages],
        **filled(options=options, think=request.thinking, tools=functions(request)),
    }


def _turn(message: Message) -> JsonObject:
    calls = [
        {"function": {"name": call.name, "arguments": arguments_of(call)}}
        for call in message.tool_calls
    ]
    return {"role": message.role, "content": message.content, **filled(tool_calls=calls)}
