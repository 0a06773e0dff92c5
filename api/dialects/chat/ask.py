"""The engine's requests as bodies of Chat Completions. Pure; any thread."""

from api.dialects.openai.asking import common_fields, last_turn_fields, scoring_fields
from api.dialects.shared.asking import JsonObject, filled, functions
from engine import GenerationRequest, Message, OutputConstraint, ToolChoice


def ask(request: GenerationRequest, model: str, prompt: str) -> JsonObject | None:
    """Return the body that asks for a generation; None if the API cannot express it."""
    if not request.messages:
        return None
    template = None if request.thinking is None else {"enable_thinking": request.thinking}
    return {
        "model": model,
        "messages": [_turn(message) for message in request.messages],
        **common_fields(request),
        **last_turn_fields(request),
        **filled(
            max_tokens=request.max_tokens,
            chat_template_kwargs=template,
            thinking_budget=request.thinking_budget,
            reasoning_effort=request.effort,
            tools=functions(request),
            tool_choice=_choice(request.tool_choice),
            response_format=_format(request.constraint),
            prediction=_prediction(request),
            **_text_form(request.constraint),
            **scoring_fields(request),
        ),
    }


def _turn(message: Message) -> JsonObject:
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in message.tool_calls
    ]
    return {
        "role": message.role,
        "content": message.content,
        **filled(tool_calls=calls, tool_call_id=message.tool_call_id),
    }


def _choice(choice: ToolChoice) -> str | JsonObject | None:
    if choice.name is not None:
        return {"type": "function", "function": {"name": choice.name}}
    return None if choice.mode == "auto" else choice.mode


def _prediction(request: GenerationRequest) -> JsonObject | None:
    if not request.prediction:
        return None
    return {"type": "content", "content": request.prediction}


def _format(constraint: OutputConstraint | None) -> JsonObject | None:
    if constraint is None or constraint.text_form is not None:
        return None
    if constraint.json_schema is None:
        return {"type": "json_object"}
    schema = {"name": "answer", "schema": dict(constraint.json_schema)}
    return {"type": "json_schema", "json_schema": schema}


def _text_form(constraint: OutputConstraint | None) -> JsonObject:
    """Return the fields that ask for a format other than JSON, as vLLM spells them."""
    form = None if constraint is None else constraint.text_form
    if form is None:
        return {}
    return {
        "guided_regex": form.regex,
        "guided_choice": list(form.choices),
        "guided_grammar": form.grammar,
    }
