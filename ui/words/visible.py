"""Makes control characters visible in text that keeps its white space; reads escape sequences.

Pure functions; knows no Qt. Any thread.
"""

import re

from engine import visible

# Characters that turn the direction of the text around them, and so may show it as another one.
_DIRECTIONS = {
    code: visible(chr(code)) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
}
_JOINERS = "\u200c\u200d"
_CONTROL_PICTURES = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "␡"}
_MEANINGS = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'", "0": "\0"}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_NOT_ASCII = re.compile(r"[^\n -~]")
_LINE_ENDS = re.compile(r"\r\n|[\r\n\u2029]")


def with_control_pictures(text: str) -> str:
    """Return the text with a picture for each control character except line feed and tab."""
    kept = {ord("\n"), ord("\t")}
    return text.translate({c: s for c, s in _CONTROL_PICTURES.items() if c not in kept})


def with_directions_shown(text: str) -> str:
    """Return a text from elsewhere with the characters that change its direction shown by name."""
    return text.translate(_DIRECTIONS)


def with_escapes_for_hidden(json_text: str) -> str:
    r"""Return JSON text with ``\u`` escapes for characters that are invisible or change direction.

    Line feeds, spaces and the joiners of scripts and emoji stay.
    """
    return _NOT_ASCII.sub(lambda found: _seen_or_escaped(found[0]), json_text)


def _seen_or_escaped(char: str) -> str:
    if char.isprintable() or char in _JOINERS:
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def lines_of(text: str) -> list[str]:
    """Return the lines of a plain text, as a text view splits them."""
    return _LINE_ENDS.split(text)


def unescaped(typed: str) -> str:
    r"""Return what text with escapes stands for: ``\n \t \r \\ \" \' \0 \xHH \uHHHH \UHHHHHHHH``.

    Raises:
        ValueError: An escape is unknown or unfinished; the message says which and what to write.
    """
    out: list[str] = []
    position = 0
    while position < len(typed):
        char = typed[position]
        position += 1
        if char != "\\":
            out.append(char)
            continue
        if position == len(typed):
            raise ValueError("The text ends with a single \\; write \\\\ for a backslash.")
        name = typed[position]
        position += 1
        if name in _MEANINGS:
            out.append(_MEANINGS[name])
        elif name in _HEX_DIGITS:
            digits = typed[position : position + _HEX_DIGITS[name]]
            position += _HEX_DIGITS[name]
            out.append(_character(name, digits))
        else:
            raise ValueError(
                f"\\{name} is not an escape sequence; write \\\\{name} for a backslash and {name}."
            )
    return "".join(out)


def needs_escapes(text: str) -> bool:
    """Return whether a line of input cannot show the text as it is."""
    return any(not char.isprintable() for char in text)


def _character(name: str, digits: str) -> str:
    wanted = _HEX_DIGITS[name]
    if len(digits) != wanted or any(d not in "0123456789abcdefABCDEF" for d in digits):
        raise ValueError(f"\\{name} needs {wanted} hexadecimal digits after it.")
    code = int(digits, 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError(f"\\{name}{digits} is not a character.")
    return chr(code)
