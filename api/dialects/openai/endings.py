"""Writes an answer's end, its calls and its token counts as OpenAI's APIs spell them.

Pure functions, no web framework. Any thread.
"""

from collections.abc import Sequence
from typing import assert_never

from api.dialects.openai.answers import (
    CallAnswer,
    ChoiceEnding,
    CompletionUsage,
    CustomCallAnswer,
    FinishReason,
)
from api.dialects.openai.offered_tools import OfferedTool, input_of_arguments
from api.dialects.shared.answers.errors import not_an_ending
from api.dialects.shared.answers.report import report_to_wire
from engine import Finished, StopInfo, StopKind, ToolCall


def ending_to_wire(finished: Finished, *, reports: bool) -> ChoiceEnding:
    """Return how a choice ended."""
    reason, matched = stop_to_wire(finished.stop)
    ending: ChoiceEnding = {
        "finish_reason": reason,
        "matched_stop": matched,
        "stop_reason": matched,
    }
    if reports:
        ending["fullstop"] = report_to_wire(finished)
    return ending


def stop_to_wire(stop: StopInfo) -> tuple[FinishReason, str | int | None]:
    """Return ``finish_reason`` and the stop that matched."""
    match stop.kind:
        case StopKind.EOS:
            return "stop", None
        case StopKind.STOP_STRING | StopKind.STOP_TOKEN:
            return "stop", stop.value
        case StopKind.MAX_TOKENS | StopKind.CONTEXT_FULL | StopKind.MEMORY_FULL:
            return "length", None
        case StopKind.TOOL_CALL:
            return "tool_calls", None
        case StopKind.ERROR | StopKind.CANCELLED:
            raise not_an_ending(stop)
        case _:
            assert_never(stop.kind)


def usage_to_wire(answers: Sequence[Finished], per_prompt: int | None = None) -> CompletionUsage:
    """Return ``usage`` over all choices."""
    usages = [answer.usage for answer in answers]
    guessing = [answer.speculation for answer in answers]
    prompts = usages[:: per_prompt or len(usages)]
    prompt_tokens = sum(usage.prompt_tokens for usage in prompts)
    completion_tokens = sum(usage.output_tokens for usage in usages)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": sum(usage.cached_tokens for usage in prompts)},
        "completion_tokens_details": {
            "reasoning_tokens": sum(usage.thinking_tokens for usage in usages),
            "accepted_prediction_tokens": sum(one.prediction_accepted for one in guessing),
            "rejected_prediction_tokens": sum(one.prediction_rejected for one in guessing),
        },
    }


def call_to_wire(call: ToolCall, tool: OfferedTool | None = None) -> CallAnswer | CustomCallAnswer:
    """Return a call as Chat Completions spells it."""
    if tool is not None and tool.is_custom:
        text = input_of_arguments(call.arguments) if call.arguments else ""
        return {
            "id": call_id(call),
            "type": "custom",
            "custom": {"name": tool.name, "input": text},
        }
    return {
        "id": call_id(call),
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def call_id(call: ToolCall) -> str:
    """Return the id with which a client sends the result of a call."""
    return f"call_{call.id}"
