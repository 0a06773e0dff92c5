"""Tool calls as Chat Completions and its open relatives spell them. Pure; any thread."""

from engine import ToolCall


def call_to_wire(call: ToolCall) -> dict[str, object]:
    """Return a call as Chat Completions spells it."""
    return {
        "id": call_id(call),
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def call_id(call: ToolCall) -> str:
    """Return the id by which a client answers a call."""
    return f"call_{call.id}"
