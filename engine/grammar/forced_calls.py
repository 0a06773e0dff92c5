"""How each format writes a forced call, in llguidance's Lark dialect."""

import json
from dataclasses import dataclass

from engine.grammar.lark_text import Spell, quoted
from engine.output.families import Family
from engine.output.tool_calls.formats import (
    NAME_MARK,
    CallFormat,
    HeadedCalls,
    PythonCalls,
    TaggedCalls,
)

# White space that a model may write or leave out.
_LINE = '"\\n"?'

KEY_MARK = "\ue000"
"""Stands for the name of a parameter."""


@dataclass(frozen=True, slots=True)
class ForcedCall:
    """How a model writes the call of one tool; all texts are Lark.

    Attributes:
        before: What stands before the arguments.
        after: What stands behind them.
        text_head: What stands before a parameter that is text, with ``KEY_MARK``.
        json_head: What stands before any other parameter; empty for arguments in one JSON object.
    """

    before: str
    after: str
    text_head: str = ""
    json_head: str = ""


def forced_call(family: Family, name: str, spell: Spell) -> ForcedCall:
    """Return how a model writes the call of a tool; raises ``ValueError``."""
    header = family.call_header(name)
    if header is not None:
        return ForcedCall(spell(header), "")
    call_format = family.call_format
    if call_format is None:
        raise ValueError("the format in which this model writes its calls is not known")
    if call_format.names is not None and not call_format.names.fullmatch(name):
        raise ValueError(f"this model cannot call a tool named {name!r}")
    start, end = (spell(mark or "") for mark in family.call_tags)
    if isinstance(call_format, TaggedCalls):
        return _tagged(call_format, name, start, end, spell)
    if isinstance(call_format, PythonCalls):
        opening, closing = call_format.edges
        before, after = f"{opening}{name}(", f"){closing}"
        head = quoted(f"{KEY_MARK}=")
        return ForcedCall(f"{start} {quoted(before)}", f"{quoted(after)} {end}", head, head)
    if not isinstance(call_format, HeadedCalls):
        return _json_frame(
            call_format, name, start, end, is_list=start not in ("", spell(call_format.object_tag))
        )
    if call_format.quote:
        before, head = f"{call_format.call[0]}{name}{{", quoted(f"{KEY_MARK}:")
        return ForcedCall(f"{start} {quoted(before)}", f'"}}" {end}', head, head)
    before, behind = map(spell, call_format.call)
    if call_format.has_json and behind == quoted(call_format.call[1]):  # not a token of this model
        return _json_frame(call_format, name, start, end, is_list=True)
    head = f"{quoted(name)} {call_format.number} {behind}"
    if call_format.is_fenced:
        fenced = quoted(f"{name}\n{call_format.fence}\n")
        head = f'"function" {behind} {fenced}'
    fence = quoted("\n```") if call_format.is_fenced else ""
    return ForcedCall(
        f"{start} {before} {spell(call_format.prefix)} {head}",
        f"{fence} {spell(call_format.call_end)} {end}",
    )


def _json_frame(
    call_format: CallFormat, name: str, start: str, end: str, *, is_list: bool
) -> ForcedCall:
    """Return what stands around the arguments of a call that is a JSON object."""
    head = quoted(call_format.object_head.replace(NAME_MARK, json.dumps(name, ensure_ascii=False)))
    if call_format.bare is not None:
        return ForcedCall(head, '"}"')
    if is_list:
        space = call_format.list_space
        return ForcedCall(f'{start} "[" {space} {head}', f'"}}" {space} "]" {end}')
    return ForcedCall(f'{start} "\\n" {head}', f'"}}\\n" {end}')


def _tagged(call_format: TaggedCalls, name: str, start: str, end: str, spell: Spell) -> ForcedCall:
    edge = "\n" if call_format.has_line_ends else ""
    before, behind = call_format.parameter
    key = f' {call_format.parameter_name}="{KEY_MARK}"' if call_format.parameter_name else KEY_MARK
    opened = f"{_LINE} {spell(call_format.value_start)}" if call_format.value_start else ""
    opened += f" {quoted(edge)}" if edge else ""
    text_head, json_head = (
        f"{_LINE} {spell(before + ' '.join(filter(None, (key, mark))) + behind)} {opened}"
        for mark in call_format.value_marks
    )
    # Where nothing but a tag that ends before the name opens a call, the name is its attribute.
    is_attribute = not call_format.call[0] and call_format.call[1]
    opening = (
        quoted(f'"{name}"{call_format.call[1]}')
        if is_attribute
        else spell(call_format.opening(name))
    )
    return ForcedCall(
        f"{start} {_LINE if call_format.call[0] else ''} {opening}",
        f"{_LINE} {spell(call_format.call_end)} {_LINE if call_format.call_end else ''} {end}",
        text_head,
        json_head,
    )
