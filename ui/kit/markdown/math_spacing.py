"""Spaces in MathML as TeX sets them: tight signs, thin spaces beside the names of functions."""

from collections.abc import Sequence
from xml.etree.ElementTree import Element

_SIGNS = ("\u2212", "+", "±", "∓")
_OPENING, _CLOSING = "([{⟨⌈⌊", ")]}⟩⌉⌋!"
_BARS = ("|", "∣", "‖")
_ROWS = ("math", "mrow", "mtd", "mstyle")
_SCRIPTED = ("msub", "msup", "msubsup", "munder", "mover", "munderover")
# A sixth of the font's size; the em of ziamath is four thirds of it.
_THIN = "0.125em"


def space_as_tex(formula: Element) -> None:
    """Mark signs as prefixes, and put thin spaces around the names of functions."""
    for row in list(formula.iter()):
        if row.tag in _ROWS:
            _space_row(row)


def _space_row(row: Element) -> None:
    parts = list(row)
    spaced: list[Element] = []
    bars = 0
    for at, part in enumerate(parts):
        before = next((one for one in reversed(parts[:at]) if one.tag != "mspace"), None)
        sign = _operator(part)
        bars += sign in _BARS
        if sign in _SIGNS and before is not None and _begins_term(before, is_open=bars % 2 == 1):
            part.set("form", "prefix")
        elif sign == ",":
            part.set("rspace", _THIN)
        name = _name(part)
        if name is None:
            spaced.append(part)
            continue
        # A space of the name itself would be between the name and its index.
        name.tag = "mo"
        name.attrib.update(form="prefix", lspace="0", rspace="0")
        has_left = at > 0 and _operator(parts[at - 1]) in ("", *_CLOSING)
        spaced += [_thin_space()] if has_left and parts[at - 1].tag != "mspace" else []
        spaced += [part, _thin_space()] if _needs_space(part, parts[at + 1 :]) else [part]
    row[:] = spaced


def _begins_term(before: Element, *, is_open: bool) -> bool:
    """Return whether a sign after this belongs to its number, as after a relation or a brace."""
    operator = _operator(before)
    if operator in _BARS:
        return is_open
    return _name(before) is not None or (bool(operator) and operator not in _CLOSING)


def _needs_space(name: Element, following: Sequence[Element]) -> bool:
    """Return whether a thin space separates a name from what follows; braces do so themselves."""
    if not following or following[0].tag == "mspace":
        return False
    begin = following[0]
    while begin.tag in (*_SCRIPTED, "mrow") and len(begin):
        begin = begin[0]
    operator = _operator(begin)
    if operator and operator in _OPENING:
        return name.tag in ("munder", "munderover")
    return not operator or operator in _BARS or operator in _SIGNS or _name(begin) is not None


def _name(part: Element) -> Element | None:
    """Return the element of a function's name, which may have an index or limits."""
    while part.tag in _SCRIPTED and len(part):
        part = part[0]
    letters = (part.text or "").strip().replace("\u2006", "")
    is_word = len(letters) > 1 and letters.isascii() and letters.isalpha()
    is_name = part.tag in ("mi", "mo") and is_word and part.get("mathvariant") is None
    return part if is_name else None


def _operator(part: Element) -> str:
    """Return the sign of an operator; empty for anything else and for names."""
    text = (part.text or "").strip() if part.tag == "mo" else ""
    return "" if text.isalpha() else text


def _thin_space() -> Element:
    return Element("mspace", width=_THIN)
