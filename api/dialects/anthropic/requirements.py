"""What a request offers and requires: tools, a tool's call, a schema to follow, the stop record.

Pure functions, no web framework. Any thread.
"""

from collections.abc import Sequence

from api.dialects.anthropic.wire import CountTokensParams, MessageCreateParams, ToolParam
from api.dialects.shared.extension import is_report_wanted
from api.dialects.shared.tools import check_left_out
from api.transport.errors import FieldPath, invalid, shown
from engine import OutputConstraint, Tool, ToolChoice


def tools_of(params: CountTokensParams) -> tuple[Tool, ...]:
    """Return the client's own tools; of the others some are left out.

    Raises:
        ApiError: A tool has no name or schema, or is one that cannot be left out.
    """
    tools = []
    for index, tool in enumerate(params.tools or []):
        path = ("tools", index)
        if tool.type is None or tool.type == "custom":
            tools.append(_tool(tool, path))
        else:
            check_left_out(tool.type, path)
    return tuple(tools)


def _tool(tool: ToolParam, path: FieldPath) -> Tool:
    if tool.name is None:
        raise invalid((*path, "name"), "Field required", code="missing_required_parameter")
    if tool.input_schema is None:
        raise invalid((*path, "input_schema"), "Field required", code="missing_required_parameter")
    return Tool(tool.name, tool.description or "", tool.input_schema)


def tool_choice_of(params: CountTokensParams, tools: Sequence[Tool]) -> ToolChoice:
    """Return whether a tool may, must or must not be called.

    Args:
        params: The request.
        tools: The tools that are offered.

    Raises:
        ApiError: A call is required of a tool that is not there.
    """
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
        raise invalid(("tool_choice", "name"), "Field required", code="missing_required_parameter")
    if wanted.name not in names:
        raise invalid(("tool_choice", "name"), f"{shown(wanted.name)} is not among the tools")
    return ToolChoice("required", wanted.name)


def constraint_of(params: CountTokensParams) -> OutputConstraint | None:
    """Return what the text of the answer must be, or None where it is free."""
    config = params.output_config
    wanted = config.format if config is not None else None
    wanted = wanted or params.output_format
    return OutputConstraint(wanted.json_schema) if wanted is not None else None


def wants_report(params: MessageCreateParams) -> bool:
    """Whether the answer carries the stop record.

    The vendor's fields have no place for a token id that matched.
    """
    return bool(params.stop_token_ids) or is_report_wanted(params.fullstop)
