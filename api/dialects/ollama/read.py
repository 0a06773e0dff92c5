"""Converts requests of Ollama's API to the engine's, and back. Pure functions."""

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from api.dialects.ollama.wire import (
    AnswerParams,
    ChatParams,
    OllamaOptions,
    OllamaTurn,
    PromptParams,
)
from api.dialects.shared.inspector_bodies import (
    JsonObject,
    arguments_of,
    drop_empty,
    functions,
    starts_new_assistant_turn,
)
from api.dialects.shared.parameters import (
    ReadContext,
    effort_of,
    enables_thinking,
    given_effort,
    sampling_of,
    sampling_to_wire,
    stop_strings,
    with_own_options,
    with_template_options,
)
from api.dialects.shared.requests import Content, function_of, reasoning_text
from api.service.errors import FieldPath, invalid
from engine.stopping.rules import StopRules
from engine.values.request import (
    GenerationRequest,
    Message,
    OutputConstraint,
    ToolCall,
    TraceLevel,
)


def chat_from_wire(params: ChatParams, context: ReadContext) -> list[GenerationRequest]:
    """Return the generation that ``/api/chat`` asks for; none if there are no messages."""
    if not params.messages:
        return []
    # Tools of some other types are left out.
    tools = [
        function_of(tool.type, tool.function, ("tools", index))
        for index, tool in enumerate(params.tools or [])
    ]
    request = GenerationRequest(
        messages=_turns(params, context),
        tools=tuple(filter(None, tools)),
        **_common(params, context),
    )
    return [with_template_options(request, params.chat_template_kwargs)]


def prompt_from_wire(params: PromptParams, context: ReadContext) -> list[GenerationRequest]:
    """Return the generation that ``/api/generate`` asks for; none if there is no prompt."""
    content = _content(
        params.prompt,
        params.images,
        ("images",),
        context.allows_image_note(params.fullstop, is_new=True),
    )
    prompt, pictures = content.text, tuple(content.pictures)
    if params.raw and params.system:
        raise invalid(("system",), "cannot be used with raw; write it into the prompt")
    if params.raw:
        request = GenerationRequest(prompt=prompt, pictures=pictures, **_common(params, context))
    else:
        system = (Message("system", params.system),) if params.system else ()
        turns = (*system, Message("user", prompt, pictures=pictures))
        request = GenerationRequest(messages=turns, **_common(params, context))
    request = with_template_options(request, params.chat_template_kwargs)
    return [request] if params.prompt else []


def wants_thinking(params: AnswerParams) -> bool | None:
    """Return whether the model should reason; None leaves it to the template."""
    if not isinstance(params.think, str):
        return params.think
    effort = given_effort(params.think)
    return None if effort is None else enables_thinking(effort)


def _common(params: AnswerParams, context: ReadContext) -> dict[str, Any]:
    if params.top_logprobs and not params.logprobs:
        raise invalid(("top_logprobs",), "is possible only where logprobs is true")
    options = params.options if params.options is not None else OllamaOptions()
    max_tokens = options.num_predict
    return {
        "thinking": wants_thinking(params),
        "effort": effort_of(params.think if isinstance(params.think, str) else None),
        "sampling": sampling_of(
            options if options.seed != -1 else options.model_copy(update={"seed": None}),
            ("options",),
        ),
        "stops": with_own_options(
            StopRules.of(*stop_strings(options.stop, ("options", "stop"))),
            params.fullstop,
            context,
        ),
        "max_tokens": max_tokens if max_tokens is not None and max_tokens > 0 else None,
        "constraint": _constraint(params.format),
        "allows_more_keys": params.fullstop.additional_properties,
        "trace": TraceLevel.FULL if params.logprobs else TraceLevel.OFF,
        "top_logprobs": params.top_logprobs or 0,
    }


