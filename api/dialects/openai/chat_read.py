"""Converts requests of Chat Completions to the engine's, and back. Pure functions."""

import json
from dataclasses import replace

from api.dialects.openai.chat_wire import (
    AssistantMessage,
    CalledToolParam,
    ChatCompletionParams,
    ChatTurn,
    GatewayReasoning,
    MediaPart,
    ReasoningPart,
    TextMessage,
    TokenizeParams,
)
from api.dialects.openai.read import (
    format_fields,
    generation_of,
    last_turn_fields,
    refuse_unsupported_choices,
    scoring_fields,
    with_last_turn,
)
from api.dialects.openai.tools import (
    OfferedTool,
    arguments_of_input,
    choose_tools,
    offer_custom_tool,
    offer_function,
)
from api.dialects.shared.inspector_bodies import (
    JsonObject,
    content_to_wire,
    data_url,
    drop_empty,
    functions,
    sampling_and_stops,
)
from api.dialects.shared.parameters import OPENAI_STOP_OPTIONS, ReadContext, choices_of, token_limit
from api.dialects.shared.requests import (
    Content,
    TextPart,
    function_of,
    reasoning_text,
    tool_from_wire,
)
from api.service.errors import FieldPath, invalid, required, unsupported
from engine.values.request import GenerationRequest, Message, ToolCall, TraceLevel
from engine.values.tokens import PromptScoring

# The limit of an answer by its names; the first that is given counts.
MAX_TOKENS = ("max_completion_tokens", "max_tokens", "max_new_tokens", "n_predict")


def requests_from_wire(
    params: ChatCompletionParams, context: ReadContext, *, is_answered: bool = True
) -> list[GenerationRequest]:
    """Return what a request asks for: one generation for each of its ``n`` choices."""
    _refuse_unsupported(params)
    tool_names: dict[str, str] = {}
    tools, tool_choice = choose_tools(_choice(params), offered_tools(params), params)
    last, reasoning = len(params.messages) - 1, params.reasoning or GatewayReasoning()
    # The parts are pieces of one text.
    parts = [] if params.prediction is None else params.prediction.content
    prediction = "".join(part.text for part in parts)
    effort = params.reasoning_effort
    if effort is None:
        effort = "none" if reasoning.enabled is False else reasoning.effort
    common = generation_of(
        params,
        context,
        effort=effort,
        # Turned on, if only by a budget: https://openrouter.ai/docs/use-cases/reasoning-tokens
        default_effort="medium" if reasoning.enabled or reasoning.max_tokens else None,
        thinking_budget=reasoning.max_tokens,
    )
    request = replace(
        common,
        messages=tuple(
            _turn(
                message,
                tool_names,
                ("messages", index),
                context.allows_image_note(
                    params.fullstop, is_new=index == last and message.role == "user"
                ),
            )
            for index, message in enumerate(params.messages)
        ),
        tools=tools,
        tool_choice=tool_choice,
        max_tokens=token_limit(*(getattr(params, name) for name in MAX_TOKENS)),
        trace=TraceLevel.FULL if params.logprobs else TraceLevel.OFF,
        top_logprobs=params.top_logprobs or 0,
        prediction=prediction or None,
        prompt_scoring=(
            None if params.prompt_logprobs is None else PromptScoring(top=params.prompt_logprobs)
        ),
        not_applied=tuple(
            f"messages.{index}.name"
            for index, message in enumerate(params.messages)
            if isinstance(message, TextMessage | AssistantMessage) and message.name
        ),
    )
    request = with_last_turn(request, params, is_answered=is_answered)
    first, *others = choices_of(request, params.n or 1)
    # The choices share one prompt, which the answer reports once.
    return [first, *(replace(choice, prompt_scoring=None) for choice in others)]


def allows_parallel_calls(params: ChatCompletionParams) -> bool:
    """Whether an answer may call more than one tool."""
    return params.parallel_tool_calls is not False and not params.functions


def shows_thinking(params: ChatCompletionParams) -> bool:
    """Whether the answer includes the text of the reasoning."""
    is_excluded = params.reasoning is not None and params.reasoning.exclude
    return params.include_reasoning is not False and not is_excluded


def offered_tools(params: ChatCompletionParams) -> list[OfferedTool]:
    """Return the tools that the model is offered; tools of some other types are left out."""
    offered = [offer_function(tool_from_wire(function)) for function in params.functions or ()]
    for index, tool in enumerate(params.tools or ()):
        path = ("tools", index)
        if tool.type == "custom":
            if (custom := tool.custom) is None:
                raise required((*path, "custom"))
            format_path = (*path, "custom", "format")
            offered.append(
                offer_custom_tool(custom.name, custom.description, custom.format, format_path)
            )
        elif (function := function_of(tool.type, tool.function, path)) is not None:
            offered.append(offer_function(function))
    return offered


def _choice(params: ChatCompletionParams) -> object:
    """Return ``tool_choice``, or what its older form ``function_call`` means."""
    choice = params.function_call
    if not params.functions or choice is None:
        return params.tool_choice
    if choice in ("none", "auto"):
        return choice
    if isinstance(choice, dict) and isinstance(choice.get("name"), str):
        return {"type": "function", "name": choice["name"]}
    raise invalid(("function_call",), 'must be "none", "auto" or the name of a function')


def _refuse_unsupported(params: ChatCompletionParams) -> None:
    refuse_unsupported_choices(params)
    if params.top_logprobs and not params.logprobs:
        raise invalid(("top_logprobs",), "is possible only where logprobs is true")
    if params.functions and params.tools:
        raise invalid(("functions",), "is an older form of tools; leave one of them out")
    if others := [kind for kind in params.modalities or () if kind != "text"]:
        raise unsupported(("modalities",), f"{others[0]} output")


