"""How numbers, durations and texts are written for people: one format each. Pure; any thread."""

import unicodedata

_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
# Control, format, surrogate and private characters, and every separator but the plain space.
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})


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


def size_in_words(count: float) -> str:
    """Return a number of bytes in powers of ten, as disks are sold: ``1.4 GB``, ``12.0 kB``."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:,.1f} {unit}"
    return counted(round(count), "byte")


def quoted(text: str, max_chars: int | None = None) -> str:
    r"""Return text in double quotes with invisible characters escaped: ``"\n\nUser:"``.

    Two different texts never look the same (a backslash is doubled), unless they were cut.

    Args:
        text: Any text.
        max_chars: Cut after this many code points and say so with an ellipsis; None never cuts.
    """
    is_cut = max_chars is not None and len(text) > max_chars
    shown = escaped(text[:max_chars] if is_cut else text).replace('"', '\\"')
    return f'"{shown}…"' if is_cut else f'"{shown}"'


def escaped(text: str) -> str:
    r"""Return text on one line, with invisible characters escaped and backslashes doubled."""
    return "".join(_ESCAPES.get(char) or _unseen_escape(char) or char for char in text)


def _unseen_escape(char: str) -> str:
    """Return the escape of an invisible character; empty for a visible one."""
    if char == " " or unicodedata.category(char) not in _UNSEEN_CATEGORIES:
        return ""
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