def _content(
    text: str | None, images: Sequence[object] | None, path: FieldPath, has_notes: bool
) -> Content:
    """Return the content of a turn, whose images come before its text, as in Ollama."""
    content = Content()
    for index, image in enumerate(images or ()):
        content.add_media(image, (*path, index), has_note=has_notes)
    content.add(text or "")
    return content


def _constraint(form: object) -> OutputConstraint | None:
    match form:
        case None | "":
            return None
        case "json":
            return OutputConstraint()
        case dict():
            return OutputConstraint(json_schema=form)
        case _:
            raise invalid(("format",), 'must be "json" or a JSON schema')


def _turns(params: ChatParams, context: ReadContext) -> tuple[Message, ...]:
    """Return the conversation; results without an id are matched to calls by their order."""
    turns: list[Message] = []
    open_calls: list[ToolCall] = []
    last = len(params.messages or ()) - 1
    for index, message in enumerate(params.messages or ()):
        is_new = index == last and message.role == "user"
        has_notes = context.allows_image_note(params.fullstop, is_new=is_new)
        content = _content(
            message.content, message.images, ("messages", index, "images"), has_notes
        )
        pictures = tuple(content.pictures)
        if message.role == "tool":
            result = _result(message, content.text, open_calls)
            turns.append(replace(result, pictures=pictures))
            continue
        calls = tuple(
            ToolCall(
                call.id or f"call_{len(turns)}_{number}",
                call.function.name,
                given if isinstance(given, str) else json.dumps(given, ensure_ascii=False),
            )
            for number, call in enumerate(message.tool_calls or [])
            for given in (call.function.arguments or {},)
        )
        open_calls = list(calls) or open_calls
        thinking = reasoning_text(message.thinking, message.reasoning_content, message.reasoning)
        turns.append(
            Message(
                message.role,
                content.text,
                thinking=thinking,
                tool_calls=calls,
                pictures=pictures,
            )
        )
    return tuple(turns)


def _result(message: OllamaTurn, text: str, open_calls: list[ToolCall]) -> Message:
    """Return a tool's turn, and remove the call that it answers from the open calls."""
    for index, call in enumerate(open_calls):
        call_id = message.tool_call_id or call.id
        if call.id == call_id and message.tool_name in (None, call.name):
            del open_calls[index]
            return Message("tool", text, tool_call_id=call.id, name=call.name)
    return Message("tool", text, tool_call_id=message.tool_call_id, name=message.tool_name)


def request_body(request: GenerationRequest, model: str, prompt: str) -> JsonObject | None:
    """Return the body that asks for a generation, for the inspector; None if there is none."""
    constraint, has_to_call = request.constraint, request.tool_choice.mode == "required"
    if not request.messages or starts_new_assistant_turn(request) or has_to_call:
        return None
    if constraint is not None and constraint.text_form is not None:
        return None
    # The API has no fields for these.
    if request.stops.token_ids or request.sampling.logit_bias or request.thinking_budget:
        return None
    form = None if constraint is None else dict(constraint.json_schema or {}) or "json"
    sampling = sampling_to_wire(request.sampling, {"repetition_penalty": "repeat_penalty"})
    options = drop_empty(
        stop=list(request.stops.strings),
        num_predict=request.max_tokens,
        **sampling,
    )
    # An effort also switches reasoning on.
    think = request.thinking if request.thinking is False else request.effort or request.thinking
    tools = functions(request) if request.tool_choice.mode != "none" else []
    return {
        "model": model,
        "messages": [_turn_to_wire(message) for message in request.messages],
        **drop_empty(
            options=options,
            think=think,
            tools=tools,
            format=form,
            chat_template_kwargs=dict(request.template_options),
        ),
    }


def _turn_to_wire(message: Message) -> JsonObject:
    calls = [
        {"function": {"name": call.name, "arguments": arguments_of(call)}}
        for call in message.tool_calls
    ]
    return {
        "role": message.role,
        "content": message.text,
        **drop_empty(
            tool_calls=calls,
            images=[base64.b64encode(picture.data).decode() for picture in message.pictures],
        ),
    }
