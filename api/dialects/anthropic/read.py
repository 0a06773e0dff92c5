"""Converts requests of the Messages API to the engine's, and back. Pure functions."""

from collections.abc import Sequence, Sized
from dataclasses import replace

from api.dialects.anthropic.client_tools import client_tool
from api.dialects.anthropic.history import History, custom_tool
from api.dialects.anthropic.wire import (
    CountTokensParams,
    MessageCreateParams,
    OutputConfigParam,
)
from api.dialects.shared.inspector_bodies import (
    JsonObject,
    arguments_of,
    content_to_wire,
    drop_empty,
    starts_new_assistant_turn,
    system_apart,
)
from api.dialects.shared.parameters import (
    ReadContext,
    effort_of,
    enables_thinking,
    given_effort,
    sampling_of,
    sampling_to_wire,
    token_limit,
    with_own_options,
    with_template_options,
)
from api.dialects.shared.requests import check_left_out, no_tool_to_call
from api.service.errors import invalid, required, shown
from engine.stopping.rules import StopRules, checked_strings, checked_token_ids
from engine.values.request import GenerationRequest, Message, OutputConstraint, Tool, ToolChoice

# What the types of the vendor's own searches for deferred tools begin with.
_VENDORS_SEARCH = "tool_search_tool"
# Sampling parameters that this API has no field for.
_NOT_SAMPLING = ("logit_bias", "xtc_probability", "xtc_threshold")


def requests_from_wire(
    params: MessageCreateParams, context: ReadContext
) -> list[GenerationRequest]:
    """Return what a request asks for: one generation."""
    [prompt] = prompt_from_wire(params, context)
    if only_warms(params) and params.stream:
        raise invalid(("stream",), "has no effect with max_tokens 0, which only reads the prompt")
    strings = checked_strings(params.stop_sequences or [], "stop_sequences")
    for index, text in enumerate(strings if context.strict else ()):
        if not text.strip():
            raise invalid(("stop_sequences", index), "must contain non-whitespace")
    stops = StopRules.of(
        *strings,
        token_ids=checked_token_ids(params.stop_token_ids or ()),
    )
    request = replace(
        prompt,
        sampling=sampling_of(params),
        stops=with_own_options(stops, params.fullstop, context),
        # The engine samples one token when it reads the whole prompt.
        max_tokens=token_limit(params.max_tokens),
    )
    return [request]


def prompt_from_wire(params: CountTokensParams, context: ReadContext) -> list[GenerationRequest]:
    """Return the request for a prompt alone; raises like ``requests_from_wire``."""
    if params.thread is not None:
        # The vendors' clients know this code: they then send the whole conversation instead.
        raise invalid(
            ("thread",),
            "threads are not stored by this server; send the full conversation without it",
            details={"error_code": "thread_unsupported_request"},
        )
    system = "\n\n".join(block.text for block in params.system or [])
    messages = [Message("system", system)] if system else []
    offered, deferred = _tools(params)
    history = History(
        deferred,
        *(context.allows_image_note(params.fullstop, is_new=is_new) for is_new in (False, True)),
    )
    last = len(params.messages) - 1
    for index, message in enumerate(params.messages):
        path = ("messages", index, "content")
        messages += history.turns(message, path, is_new=index == last)
    chosen = None if params.tool_choice is None else params.tool_choice.name
    tools = history.callable_tools(
        offered, chosen, has_search=_has_search(params, offered, deferred)
    )
    choice = _tool_choice(params, tools)
    thinking, config = params.thinking, params.output_config or OutputConfigParam()
    form = config.format or params.output_format
    request = GenerationRequest(
        messages=tuple(messages),
        tools=tools if choice.mode != "none" else (),
        tool_choice=choice,
        constraint=None if form is None else OutputConstraint(form.json_schema),
        allows_more_keys=params.fullstop.additional_properties,
        thinking=_thinks(params),
        thinking_budget=None if thinking is None else thinking.budget_tokens,
        effort=effort_of(params.reasoning_effort if config.effort is None else config.effort),
        not_applied=tuple(history.left_out),
    )
    return [with_template_options(request, params.chat_template_kwargs)]


def allows_parallel_calls(params: CountTokensParams) -> bool:
    """Whether an answer may call more than one tool."""
    choice = params.tool_choice
    return choice is None or not choice.disable_parallel_tool_use


def only_warms(params: MessageCreateParams) -> bool:
    """Whether a request only asks to cache its prompt."""
    return params.max_tokens == 0


def shows_thinking(params: CountTokensParams) -> bool:
    """Whether the answer includes the text of the reasoning."""
    return params.thinking is None or params.thinking.display != "omitted"


