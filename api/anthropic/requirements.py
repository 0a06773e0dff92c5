"""What a request requires of its answer: a tool's call, a schema to follow, the stop record.

Pure functions, no web framework. Any thread.
"""

from api.anthropic.wire import CountTokensParams, MessageCreateParams
from api.errors import invalid
from api.extension import is_report_wanted
from engine.request import OutputConstraint, ToolChoice


def tool_choice_of(params: CountTokensParams) -> ToolChoice:
    """Return whether a tool may, must or must not be called.

    Raises:
        ApiError: A call is required of a tool that is not there.
    """
    wanted = params.tool_choice
    names = [tool.name for tool in params.tools or []]
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
        raise invalid(("tool_choice", "name"), f"{wanted.name} is not among the tools")
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
