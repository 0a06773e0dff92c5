"""How each format writes a forced call, in llguidance's Lark dialect."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from engine.grammar.lark_text import Spell, quoted, spelled_marks
from engine.output.bare_calls import BARE_NAME
from engine.output.families import Family
from engine.output.tool_calls import styles
from engine.output.tool_calls.tagged_calls import TAGS, Tags

# White space that a model may write or leave out.
_LINE, _SPACE = '"\\n"?', "/[ \\n]{0,8}/"
_NAME = re.compile(r"[^\s<>\"'={}]+")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FENCE = "\n```json\n"
_GEMMA_QUOTES = {styles.GEMMA4: '<|"|>', styles.FUNCTION_GEMMA: "<escape>"}
# Formats whose texts name the tool without quotes.
_BARE = {
    styles.LLAMA, styles.KIMI, styles.DEEPSEEK, styles.DEEPSEEK_FENCED, styles.GEMMA,
    styles.MISTRAL, styles.PYTHONIC, *_GEMMA_QUOTES,
}  # fmt: skip
# What the tag of a parameter says of a value that is no text, by the attribute that says it.
_NO_TEXT = {"string": "false", "type": "json"}

JsonFrame = tuple[str, str]
"""What stands before and behind arguments that are one JSON value, in Lark."""


@dataclass(frozen=True, slots=True)
class ParameterFormat:
    """How a format writes parameters that stand one behind another.

    Attributes:
        before: What stands before the first one, in Lark.
        after: What stands behind the last one, in Lark.
        head: Returns what stands before the value of a parameter, in Lark, from its name and
            whether the value is text.
        names: What the names of parameters must match.
        end: The text behind a value.
        quote: The text on both sides of a value that is text.
        between: What stands between two parameters, in Lark.
        forbidden: Texts that end a value, wherever they stand in it.
        has_json_text: Whether text is written as JSON.
    """

    before: str
    after: str
    head: Callable[[str, bool], str]
    names: re.Pattern[str] = _NAME
    end: str = ""
    quote: str = ""
    between: str = ""
    forbidden: tuple[str, ...] = ()
    has_json_text: bool = False


def call_format(family: Family, name: str, spell: Spell) -> JsonFrame | ParameterFormat:
    """Return how a model writes the call of a tool; raises ``ValueError``."""
    header = family.call_header(name)
    if header is not None:
        before, after = map(spelled_marks, header)
        return before, after
    style = family.call_style
    start, end = (spell(mark or "") for mark in family.call_tags)
    tags = TAGS.get(style)
    is_named = _NAME if tags is not None else BARE_NAME if style in _BARE else None
    if is_named is not None and not is_named.fullmatch(name):
        raise ValueError(f"this model cannot call a tool named {name!r}")
    if tags is not None:
        return _tagged(tags, name, start, end, spell)
    if (quote := _GEMMA_QUOTES.get(style)) is not None:
        return ParameterFormat(
            before=f"{start} {quoted(f'call:{name}{{')}",
            after=f'"}}" {end}',
            head=lambda key, is_text: quoted(f"{key}:"),
            names=re.compile(r"\w+"),
            quote=quote,
            between='","',
            forbidden=(quote,),
        )
    if style in (styles.GEMMA, styles.PYTHONIC):
        opening, closing = ("\n", "") if style == styles.GEMMA else ("[", "]")
        return ParameterFormat(
            before=f"{start} {quoted(f'{opening}{name}(')}",
            after=f"{quoted(f'){closing}')} {end}",
            head=lambda key, is_text: quoted(f"{key}="),
            names=_WORD,
            between='", "',
            has_json_text=True,
        )
    return _json_frame(style, name, start, end, spell)


def _json_frame(style: str, name: str, start: str, end: str, spell: Spell) -> JsonFrame:
    text = json.dumps(name, ensure_ascii=False)
    before, after = quoted(f'{{"name": {text}, "arguments": '), '"}"'
    if style == styles.JSON_CALLS:
        # Granite, Phi and Nemotron write a list.
        is_list = start not in ("", spell("<tool_call>"))
        if is_list:
            return (f'{start} "[" {before}', f'{after} "]" {end}')
        return (f'{start} "\\n" {before}', f'"}}\\n" {end}')
    if style == styles.LLAMA:
        return (quoted(f'{{"name": {text}, "parameters": '), after)
    if style == styles.MISTRAL:
        middle = spell("[ARGS]")
        if middle != quoted("[ARGS]"):
            return (f"{start} {quoted(name)} {middle}", "")
        return (f'{start} "[" {before}', f'{after} "]"')
    if style == styles.KIMI:
        begin = f"{spell('<|tool_call_begin|>functions.')} {quoted(name)} /:[0-9]{{1,4}}/"
        return (
            f"{start} {begin} {spell('<|tool_call_argument_begin|>')}",
            f"{spell('<|tool_call_end|>')} {end}",
        )
    if style in (styles.DEEPSEEK, styles.DEEPSEEK_FENCED):
        begin, middle = spell("<｜tool▁call▁begin｜>"), spell("<｜tool▁sep｜>")
        before, after = f"{quoted(name)} {middle}", ""
        if style == styles.DEEPSEEK_FENCED:
            before = f'"function" {middle} {quoted(f"{name}{_FENCE}")}'
            after = quoted("\n```")
        ending = f"{after} {spell('<｜tool▁call▁end｜>')} {end}"
        return (f"{start} {begin} {before}", ending.lstrip())
    if style == styles.COMMAND:
        before = quoted(f'{{"tool_call_id": "0", "tool_name": {text}, "parameters": ')
        return (f'{start} "[" {_SPACE} {before}', f'{after} {_SPACE} "]" {end}')
    raise ValueError("the format in which this model writes its calls is not known")


def _tagged(tags: Tags, name: str, start: str, end: str, spell: Spell) -> ParameterFormat:
    """Return a format whose parameters stand between tags."""
    edge = "\n" if tags.has_line_ends else ""

    def head(key: str, is_text: bool) -> str:
        before, behind = tags.parameter
        if tags.parameter_name:
            key = f' {tags.parameter_name}="{key}"'
        if tags.string_mark:
            attribute, _, _ = tags.string_mark.partition("=")
            key += f" {tags.string_mark}" if is_text else f' {attribute}="{_NO_TEXT[attribute]}"'
        parts = [_LINE, spell(before + key + behind)]
        if tags.value_start:
            parts += [_LINE, spell(tags.value_start)]
        return " ".join([*parts, quoted(edge)] if edge else parts)

    if not tags.call[0] and tags.call[1]:  # the tag that opens the call ends before the name
        before = [start, quoted(f'"{name}"{tags.call[1]}')]
    else:
        before = [start, _LINE if tags.call[0] else "", spell(tags.opening(name))]
    after = [_LINE, spell(tags.call_end), _LINE, end] if tags.call_end else [_LINE, end]
    return ParameterFormat(
        before=" ".join(filter(None, before)),
        after=" ".join(filter(None, after)),
        head=head,
        end=edge + tags.value_end,
        forbidden=tuple(filter(None, (tags.value_end, tags.call_end, tags.parameter[0]))),
    )