def _thinks(params: CountTokensParams) -> bool:
    """Whether the model reasons; if no field says so, it does not, as in the vendor's API."""
    if params.thinking is not None:
        return params.thinking.type in ("enabled", "adaptive")
    if params.enable_thinking is not None:
        return params.enable_thinking
    effort = given_effort(params.reasoning_effort)
    return effort is not None and enables_thinking(effort)


def _tools(params: CountTokensParams) -> tuple[list[Tool], dict[str, Tool]]:
    """Return the tools that the client runs, and those of them that are deferred, by names."""
    tools, deferred = [], {}
    for index, tool in enumerate(params.tools or []):
        path = ("tools", index)
        if tool.type is None or tool.type == "custom":
            tools.append(custom_tool(tool, path))
            if tool.defer_loading:
                deferred[tools[-1].name] = tools[-1]
        elif (known := client_tool(tool.type, tool.name)) is not None:
            tools.append(known)
        else:
            check_left_out(tool.type, path)
    return tools, deferred


def _has_search(params: CountTokensParams, tools: Sequence[Tool], deferred: Sized) -> bool:
    """Whether one of the tools can find the deferred ones; that of the vendor does not run here."""
    kinds = (tool.type or "" for tool in params.tools or [])
    return len(deferred) < len(tools) and not any(k.startswith(_VENDORS_SEARCH) for k in kinds)


def _tool_choice(params: CountTokensParams, tools: Sequence[Tool]) -> ToolChoice:
    choice = params.tool_choice
    names = [tool.name for tool in tools]
    if choice is None or choice.type == "auto":
        return ToolChoice()
    if choice.type == "none":
        return ToolChoice("none")
    if not names:
        raise no_tool_to_call(params)
    if choice.type == "any":
        return ToolChoice("required")
    if choice.name is None:
        raise required(("tool_choice", "name"))
    if choice.name not in names:
        raise invalid(("tool_choice", "name"), f"{shown(choice.name)} is not among the tools")
    return ToolChoice("required", choice.name)


def wants_report(params: MessageCreateParams) -> bool:
    """Whether the answer carries the stop record.

    No field of the vendor has the token id that matched.
    """
    return bool(params.stop_token_ids) or params.fullstop.report


def request_body(request: GenerationRequest, model: str, prompt: str) -> JsonObject | None:
    """Return the body that asks for a generation, for the inspector; None if there is none."""
    (system, turns), constraint = system_apart(request), request.constraint
    if not turns or starts_new_assistant_turn(request):
        return None
    if constraint is not None and constraint.json_schema is None:
        return None
    form = constraint and {"type": "json_schema", "schema": dict(constraint.json_schema or {})}
    sampling = sampling_to_wire(request.sampling)
    if any(name in sampling for name in _NOT_SAMPLING):
        return None
    return {
        "model": model,
        **drop_empty(
            # The API requires the field.
            max_tokens=-1 if request.max_tokens is None else request.max_tokens,
            system=system,
            messages=[_turn_to_wire(message) for message in turns],
            stop_sequences=list(request.stops.strings),
            stop_token_ids=list(request.stops.token_ids),
            **sampling,
            thinking=_thinking_to_wire(request),
            chat_template_kwargs=dict(request.template_options),
            output_config=drop_empty(effort=request.effort, format=form),
            tools=[
                {"name": t.name, "description": t.description, "input_schema": dict(t.parameters)}
                for t in request.tools
            ],
            tool_choice=_choice_to_wire(request.tool_choice),
        ),
    }


def _turn_to_wire(message: Message) -> JsonObject:
    if message.role == "tool":
        result = {
            "type": "tool_result",
            "tool_use_id": message.tool_call_id or "",
            "content": content_to_wire(message, "text", _picture_to_wire),
        }
        return {"role": "user", "content": [result]}
    content = content_to_wire(message, "text", _picture_to_wire)
    if not message.tool_calls:
        return {"role": message.role, "content": content}
    if isinstance(content, str):
        content = [{"type": "text", "text": content}] if content else []
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments_of(call)}
        for call in message.tool_calls
    ]
    return {"role": "assistant", "content": [*content, *calls]}


def _picture_to_wire(media_type: str, data: str) -> JsonObject:
    source = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "image", "source": source}


def _choice_to_wire(choice: ToolChoice) -> JsonObject | None:
    if choice.mode == "required":
        return {"type": "tool", "name": choice.name} if choice.name else {"type": "any"}
    return {"type": "none"} if choice.mode == "none" else None


def _thinking_to_wire(request: GenerationRequest) -> JsonObject | None:
    if request.thinking is None:
        return None
    if request.thinking and request.thinking_budget is not None:
        return {"type": "enabled", "budget_tokens": request.thinking_budget}
    return {"type": "adaptive" if request.thinking else "disabled"}
