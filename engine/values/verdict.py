"""Says in plain English why a generation ended; every surface's sentence comes from here.

Pure functions of ``Finished`` and ``StopInfo``; must not know transports or toolkits. Any thread.
"""

import unicodedata
from typing import assert_never

from engine.stopping.record import Channel, StopInfo, StopKind
from engine.values.events import Finished, tokens_per_s

_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
# Control, format, surrogate and private characters, and every separator but the plain space.
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})
_WHERE = {Channel.TEXT: "", Channel.THINKING: " of its thinking", Channel.TOOL: " of a tool call"}


def quoted(text: str, max_chars: int | None = None) -> str:
    r"""Return text in double quotes with what cannot be seen escaped: ``"\n\nUser:"``.

    Two different texts never look the same (a backslash is doubled), unless they were cut.

    Args:
        text: Any text.
        max_chars: Cut after this many code points and say so with an ellipsis; None never cuts.
    """
    is_cut = max_chars is not None and len(text) > max_chars
    shown = escaped(text[:max_chars] if is_cut else text).replace('"', '\\"')
    return f'"{shown}…"' if is_cut else f'"{shown}"'


def escaped(text: str) -> str:
    r"""Return text on one line, what cannot be seen escaped; a backslash is doubled."""
    return "".join(_ESCAPES.get(char) or _unseen_escape(char) or char for char in text)


def headline(stop: StopInfo) -> str:
    """Return the reason in a few words, without position or counts: ``Stopped by "6"``."""
    match stop.kind:
        case StopKind.EOS:
            return "Ended by itself"
        case StopKind.STOP_STRING:
            return f"Stopped by {quoted(str(stop.value), max_chars=80)}"
        case StopKind.STOP_TOKEN:
            return f"Stopped by token {stop.value}{_in_brackets(stop.token_text)}"
        case StopKind.MAX_TOKENS:
            return "Reached the token limit"
        case StopKind.CONTEXT_FULL:
            return "The context is full"
        case StopKind.TOOL_CALL:
            return "Called a tool"
        case StopKind.CANCELLED:
            return "Cancelled"
        case StopKind.ERROR:
            return "Failed"
        case _:
            assert_never(stop.kind)


def sentence(finished: Finished) -> str:
    """Return why and where a generation ended, as one sentence without a full stop.

    For example ``Stopped by "6" after 10 characters`` or ``Reached the limit of 5 tokens``.
    """
    stop, usage = finished.stop, finished.usage
    where = _WHERE[stop.channel]
    in_call = " in the middle of a tool call" if finished.unfinished_tool_call else ""
    match stop.kind:
        case StopKind.STOP_STRING | StopKind.STOP_TOKEN:
            if stop.text_offset == 0:
                return f"{headline(stop)} before the first character{where}"
            return f"{headline(stop)} after {counted(stop.text_offset, 'character')}{where}"
        case StopKind.EOS:
            token = "" if stop.token_text is None else f" token {stop.token_text}"
            return f"Ended by itself (EOS{token}){in_call}"
        case StopKind.MAX_TOKENS:
            return f"Reached the limit of {counted(usage.output_tokens, 'token')}{in_call}"
        case StopKind.CONTEXT_FULL:
            total = usage.prompt_tokens + usage.output_tokens
            return f"The context is full at {counted(total, 'token')}{in_call}"
        case StopKind.TOOL_CALL:
            return headline(stop)
        case StopKind.CANCELLED:
            return f"Cancelled after {counted(usage.output_tokens, 'token')}{in_call}"
        case StopKind.ERROR:
            return f"Failed: {finished.error or 'the cause is unknown'}"
        case _:
            assert_never(stop.kind)


def figures(finished: Finished) -> tuple[str, ...]:
    """Return the numbers worth a glance, as far as they exist.

    For example ``("41 tok/s", "0.38 s to first token", "143 tokens")``.
    """
    usage, timing = finished.usage, finished.timing
    found: list[str] = []
    speed = tokens_per_s(usage, timing)
    if speed is not None:
        found.append(f"{figure(speed)} tok/s")
    if timing.first_token_s is not None:
        found.append(f"{seconds(timing.first_token_s)} to first token")
    found.append(counted(usage.output_tokens, "token"))
    return tuple(found)


def figure(value: float) -> str:
    """Return a number with as many digits as help: 0.42, 4.2, 42, 1,204."""
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def seconds(duration_s: float) -> str:
    """Return a duration: ``8 ms``, ``0.38 s``, ``12.4 s``, ``2 min 5 s``."""
    if duration_s < 0.0995:
        return f"{duration_s * 1000:.0f} ms"
    if duration_s < 9.995:
        return f"{duration_s:.2f} s"
    if duration_s < 60:
        return f"{duration_s:.1f} s"
    minutes, rest = divmod(round(duration_s), 60)
    return f"{minutes} min {rest} s"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in the right form: ``1 token``, ``2,048 tokens``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _unseen_escape(char: str) -> str:
    """Return the escape of a character that shows nothing; empty for one that can be seen."""
    if char == " " or unicodedata.category(char) not in _UNSEEN_CATEGORIES:
        return ""
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _in_brackets(text: str | None) -> str:
    return f" ({quoted(text, max_chars=40)})" if text else ""
