"""A request of ours as the bodies in which each API would ask it. Pure; any thread.

The way back is the server's own: a test posts each body and compares what the engine is asked.
"""

import json
from typing import Any

from api.conformance.captures.values import WireDialect
from engine import GenerationRequest, Message, OutputConstraint, StopScope, ToolCall, ToolChoice

Body = dict[str, Any]
_ANSWER_ROOM = 4096


def body_of(
    dialect: WireDialect, request: GenerationRequest, model: str, prompt: str, *, is_streamed: bool
) -> Body:
    """Return a request's body.

    Args:
        dialect: Whose words to use.
        request: What was asked.
        model: The model's name.
        prompt: The rendered prompt, for the dialects that take no messages.
        is_streamed: Whether a stream is asked for.
    """
    makers = {
        WireDialect.MESSAGES: _messages,
        WireDialect.CHAT: _chat,
        WireDialect.RESPONSES: _responses,
        WireDialect.OLLAMA: _ollama,
    }
    raw = request.prompt
    if dialect is WireDialect.COMPLETIONS:
        ids_or_text = list(raw) if isinstance(raw, tuple) else prompt
        body = {"model": model, "prompt": ids_or_text, **_openai_fields(request)}
    elif dialect is WireDialect.GENERATE:
        asked: Body = {"input_ids": list(raw)} if isinstance(raw, tuple) else {"text": prompt}
        body = {**asked, "sampling_params": _generate_fields(request)}
    else:
        body = {"model": model, **makers[dialect](request)}
    extra = _extension(request)
    if extra:
        body["fullstop"] = extra
    if is_streamed and dialect in (WireDialect.CHAT, WireDialect.COMPLETIONS):
        body["stream_options"] = {"include_usage": True}
    return {**body, "stream": is_streamed}


def _messages(request: GenerationRequest) -> Body:
    system, turns = _parted(request)
    sampling = request.sampling
    return _filled(
        max_tokens=request.max_tokens or _ANSWER_ROOM,
        system=system,
        messages=[_message_turn(message) for message in turns],
        stop_sequences=list(request.stops.strings),
        stop_token_ids=list(request.stops.token_ids),
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        thinking=_thinking(request),
        tools=[
            {"name": t.name, "description": t.description, "input_schema": dict(t.parameters)}
            for t in request.tools
        ],
        tool_choice=_messages_choice(request.tool_choice),
    )


def _messages_choice(choice: ToolChoice) -> Body | None:
    if choice.mode == "required":
        return {"type": "tool", "name": choice.name} if choice.name else {"type": "any"}
    return {"type": "none"} if choice.mode == "none" else None


def _message_turn(message: Message) -> Body:
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
        {"type": "tool_use", "id": c.id, "name": c.name, "input": _arguments(c)}
        for c in message.tool_calls
    ]
    return {"role": "assistant", "content": [*text, *calls]}


def _thinking(request: GenerationRequest) -> Body | None:
    if request.thinking is None:
        return None
    return {"type": "adaptive" if request.thinking else "disabled"}


def _chat(request: GenerationRequest) -> Body:
    template = None if request.thinking is None else {"enable_thinking": request.thinking}
    return {
        "messages": [_chat_turn(message) for message in request.messages],
        **_openai_fields(request),
        **_filled(
            chat_template_kwargs=template,
            tools=_functions(request),
            tool_choice=_chat_choice(request.tool_choice),
            response_format=_chat_format(request.constraint),
        ),
    }


def _chat_choice(choice: ToolChoice) -> str | Body | None:
    if choice.name is not None:
        return {"type": "function", "function": {"name": choice.name}}
    return None if choice.mode == "auto" else choice.mode


def _chat_format(constraint: OutputConstraint | None) -> Body | None:
    if constraint is None:
        return None
    if constraint.json_schema is None:
        return {"type": "json_object"}
    schema = {"name": "answer", "schema": dict(constraint.json_schema)}
    return {"type": "json_schema", "json_schema": schema}


