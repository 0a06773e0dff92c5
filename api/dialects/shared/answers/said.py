"""The texts of an answer that is sent whole. Pure; any thread."""

from collections.abc import Iterable

from engine import Event, TextDelta, ThinkingDelta, ToolCallCompleted


def text_of(events: Iterable[Event]) -> str:
    """Return the text of an answer."""
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def raw_text_of(events: Iterable[Event], *, has_thinking: bool = False) -> str:
    """Return all text that the model wrote, for dialects without fields for thinking or calls."""
    texts = []
    for event in events:
        if isinstance(event, TextDelta) or (isinstance(event, ThinkingDelta) and not has_thinking):
            texts.append(event.text)
        elif isinstance(event, ToolCallCompleted):
            texts.append(event.raw)
    return "".join(texts)


def reasoning_of(events: Iterable[Event]) -> str:
    """Return the reasoning before an answer."""
    return "".join(event.text for event in events if isinstance(event, ThinkingDelta))
