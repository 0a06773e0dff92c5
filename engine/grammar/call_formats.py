"""How each format writes a forced call, in llguidance's Lark dialect."""

import json
import re
from dataclasses import dataclass

from engine.grammar.lark_text import Spell, quoted
from engine.output.families import Family
from engine.output.tool_calls.formats import (
    NAME_MARK,
    TAG_NAME,
    CallFormat,
    HeadedCalls,
    PythonCalls,
    TaggedCalls,
)

# White space that a model may write or leave out.
_LINE = '"\\n"?'
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

KEY_MARK = "\ue000"
"""Stands for the name of a parameter."""

JsonFrame = tuple[str, str]
"""What stands before and behind arguments that are one JSON value, in Lark."""


@dataclass(frozen=True, slots=True)
class ParameterFormat:
    """How a format writes parameters that stand one behind another.

    Attributes:
        before: What stands before the first one, in Lark.
        after: What stands behind the last one, in Lark.
        text_head: What stands before a value that is text, in Lark, with ``KEY_MARK``.
        json_head: What stands before any other value.
        names: What the names of parameters must match.
        end: The text behind a value.
        quote: The text on both sides of a value that is text.
        between: What stands between two parameters, in Lark.
        forbidden: Texts that end a value, wherever they stand in it.
        has_json_text: Whether text is written as JSON.
    """

    before: str
    after: str
    text_head: str
    json_head: str
    names: re.Pattern[str]
    end: str = ""
    quote: str = ""
    between: str = ""
    forbidden: tuple[str, ...] = ()
    has_json_text: bool = False


def call_format(family: Family, name: str, spell: Spell) -> JsonFrame | ParameterFormat:
    """Return how a model writes the call of a tool; raises ``ValueError``."""
    header = family.call_header(name)
    if header is not None:
        return spell(header), ""
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
        head = quoted(f"{KEY_MARK}=")
        return ParameterFormat(
            before=f"{start} {quoted(f'{opening}{name}(')}",
            after=f"{quoted(f'){closing}')} {end}",
            text_head=head,
            json_head=head,
            names=_WORD,
            between='", "',
            has_json_text=True,
        )
    if not isinstance(form, HeadedCalls):
        return _json_frame(form, name, start, end, is_list=start not in ("", spell("<tool_call>")))
    if form.quote:
        head = quoted(f"{KEY_MARK}:")
        return ParameterFormat(
            before=f"{start} {quoted(f'{form.call[0]}{name}{{')}",
            after=f'"}}" {end}',
            text_head=head,
            json_head=head,
            names=re.compile(r"\w+"),
            quote=form.quote,
            between='","',
            forbidden=(form.quote,),
        )
    before, behind = map(spell, form.call)
    if form.has_json and behind == quoted(form.call[1]):  # not a token of this model
        return _json_frame(form, name, start, end, is_list=True)
    head = f"{quoted(name)} {form.number} {behind}"
    if form.is_fenced:
        fenced = quoted(f"{name}\n{form.fence}\n")
        head = f'"function" {behind} {fenced}'
    fence = quoted("\n```") if form.is_fenced else ""
    return (
        f"{start} {before} {spell(form.prefix)} {head}",
        f"{fence} {spell(form.call_end)} {end}",
    )


def _json_frame(form: CallFormat, name: str, start: str, end: str, *, is_list: bool) -> JsonFrame:
    """Return what stands around the arguments of a call that is a JSON object."""
    head = quoted(form.object_head.replace(NAME_MARK, json.dumps(name, ensure_ascii=False)))
    if form.bare is not None:
        return head, '"}"'
    if is_list:
        space = form.list_space
        return f'{start} "[" {space} {head}', f'"}}" {space} "]" {end}'
    return f'{start} "\\n" {head}', f'"}}\\n" {end}'


def _tagged(form: TaggedCalls, name: str, start: str, end: str, spell: Spell) -> ParameterFormat:
    """Return a format whose parameters stand between tags."""
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
    return ParameterFormat(
        before=f"{start} {_LINE if form.call[0] else ''} {opening}",
        after=f"{_LINE} {spell(form.call_end)} {_LINE if form.call_end else ''} {end}",
        text_head=text_head,
        json_head=json_head,
        names=TAG_NAME,
        end=edge + form.value_end,
        forbidden=tuple(filter(None, (form.value_end, form.call_end, form.parameter[0]))),
    )
