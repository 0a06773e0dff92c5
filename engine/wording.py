"""How numbers, durations and texts are written for people: one format each. Pure; any thread."""

import unicodedata

_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
# Control, format, surrogate and private characters, and every separator but the plain space.
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})
_OF_CODES = (
    {code: chr(0x2400 + code) for code in range(0x20)}
    | {0x7F: "␡", ord(" "): "·", ord("\t"): "⇥", ord("\n"): "⏎", ord("\r"): "␍"}
    | {0x00A0: "⍽", 0x3000: "□"}
)
# A sign in the text itself is named, so that two different texts never look the same.
_AMBIGUOUS = frozenset({*_OF_CODES.values(), "‹"})


class _Signs(dict[int, str]):
    """The sign of each character that cannot be seen, for ``str.translate``."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if char not in _AMBIGUOUS and unicodedata.category(char) not in _UNSEEN_CATEGORIES:
            return char
        return f"‹U+{code:04X}›"


_SIGNS = _Signs(_OF_CODES)


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


def percent(probability: float) -> str:
    """Return a probability with two or three digits: ``97%``, ``0.42%``, ``< 0.01%``."""
    share = probability * 100
    if share >= 99.95:
        return "100%"
    if share >= 10:
        return f"{share:.0f}%"
    if share >= 1:
        return f"{share:.1f}%"
    return f"{share:.2f}%" if share >= 0.01 else "< 0.01%"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun in the right form: ``1 token``, ``2,048 tokens``."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def as_sentence(text: str) -> str:
    """Return words with a capital letter at the beginning and a full stop at the end.

    A name with a slash at the beginning, such as that of a repository, keeps its spelling.
    """
    text = text.strip()
    if text and text[-1] not in ".!?…":
        text += "."
    is_name = "/" in text.split(" ", 1)[0]
    return text if is_name else text[:1].upper() + text[1:]


def format_size(count: float) -> str:
    """Return a number of bytes in powers of ten, as disks are sold: ``1.4 GB``, ``340 MB``."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            size = count / factor
            return f"{size:,.0f} {unit}" if size >= 100 else f"{size:,.1f} {unit}"
    return counted(round(count), "byte")


def quoted(text: str, max_chars: int | None = None) -> str:
    """Return text in quotes with its white space visible (``“END·”``), cut after ``max_chars``."""
    is_cut = max_chars is not None and len(text) > max_chars
    return f"“{visible(text[:max_chars])}…”" if is_cut else f"“{visible(text)}”"


def visible(text: str) -> str:
    """Return text with a sign for each character that cannot be seen: space, line feed, control."""
    return text.translate(_SIGNS)


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
