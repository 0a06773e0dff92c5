"""How an answer's end and its token counts are said in Chat Completions and Completions.

Pure functions, no web framework. Any thread.
"""

from collections.abc import Sequence
from typing import assert_never

from api.transport.errors import ApiError, ErrorKind
from engine import StopInfo, StopKind, Usage


def stop_to_wire(stop: StopInfo) -> dict[str, object]:
    """Return ``finish_reason`` with what matched, under both names that clients look for.

    Raises:
        ApiError: It was no normal end, which this API says with an error.
    """
    match stop.kind:
        case StopKind.EOS:
            return _reason("stop", None)
        case StopKind.STOP_STRING | StopKind.STOP_TOKEN:
            return _reason("stop", stop.value)
        case StopKind.MAX_TOKENS | StopKind.CONTEXT_FULL:
            return _reason("length", None)
        case StopKind.TOOL_CALL:
            return _reason("tool_calls", None)
        case StopKind.ERROR | StopKind.CANCELLED:
            raise ApiError(ErrorKind.INTERNAL, f"the generation ended with {stop.kind.value}")
        case _:
            assert_never(stop.kind)


def _reason(reason: str, matched: str | int | None) -> dict[str, object]:
    return {"finish_reason": reason, "matched_stop": matched, "stop_reason": matched}


def usage_to_wire(usages: Sequence[Usage], per_prompt: int | None = None) -> dict[str, object]:
    """Return ``usage`` over all choices.

    Args:
        usages: Of each choice, those of one prompt side by side.
        per_prompt: How many choices share a prompt, which is counted once; None means all.
    """
    prompts = usages[:: per_prompt or len(usages)]
    prompt_tokens = sum(usage.prompt_tokens for usage in prompts)
    completion_tokens = sum(usage.output_tokens for usage in usages)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": sum(usage.cached_tokens for usage in prompts)},
        "completion_tokens_details": {
            "reasoning_tokens": sum(usage.thinking_tokens for usage in usages)
        },
    }
