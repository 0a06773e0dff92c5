"""What the output of each model family looks like, as the models' own pages describe it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Family:
    """The structure of one family's output.

    Attributes:
        name: Of the family.
        think: The tags around reasoning, as lists of the tokens that spell them; None for none.
        tool: The tags around a tool call, likewise; an empty second list means that a call ends
            where the answer does, or where the next begins.
        style: How a call is written: ``json`` or ``brackets``.
        is_harmony: Whether messages have headers.
        special_tokens: Special tokens beyond the common ones.
        plain_tokens: Added tokens that are not special.
        eos: More texts that end generation.
        marker: Words of a chat template from which mlx-lm knows the family's calls.
    """

    name: str
    think: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    tool: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    style: str = ""
    is_harmony: bool = False
    special_tokens: tuple[str, ...] = ()
    plain_tokens: tuple[str, ...] = ()
    eos: tuple[str, ...] = ()
    marker: str = ""


_THINK = (("<think>",), ("</think>",))
_CHANNEL = (("<|channel>", "thought"), ("<channel|>",))
_CALL = (("<tool_call>",), ("</tool_call>",))
_JSON = "<tool_call> tool_call.name"
HARMONY_MARKERS = (
    "<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>", "<|constrain|>",
)  # fmt: skip

FAMILIES = {
    family.name: family
    for family in (
        Family("plain"),
        Family("thinking", _THINK, plain_tokens=("<think>", "</think>")),
        Family("special thinking", _THINK, special_tokens=("<think>", "</think>")),
        Family("long thinking", _CHANNEL, plain_tokens=("<|channel>", "<channel|>")),
        Family("long special thinking", _CHANNEL, special_tokens=("<|channel>", "<channel|>")),
        Family(
            "json calls",
            _THINK,
            _CALL,
            "json",
            plain_tokens=("<think>", "</think>", "<tool_call>", "</tool_call>"),
            marker=_JSON,
        ),
        Family(
            "special json calls",
            None,
            _CALL,
            "json",
            special_tokens=("<tool_call>", "</tool_call>"),
            marker=_JSON,
        ),
        Family(
            "long json calls",
            _THINK,
            (("<tool", "_call", ">"), ("</", "tool_call", ">")),
            "json",
            plain_tokens=("<think>", "</think>"),
            marker=_JSON,
        ),
        Family(
            "json calls that we parse",
            None,
            (("<|tool_call|>",), ("<|/tool_call|>",)),
            "json",
            special_tokens=("<|tool_call|>", "<|/tool_call|>"),
        ),
        Family(
            "open json calls that we parse",
            _THINK,
            (("<|tool_call|>",), ()),
            "json",
            plain_tokens=("<think>", "</think>", "<|tool_call|>"),
        ),
        Family(
            "bracketed calls",
            _THINK,
            (("[TOOL_CALLS]",), ()),
            "brackets",
            special_tokens=("[TOOL_CALLS]", "[ARGS]"),
            plain_tokens=("<think>", "</think>"),
            marker="[TOOL_CALLS]",
        ),
        Family(
            "harmony",
            is_harmony=True,
            special_tokens=HARMONY_MARKERS,
            eos=("<|return|>", "<|call|>"),
        ),
        Family(
            "harmony without ends",
            is_harmony=True,
            special_tokens=HARMONY_MARKERS,
        ),
    )
}
