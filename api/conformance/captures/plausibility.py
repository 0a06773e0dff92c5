"""Finds implausible values in an answer: unknown reasons, impossible counts, broken calls.

Pure; any thread.
"""

from collections.abc import Iterator, Mapping

from api.conformance.captures.json_text import parsed
from api.conformance.captures.readers import converse, gemini, llama_cpp, messages, tgi
from api.conformance.captures.values import (
    Capture,
    CapturedCall,
    CapturedEnding,
    Finding,
    Severity,
    WireDialect,
)

# Reasons by dialect, from the reference that is named in the dialect's reader.
_REASONS: Mapping[WireDialect, frozenset[str]] = {
    WireDialect.MESSAGES: messages.REASONS,
    WireDialect.CHAT: frozenset(
        {"stop", "length", "tool_calls", "content_filter", "function_call"}
    ),
    WireDialect.COMPLETIONS: frozenset({"stop", "length", "content_filter"}),
    WireDialect.RESPONSES: frozenset(
        {
            "completed",
            "cancelled",
            "queued",
            "in_progress",
            "incomplete: max_output_tokens",
            "incomplete: content_filter",
        }
    ),
    WireDialect.GENERATE: frozenset({"stop", "length", "abort"}),
    WireDialect.OLLAMA: frozenset({"stop", "length", "load", "unload"}),
    WireDialect.LLAMA_CPP: llama_cpp.REASONS,
    WireDialect.TGI: tgi.REASONS,
    WireDialect.GEMINI: gemini.REASONS,
    WireDialect.CONVERSE: converse.REASONS,
}
# These dialects send no arguments for a call without arguments.
_EMPTY_MEANS_NONE = (WireDialect.MESSAGES, WireDialect.CONVERSE)


def implausible(capture: Capture) -> Iterator[Finding]:
    """Yield the implausible values of the first choice of an answer."""
    yield from _reason(capture)
    yield from _calls(capture)


def miscounted(capture: Capture) -> Iterator[Finding]:
    """Yield findings about the token counts."""
    usage = capture.usage
    if usage is None:
        return
    for name in usage.invalid:
        yield Finding("usage_invalid", Severity.ERROR, f"The count {name} is not a whole number.")
    named = {
        "prompt": usage.input_tokens,
        "answer": usage.output_tokens,
        "cached prompt": usage.cached_tokens,
        "sum": usage.total_tokens,
    }
    negative = [f"{name} {count}" for name, count in named.items() if (count or 0) < 0]
    if negative:
        yield Finding(
            "usage_negative",
            Severity.ERROR,
            f"A count of tokens is negative: {', '.join(negative)}.",
        )
        return
    given, made, total = usage.input_tokens, usage.output_tokens, usage.total_tokens
    if given is not None and made is not None and total is not None and given + made != total:
        yield Finding(
            "usage_total",
            Severity.WARNING,
            f"The sum of tokens is {total}, but the prompt has {given} and the answer {made}.",
        )
    if made == 0 and (capture.text or capture.thinking or capture.tool_calls):
        yield Finding("usage_zero", Severity.ERROR, "The answer has content, but 0 tokens.")


def _reason(capture: Capture) -> Iterator[Finding]:
    known = _REASONS.get(capture.dialect) if capture.dialect is not None else None
    if capture.reason is None or known is None or capture.reason in known:
        return
    yield Finding(
        "unknown_reason",
        Severity.ERROR,
        f"{capture.reason!r} is not a reason of this API ({', '.join(sorted(known))}), so clients "
        "cannot tell why the answer ended.",
        excerpt=capture.reason[:200],
    )


def _calls(capture: Capture) -> Iterator[Finding]:
    if capture.ending is CapturedEnding.TOOL and not capture.tool_calls:
        yield Finding(
            "call_missing", Severity.ERROR, f"The reason is {capture.reason}, but there is no call."
        )
    for call in capture.tool_calls:
        if not call.name:
            yield Finding(
                "call_name_missing",
                Severity.ERROR,
                "A tool call does not name its tool.",
                excerpt=call.arguments[:200],
            )
        yield from _arguments(capture, call)


def _arguments(capture: Capture, call: CapturedCall) -> Iterator[Finding]:
    if not call.arguments and capture.dialect in _EMPTY_MEANS_NONE:
        return
    try:
        is_object = isinstance(parsed(call.arguments), dict)
    except ValueError:
        is_object = False
    if is_object:
        return
    named = (
        f"The arguments of the call of {call.name!r}" if call.name else "The arguments of a call"
    )
    if capture.ending is CapturedEnding.LIMIT or capture.reason is None:
        yield Finding(
            "arguments_cut",
            Severity.NOTE,
            f"{named} break off, as the answer does.",
            excerpt=call.arguments[-200:],
        )
        return
    yield Finding(
        "arguments_broken",
        Severity.ERROR,
        f"{named} are not a JSON object, so the tool cannot be called.",
        excerpt=call.arguments[-200:],
    )