def _turn(
    message: ChatTurn, tool_names: dict[str, str], path: FieldPath, has_notes: bool
) -> Message:
    if isinstance(message, AssistantMessage):
        calls = _calls(message, path)
        tool_names.update((call.id, call.name) for call in calls)
        # The parts are pieces of one text: a line break between them would change a prefilled
        # answer.
        text = "".join(
            part.text if isinstance(part, TextPart) else part.refusal
            for part in message.content
            if not isinstance(part, ReasoningPart)
        )
        thoughts = [part for part in message.content if isinstance(part, ReasoningPart)]
        return Message(
            "assistant",
            text or message.refusal or "",
            # The several fields repeat one text.
            thinking=reasoning_text(
                message.reasoning_content,
                message.reasoning,
                message.thinking,
                message.reasoning_details,
                message.thinking_blocks,
                [[part.thinking, part.reasoning, part.text] for part in thoughts],
            ),
            tool_calls=tuple(calls),
        )
    content = Content()
    for index, part in enumerate(message.content):
        if isinstance(part, TextPart):
            content.add(part.text)
        else:
            _add_media(content, part, (*path, "content", index), has_notes)
    text, pictures = content.text, tuple(content.pictures)
    if isinstance(message, TextMessage):
        return Message("user" if message.role == "user" else "system", text, pictures=pictures)
    call_id = message.tool_call_id
    if message.role == "function":
        named = (known for known, name in reversed(tool_names.items()) if name == message.name)
        call_id = next(named, None)
    elif call_id is None:
        raise required((*path, "tool_call_id"))
    name = tool_names.get(call_id or "", message.name)
    return Message("tool", text, tool_call_id=call_id, name=name, pictures=pictures)


def _calls(message: AssistantMessage, path: FieldPath) -> list[ToolCall]:
    """Return the calls of an earlier answer; those of the older form have no id."""
    calls = []
    for index, call in enumerate(message.tool_calls or []):
        if call.custom is not None and call.type == "custom":
            calls.append(ToolCall(call.id, call.custom.name, arguments_of_input(call.custom.input)))
        elif call.function is not None:
            calls.append(ToolCall(call.id, call.function.name, _arguments(call.function)))
        else:
            raise required((*path, "tool_calls", index, call.type))
    if (older := message.function_call) is not None:
        calls.append(ToolCall(f"call_{path[-1]}", older.name, _arguments(older)))
    return calls


def _arguments(call: CalledToolParam) -> str:
    if isinstance(call.arguments, dict):
        return json.dumps(call.arguments, ensure_ascii=False)
    return call.arguments or "{}"


def _add_media(content: Content, part: MediaPart, path: FieldPath, has_note: bool) -> None:
    names = {"image_url": "image", "input_image": "image", "file": "document", "video_url": "video"}
    source, is_small, title = part.file if part.type == "file" else part.image_url, False, None
    if isinstance(source, dict):
        is_small, title = source.get("detail") == "low", source.get("filename")
        source = source.get("file_data" if part.type == "file" else "url")
    what = names.get(part.type, "audio")
    content.add_media(source, path, has_note=has_note, what=what, is_small=is_small, title=title)


def request_body(request: GenerationRequest, model: str, prompt: str) -> JsonObject | None:
    """Return the body that asks for a generation; None if the API cannot express it."""
    if not request.messages:
        return None
    choice, prediction = request.tool_choice, request.prediction
    tool_choice: object = None if choice.mode == "auto" else choice.mode
    if choice.name is not None:
        tool_choice = {"type": "function", "function": {"name": choice.name}}
    return {
        "model": model,
        "messages": [_turn_to_wire(message) for message in request.messages],
        **sampling_and_stops(request, OPENAI_STOP_OPTIONS),
        **last_turn_fields(request),
        **drop_empty(
            max_tokens=request.max_tokens,
            enable_thinking=request.thinking,
            chat_template_kwargs=dict(request.template_options),
            thinking_budget=request.thinking_budget,
            reasoning_effort=request.effort,
            tools=functions(request),
            tool_choice=tool_choice,
            **format_fields(request.constraint),
            prediction=prediction and {"type": "content", "content": prediction},
            **scoring_fields(request),
        ),
    }


def _turn_to_wire(message: Message) -> JsonObject:
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
        "content": content_to_wire(message, "text", _picture_to_wire),
        **drop_empty(tool_calls=calls, tool_call_id=message.tool_call_id),
    }


def _picture_to_wire(media_type: str, data: str) -> JsonObject:
    return {"type": "image_url", "image_url": {"url": data_url(media_type, data)}}


def prompt_from_wire(params: TokenizeParams, context: ReadContext) -> list[GenerationRequest]:
    """Return the prompt to tokenize."""
    if params.with_pieces:
        raise unsupported(("with_pieces",), "tokens as objects", "return_token_strs")
    if params.parse_special is False:
        raise unsupported(("parse_special",), "reading the marks of special tokens as plain text")
    prompt = params.prompt if params.content is None else params.content
    if (prompt is None) != bool(params.messages) or None not in (params.prompt, params.content):
        raise invalid(("prompt",), "give either prompt, content or messages")
    if prompt is not None:
        return [GenerationRequest(prompt=prompt)]
    if params.add_special_tokens:
        raise unsupported(("add_special_tokens",), "special tokens beside the chat template's own")
    return requests_from_wire(params, context, is_answered=False)[:1]
