"""Renders a request through a model's chat template into token ids. Engine thread; no MLX."""

import json
from typing import Any

from engine.chat import Message, Tool
from engine.errors import InvalidRequest
from engine.request import GenerationRequest


def render(tokenizer: Any, request: GenerationRequest) -> list[int]:
    """Return the token ids of a request's prompt.

    Args:
        tokenizer: mlx-lm's tokenizer wrapper.
        request: With messages, or with a raw prompt.

    Raises:
        InvalidRequest: There is nothing to read, no template, or the template refuses it.
    """
    if request.prompt is not None:
        tokens = _raw_tokens(tokenizer, request.prompt)
    else:
        tokens = _templated(tokenizer, request)
    if not tokens:
        raise InvalidRequest("messages", "the prompt is empty")
    return tokens


def _raw_tokens(tokenizer: Any, prompt: str | tuple[int, ...]) -> list[int]:
    if isinstance(prompt, str):
        return list(tokenizer.encode(prompt))
    size = len(tokenizer)
    for index, token_id in enumerate(prompt):
        if not 0 <= token_id < size:
            raise InvalidRequest(
                f"prompt[{index}]", f"token id {token_id} is outside the vocabulary of {size}"
            )
    return list(prompt)


def _templated(tokenizer: Any, request: GenerationRequest) -> list[int]:
    if not request.messages:
        raise InvalidRequest("messages", "at least one message is required")
    if not tokenizer.has_chat_template:
        raise InvalidRequest("messages", "this model has no chat template; send a raw prompt")
    continues = request.messages[-1].role == "assistant"
    options: dict[str, Any] = {
        "tools": [tool_dict(tool) for tool in request.tools] or None,
        "add_generation_prompt": not continues,
        "continue_final_message": continues,
    }
    template = tokenizer.apply_chat_template
    if request.thinking is not None:
        options["enable_thinking"] = request.thinking
    elif tokenizer._chat_template is None:
        # The wrapper would switch reasoning on; silence means the template's own default.
        template = tokenizer._tokenizer.apply_chat_template
        options["return_dict"] = False
    try:
        tokens = template([_as_dict(message) for message in request.messages], **options)
    except InvalidRequest:
        raise
    except Exception as error:  # templates raise whatever their authors chose
        raise InvalidRequest("messages", f"the model's chat template refused: {error}") from error
    return list(tokens)


def _as_dict(message: Message) -> dict[str, Any]:
    values: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.thinking:
        values["reasoning_content"] = message.thinking
    if message.tool_calls:
        values["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call.arguments)},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        values["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        values["name"] = message.name
    return values


def _arguments(text: str) -> Any:
    """Templates iterate over arguments, so they get the object; broken JSON stays text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def tool_dict(tool: Tool) -> dict[str, Any]:
    """Return a tool in the form that templates and parsers expect."""
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.parameters),
        },
    }