def _chat_turn(message: Message) -> Body:
    calls = [
        {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
        for c in message.tool_calls
    ]
    return {
        "role": message.role,
        "content": message.content,
        **_filled(tool_calls=calls, tool_call_id=message.tool_call_id),
    }


def _openai_fields(request: GenerationRequest) -> Body:
    sampling, stops = request.sampling, request.stops
    return _filled(
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
        logit_bias=_bias(request),
        include_stop_str_in_output=stops.include_stop or None,
        ignore_eos=stops.ignore_eos or None,
        min_tokens=stops.min_tokens or None,
        stop=list(request.stops.strings),
        stop_token_ids=list(request.stops.token_ids),
        max_tokens=request.max_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        repetition_penalty=sampling.repetition_penalty,
        seed=sampling.seed,
    )


def _responses(request: GenerationRequest) -> Body:
    system, turns = _parted(request)
    items: list[Body] = []
    for message in turns:
        if message.role == "tool":
            items.append(
                {
                    "type": "function_call_output",
                    "call_id": message.tool_call_id or "",
                    "output": message.content,
                }
            )
            continue
        if message.content:
            items.append({"role": message.role, "content": message.content})
        items += [
            {"type": "function_call", "call_id": c.id, "name": c.name, "arguments": c.arguments}
            for c in message.tool_calls
        ]
    effort = None
    if request.thinking is not None:
        effort = {"effort": "medium" if request.thinking else "none"}
    tools = [{"type": "function", **function["function"]} for function in _functions(request)]
    return _filled(
        instructions=system,
        input=items,
        stop=list(request.stops.strings),
        max_output_tokens=request.max_tokens,
        temperature=request.sampling.temperature,
        top_p=request.sampling.top_p,
        reasoning=effort,
        tools=tools,
    )


def _ollama(request: GenerationRequest) -> Body:
    sampling = request.sampling
    options = _filled(
        stop=list(request.stops.strings),
        num_predict=request.max_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        repeat_penalty=sampling.repetition_penalty,
        seed=sampling.seed,
    )
    turns = []
    for message in request.messages:
        calls = [
            {"function": {"name": c.name, "arguments": _arguments(c)}} for c in message.tool_calls
        ]
        turns.append(
            {"role": message.role, "content": message.content, **_filled(tool_calls=calls)}
        )
    return {
        "messages": turns,
        **_filled(options=options, think=request.thinking, tools=_functions(request)),
    }


def _bias(request: GenerationRequest) -> Body:
    return {str(token_id): bias for token_id, bias in request.sampling.logit_bias}


def _generate_fields(request: GenerationRequest) -> Body:
    sampling, stops, schema = request.sampling, request.stops, None
    if request.constraint is not None:
        schema = json.dumps(dict(request.constraint.json_schema or {"type": "object"}))
    return _filled(
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
        logit_bias=_bias(request),
        no_stop_trim=stops.include_stop or None,
        ignore_eos=stops.ignore_eos or None,
        min_new_tokens=stops.min_tokens or None,
        sampling_seed=sampling.seed,
        json_schema=schema,
        stop=list(request.stops.strings),
        stop_token_ids=list(request.stops.token_ids),
        max_new_tokens=request.max_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        repetition_penalty=sampling.repetition_penalty,
    )


def _functions(request: GenerationRequest) -> list[Body]:
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
            },
        }
        for tool in request.tools
    ]


def _extension(request: GenerationRequest) -> Body:
    body: Body = {}
    stops = request.stops
    if stops.scope is not StopScope.TEXT:
        body["stop_scope"] = stops.scope.value
    if stops.scopes:
        body["stop_scopes"] = {string: scope.value for string, scope in stops.scopes}
    return body


def _parted(request: GenerationRequest) -> tuple[str, list[Message]]:
    """Return the system prompt apart from the turns, as some APIs want it."""
    system = [message.content for message in request.messages if message.role == "system"]
    return "\n\n".join(system), [m for m in request.messages if m.role != "system"]


def _arguments(call: ToolCall) -> Any:
    try:
        return json.loads(call.arguments)
    except (ValueError, RecursionError):
        return {}


def _filled(**fields: Any) -> Body:
    """Return the fields that say something."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}
