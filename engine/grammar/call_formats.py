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
    form = family.call_format
    if form is None:
        raise ValueError("the format in which this model writes its calls is not known")
    if form.names is not None and not form.names.fullmatch(name):
        raise ValueError(f"this model cannot call a tool named {name!r}")
    start, end = (spell(mark or "") for mark in family.call_tags)
    if isinstance(form, TaggedCalls):
        return _tagged(form, name, start, end, spell)
    if isinstance(form, PythonCalls):
        opening, closing = form.edges
        before, after = f"{opening}{name}(", f"){closing}"
        head = quoted(f"{KEY_MARK}=")
        return ForcedCall(f"{start} {quoted(before)}", f"{quoted(after)} {end}", head, head)
    if not isinstance(form, HeadedCalls):
        return _json_frame(
            form, name, start, end, is_list=start not in ("", spell(form.object_tag))
        )
    if form.quote:
        before, head = f"{form.call[0]}{name}{{", quoted(f"{KEY_MARK}:")
        return ForcedCall(f"{start} {quoted(before)}", f'"}}" {end}', head, head)
    before, behind = map(spell, form.call)
    if form.has_json and behind == quoted(form.call[1]):  # not a token of this model
        return _json_frame(form, name, start, end, is_list=True)
    head = f"{quoted(name)} {form.number} {behind}"
    if form.is_fenced:
        fenced = quoted(f"{name}\n{form.fence}\n")
        head = f'"function" {behind} {fenced}'
    fence = quoted("\n```") if form.is_fenced else ""
    return ForcedCall(
        f"{start} {before} {spell(form.prefix)} {head}",
        f"{fence} {spell(form.call_end)} {end}",
    )


def _json_frame(form: CallFormat, name: str, start: str, end: str, *, is_list: bool) -> ForcedCall:
    """Return what stands around the arguments of a call that is a JSON object."""
    head = quoted(form.object_head.replace(NAME_MARK, json.dumps(name, ensure_ascii=False)))
    if form.bare is not None:
        return ForcedCall(head, '"}"')
    if is_list:
        space = form.list_space
        return ForcedCall(f'{start} "[" {space} {head}', f'"}}" {space} "]" {end}')
    return ForcedCall(f'{start} "\\n" {head}', f'"}}\\n" {end}')


def _tagged(form: TaggedCalls, name: str, start: str, end: str, spell: Spell) -> ForcedCall:
    """Return a call whose parameters stand between tags."""
    edge = "\n" if form.has_line_ends else ""
    before, behind = form.parameter
    key = f' {form.parameter_name}="{KEY_MARK}"' if form.parameter_name else KEY_MARK
    opened = f"{_LINE} {spell(form.value_start)}" if form.value_start else ""
    opened += f" {quoted(edge)}" if edge else ""
    text_head, json_head = (
        f"{_LINE} {spell(before + ' '.join(filter(None, (key, mark))) + behind)} {opened}"
        for mark in form.value_marks
    )
    # Where nothing but a tag that ends before the name opens a call, the name is its attribute.
    is_attribute = not form.call[0] and form.call[1]
    opening = quoted(f'"{name}"{form.call[1]}') if is_attribute else spell(form.opening(name))
    return ForcedCall(
        f"{start} {_LINE if form.call[0] else ''} {opening}",
        f"{_LINE} {spell(form.call_end)} {_LINE if form.call_end else ''} {end}",
        text_head,
        json_head,
    )
