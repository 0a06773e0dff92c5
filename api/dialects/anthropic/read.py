"""Converts requests of the Messages API to the engine's. Pure functions, no web framework."""

from collections.abc import Sequence
from dataclasses import replace

from api.dialects.anthropic.client_tools import client_tool
from api.dialects.anthropic.turns import TurnReader, append_turn
from api.dialects.anthropic.wire import CountTokensParams, MessageCreateParams, MessageTool
from api.dialects.shared.parameters.effort import effort_of
from api.dialects.shared.parameters.extension import (
    allows_more_keys,
    is_report_wanted,
    scoped,
    wants_image_notes,
)
from api.dialects.shared.parameters.sampling import sampling_of
from api.dialects.shared.parameters.tools import check_left_out
from api.transport.errors import FieldPath, invalid, required, shown, unsupported
from engine import (
    GenerationRequest,
    Message,
    OutputConstraint,
    StopRules,
    Tool,
    ToolChoice,
    checked_strings,
    checked_token_ids,
)

# The hosted API's minimum.
_LEAST_BUDGET = 1_024


def requests_from_wire(
    params: MessageCreateParams, *, strict: bool = False
) -> list[GenerationRequest]:
    """Return what a request asks for: one generation.

    Takes and raises what ``ReadRequest`` does.
    """
    prompt = prompt_from_wire(params)
    if only_warms(params) and params.stream:
        raise invalid(("stream",), "has no effect with max_tokens 0, which only reads the prompt")
    if strict:
        _check_budget(params)
    stops = StopRules(
        strings=_stop_strings(params.stop_sequences or [], strict),
        token_ids=checked_token_ids(params.stop_token_ids or ()),
    )
    wanted = replace(
        prompt,
        sampling=sampling_of(params, "Anthropic"),
        stops=scoped(stops, params.fullstop),
        # The engine samples one token when it reads the whole prompt.
        max_tokens=params.max_tokens,
    )
    return [wanted]


def prompt_from_wire(params: CountTokensParams) -> GenerationRequest:
    """Return the request for a prompt alone; raises like ``requests_from_wire``."""
    _refuse_unsupported(params)
    system = "\n\n".join(block.text for block in params.system or [])
    messages = [Message("system", system)] if system else []
    reader = TurnReader(
        has_notes=wants_image_notes(params.fullstop, is_new=False),
        has_new_notes=wants_image_notes(params.fullstop, is_new=True),
    )
    last = len(params.messages) - 1
    for index, message in enumerate(params.messages):
        path = ("messages", index, "content")
        for turn in reader.turns(message, path, is_new=index == last):
            append_turn(messages, turn)
    tools = _tools(params)
    choice = _tool_choice(params, tools)
    thinking, config = params.thinking, params.output_config
    return GenerationRequest(
        messages=tuple(messages),
        tools=tools if choice.mode != "none" else (),
        tool_choice=choice,
        constraint=_constraint(params),
        allows_more_keys=allows_more_keys(params.fullstop),
        # An absent field means off, as in the vendor's API, whatever the model's template prefers.
        thinking=thinking is not None and thinking.type in ("enabled", "adaptive"),
        thinking_budget=None if thinking is None else thinking.budget_tokens,
        effort=effort_of(None if config is None else config.effort),
    )


def counted_from_wire(
    params: CountTokensParams, *, strict: bool = False
) -> list[GenerationRequest]:
    """Return the request whose prompt is counted; takes and raises the same as ``ReadRequest``."""
    return [prompt_from_wire(params)]


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


def _refuse_unsupported(params: CountTokensParams) -> None:
    if params.thread is not None:
        # The vendors' clients know this code: they then send the whole conversation instead.
        raise invalid(
            ("thread",),
            "threads are not stored by this server; send the full conversation without it",
            details={"error_code": "thread_unsupported_request"},
        )
    if params.mcp_servers:
        raise unsupported(("mcp_servers",), "calling MCP servers")


def _check_budget(params: MessageCreateParams) -> None:
    """Refuse a reasoning budget that the hosted API refuses."""
    budget = None if params.thinking is None else params.thinking.budget_tokens
    if budget is None:
        return
    path = ("thinking", "budget_tokens")
    if budget < _LEAST_BUDGET:
        raise invalid(path, f"must be at least {_LEAST_BUDGET}")
    if budget >= params.max_tokens:
        raise invalid(path, f"must be less than max_tokens ({params.max_tokens})")


def _stop_strings(values: Sequence[object], strict: bool) -> tuple[str, ...]:
    strings = checked_strings(values, "stop_sequences")
    if strict:
        for index, value in enumerate(values):
            if isinstance(value, str) and not value.strip():
                raise invalid(("stop_sequences", index), "must contain non-whitespace")
    return strings


def _tools(params: CountTokensParams) -> tuple[Tool, ...]:
    """Return the tools that the client runs; tools of some other types are left out."""
    tools = []
    for index, tool in enumerate(params.tools or []):
        path = ("tools", index)
        if tool.type is None or tool.type == "custom":
            tools.append(_tool(tool, path))
        elif (known := client_tool(tool.type, tool.name)) is not None:
            tools.append(known)
        else:
            check_left_out(tool.type, path)
    return tuple(tools)


def _tool(tool: MessageTool, path: FieldPath) -> Tool:
    if tool.name is None:
        raise required((*path, "name"))
    if tool.input_schema is None:
        raise required((*path, "input_schema"))
    return Tool(tool.name, tool.description or "", tool.input_schema)


def _tool_choice(params: CountTokensParams, tools: Sequence[Tool]) -> ToolChoice:
    """Return whether a tool may, must or must not be called."""
    wanted = params.tool_choice
    names = [tool.name for tool in tools]
    if wanted is None or wanted.type == "auto":
        return ToolChoice()
    if wanted.type == "none":
        return ToolChoice("none")
    if not names:
        raise invalid(("tool_choice",), "requires a call, but there are no tools")
    if wanted.type == "any":
        return ToolChoice("required")
    if wanted.name is None:
        raise required(("tool_choice", "name"))
    if wanted.name not in names:
        raise invalid(("tool_choice", "name"), f"{shown(wanted.name)} is not among the tools")
    return ToolChoice("required", wanted.name)


def _constraint(params: CountTokensParams) -> OutputConstraint | None:
    """Return the schema that the answer must follow; None if there is none."""
    config = params.output_config
    wanted = config.format if config is not None else None
    wanted = wanted or params.output_format
    return OutputConstraint(wanted.json_schema) if wanted is not None else None


def wants_report(params: MessageCreateParams) -> bool:
    """Whether the answer carries the stop record.

    The vendor's fields have no place for a token id that matched.
    """
    return bool(params.stop_token_ids) or is_report_wanted(params.fullstop)
