"""The grammar of a whole answer, as llguidance reads it, from what a request asks for."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any

from engine.errors import InvalidRequest
from engine.grammar.call_formats import JsonFrame, ParameterFormat, call_format
from engine.grammar.call_parameters import ParameterRules
from engine.grammar.lark_text import Spell, in_slashes, quoted, spelled_marks
from engine.grammar.schema_bounds import MAX_CHARACTERS, Bounds
from engine.grammar.schema_support import Enforceable, enforceable
from engine.output.families import Family
from engine.values.request import GenerationRequest, OutputConstraint, TextForm, Tool
from engine.wording import counted

# Checks their bounds, and writes them as rules of llguidance's Lark dialect
# (https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md).

MAX_REGEX_CHARACTERS = 16_384
MAX_GRAMMAR_CHARACTERS = 65_536
# The library's work for a token grows with the square of the parts that may be empty.
MAX_OPTIONAL_PARTS = 1_000
MAX_CHOICES = 10_000
MAX_CHOICE_CHARACTERS = 128 * 1024
SCHEMA_FIELD = "constraint.json_schema"
# The name of a request's own grammar within the grammar of the whole answer.
OWN_GRAMMAR = "own"

# Texts, regular expressions and comments of Lark, which may contain anything.
_QUOTED = re.compile(r'"(?:\\.|[^"\\\n])*"|/(?!/)(?:\\.|[^/\\\n])+/|//[^\n]*|#[^\n]*')
_SPECIAL_TOKEN = re.compile(r"<[^<>\n]*>")
_OPTIONAL = re.compile(r"[?*]|\{\s*(?:0|,)[\s,]*(\d*)")
_DIRECTIVE = re.compile(r"%(\w+)|@(\w+)")
_ALLOWED_DIRECTIVES = frozenset({"ignore", "import", "llguidance"})
_OPTIONS_LINE = re.compile(r"^\s*%llguidance\s*\{\s*\}\s*$", re.MULTILINE)


def field_of(form: TextForm) -> str:
    """Return the engine's name of the field that asks for a form."""
    if form.regex is not None:
        return "constraint.regex"
    return "constraint.choices" if form.choices else "constraint.grammar"


def check_bounds(form: TextForm) -> None:
    """Check that a form is not empty and within the bounds."""
    texts = _texts(form)
    if len(texts) > MAX_CHOICES:
        raise ValueError(f"at most {MAX_CHOICES} texts are supported")
    if form.regex is not None:
        limit = MAX_REGEX_CHARACTERS
    else:
        limit = MAX_CHOICE_CHARACTERS if form.choices else MAX_GRAMMAR_CHARACTERS
    if sum(map(len, texts)) > limit:
        raise ValueError(f"at most {counted(limit, 'character')} are supported")
    for text in texts:
        if not text:
            raise ValueError("must not be empty")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("contains a lone surrogate, which is not a character") from None


def fingerprint(form: TextForm) -> str:
    """Return a text that two forms share only if they are the same."""
    return json.dumps([field_of(form), *_texts(form)])


def document_rules(form: TextForm) -> list[str]:
    """Return the rules of ``document``; a grammar is referred to by the name ``OWN_GRAMMAR``."""
    if form.regex is not None:
        return ["document: DOCUMENT", f"DOCUMENT: {in_slashes(form.regex)}"]
    if form.choices:
        spelled = map(quoted, dict.fromkeys(form.choices))
        return [f"document: {' | '.join(spelled)}"]
    return [f"document: @{OWN_GRAMMAR}"]


def with_own_grammar(rules: str, lark: str | None) -> str:
    """Return the rules of a whole answer together with the grammar that they refer to."""
    if lark is None:
        return rules
    grammars = [
        {"name": "answer", "lark_grammar": rules},
        {"name": OWN_GRAMMAR, "lark_grammar": lark},
    ]
    return json.dumps({"grammars": grammars}, ensure_ascii=False)


def checked_lark(lark: str) -> str:
    """Return a request's grammar if it is only about text.

    Special tokens would open channels (reasoning, tool calls) or end the answer, and inner JSON
    schemas would not be checked against the bounds of schemas.
    """
    bare = _QUOTED.sub('""', _OPTIONS_LINE.sub("", lark))
    if (token := _SPECIAL_TOKEN.search(bare)) is not None:
        raise ValueError(f"special tokens are not supported in a grammar: {token.group()[:80]}")
    for directive in _DIRECTIVE.finditer(bare):
        if directive[1] == "json":
            raise ValueError("%json is not supported in a grammar; ask for the JSON schema instead")
        if directive[1] not in _ALLOWED_DIRECTIVES:
            raise ValueError(f"{directive.group()[:80]} is not supported in a grammar")
        if directive[1] == "llguidance":
            raise ValueError("options of %llguidance are not supported")
    # The library halves long repetitions, so a longer one takes hardly more.
    counts = (min(int(found[1] or 1), 20) for found in _OPTIONAL.finditer(bare))
    if (total := sum(counts)) > MAX_OPTIONAL_PARTS:
        raise ValueError(
            f"it has {total} optional or repeated parts, at most {MAX_OPTIONAL_PARTS} are "
            "supported; write repetitions of single characters as regular expressions"
        )
    return lark


def _texts(form: TextForm) -> tuple[str, ...]:
    if form.regex is not None:
        return (form.regex,)
    return form.choices or ((form.grammar or ""),)


_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_BRANCHES = ("allOf", "anyOf", "oneOf")
_LISTS = (*_BRANCHES, "prefixItems", "items")
_SINGLES = ("items", "additionalItems", "additionalProperties")
_DECIDING = frozenset({"additionalProperties", "unevaluatedProperties"})
_NAMING = frozenset({"properties", "patternProperties", *_DECIDING})


def closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema whose objects have only the keys that it names.

    JSON Schema allows further keys where ``additionalProperties`` is absent, and a model may write
    them until its limit. A schema that combines objects stays as it is: each of them would forbid
    the others' keys.
    """
    if any(map(_is_combining, _nodes(schema))):
        return dict(schema)
    whole: dict[str, Any] = _closed(schema)
    return whole


def _closed(node: Any) -> Any:
    if not isinstance(node, Mapping):
        return node
    inner = dict(node)
    for key, value in node.items():
        if key in _MAPS and isinstance(value, Mapping):
            inner[key] = {name: _closed(part) for name, part in value.items()}
        elif key in _LISTS and isinstance(value, list):
            inner[key] = [_closed(part) for part in value]
        elif key in _SINGLES:
            inner[key] = _closed(value)
    named = inner.get("properties")
    if isinstance(named, Mapping) and not node.keys() & _DECIDING:
        unnamed = (name for name in _required(node) if name not in named)
        inner["properties"] = {**named, **dict.fromkeys(unnamed, True)}
        inner["additionalProperties"] = False
    return inner


def _is_combining(node: Mapping[str, Any]) -> bool:
    """Return whether the keys of several parts of a schema apply to one object."""
    if "$ref" in node and node.keys() & {*_NAMING, *_BRANCHES}:
        return True
    lists = [node[key] for key in _BRANCHES if isinstance(node.get(key), list)]
    known = node.get("properties", {})
    naming = [
        any(
            isinstance(part, Mapping)
            and (
                bool(part.keys() & {*_NAMING, *_BRANCHES, "$ref"})
                or any(name not in known for name in _required(part))
            )
            for part in parts
        )
        for parts in lists
    ]
    is_several = isinstance(parts := node.get("allOf"), list) and len(parts) > 1
    return any(naming) and (is_several or len(lists) > 1 or bool(node.keys() & _NAMING))


def _nodes(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and all schemas in it."""
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, Mapping):
            yield node
            for key, value in node.items():
                if key in _MAPS and isinstance(value, Mapping):
                    stack += value.values()
                elif key in _LISTS and isinstance(value, list):
                    stack += value
                elif key in _SINGLES:
                    stack.append(value)


def _required(node: Mapping[str, Any]) -> list[str]:
    required = node.get("required")
    return [x for x in required if isinstance(x, str)] if isinstance(required, list) else []


# One blank, or a new line and its indentation. JSON allows any amount of white space, and an unsure
# model would write it until it reaches the limit.
_SPACE = r"[ ]|\n[ \t]{0,40}"
# Overrides the library's options in a schema: "lenient", for example, would allow anything.
_SCHEMA_OPTIONS = {"x-guidance": {"whitespace_pattern": _SPACE, "coerce_one_of": True}}
# ``token_constraint`` finds forced tokens itself: the library would also force special tokens whose
# names occur in a schema as text, and these do not fit.
_OPTIONS = '%llguidance {"no_forcing": true}'
_CACHED_SCHEMAS = 256


def may_call(request: GenerationRequest) -> bool:
    """Return whether a constrained answer can be a tool call."""
    choice = request.tool_choice.mode
    return choice == "required" or (choice == "auto" and bool(request.tools))


@dataclass(frozen=True, slots=True)
class AnswerGrammar:
    """The grammar of an answer.

    Attributes:
        text: The grammar, as llguidance reads it.
        left_out: The keywords of the request's schemas that it cannot enforce, by field.
    """

    text: str
    left_out: tuple[str, ...] = ()


def answer_grammar(
    request: GenerationRequest, family: Family, spell: Spell, lark: str | None = None
) -> AnswerGrammar:
    """Return the grammar of a constrained request's answer.

    Where the model may choose, the grammar allows the text and a call; where a call is required, it
    allows only calls.

    Args:
        request: The request.
        family: How the model writes its answers.
        spell: Writes text in Lark, with the model's special tokens.
        lark: The request's own grammar, if it has one.
    """
    rules = _Rules(family, spell, allows_more_keys=request.allows_more_keys)
    if request.tool_choice.mode == "required":
        return AnswerGrammar(rules.grammar(None, _wanted_tools(request)), tuple(rules.left_out))
    assert request.constraint is not None
    whole = rules.grammar(request.constraint, request.tools if may_call(request) else ())
    return AnswerGrammar(with_own_grammar(whole, lark), tuple(rules.left_out))


def schema_grammar(schema: Mapping[str, Any], *, allows_more_keys: bool = False) -> str:
    """Return the grammar of one schema alone."""
    return f"start: {as_rule(prepared_schema(schema, allows_more_keys=allows_more_keys).schema)}\n"


def form_grammar(form: TextForm, lark: str | None = None) -> str:
    """Return the grammar of one form of text alone."""
    rules = "\n".join([_OPTIONS, "start: document", *document_rules(form), ""])
    return with_own_grammar(rules, lark)


_DESCRIBING = frozenset(
    {
        "properties",
        "patternProperties",
        "additionalProperties",
        "unevaluatedProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "$ref",
    }
)


def answer_schema(constraint: OutputConstraint) -> Mapping[str, Any]:
    """Return the schema that a constraint stands for."""
    return {"type": "object"} if constraint.json_schema is None else constraint.json_schema


def arguments_schema(tool: Tool) -> Mapping[str, Any]:
    """Return the schema of a tool's arguments, which are always an object.

    A tool that describes no argument takes none.
    """
    described: dict[str, Any] = {} if tool.parameters.keys() & _DESCRIBING else {"properties": {}}
    return {**described, **tool.parameters, "type": "object"}


def _wanted_tools(request: GenerationRequest) -> Sequence[Tool]:
    name = request.tool_choice.name
    if not request.tools:
        raise InvalidRequest("tool_choice", "a call is required, but there are no tools")
    if name is None:
        return request.tools
    wanted = [tool for tool in request.tools if tool.name == name]
    if not wanted:
        known = ", ".join(tool.name for tool in request.tools)[:200]
        raise InvalidRequest(
            "tool_choice", f"there is no tool {name[:200]!r}; the tools are: {known}"
        )
    return wanted


# OpenAI's SDK sends ``strict: true`` with every pydantic model, and a set takes an array in which
# items repeat: this keyword is left out and named even where a strict schema is refused.
_SET_MARK = ".uniqueItems"


class _Rules:
    """Writes the rules of a grammar in one model's format."""

    def __init__(self, family: Family, spell: Spell, *, allows_more_keys: bool) -> None:
        self.left_out: list[str] = []
        self._family = family
        self._spell = spell
        self._allows_more_keys = allows_more_keys

    def grammar(self, constraint: OutputConstraint | None, tools: Sequence[Tool]) -> str:
        """Return the rules of a text (if a constraint is given) or a call of one of the tools."""
        rules: list[str] = []
        choices: list[str] = []
        if constraint is not None:
            choices.append("answer")
            frame = self._family.answer_frame
            before, after = spelled_marks(frame.before), spelled_marks(frame.after)
            rules.append(f"answer: {before} document {after}")
            rules.extend(self._document(constraint))
        for number, tool in enumerate(tools):
            choices.append(f"call{number}")
            try:
                written = call_format(self._family, tool.name, self._spell)
            except ValueError as error:
                field = "tool_choice" if constraint is None else "constraint"
                raise InvalidRequest(field, str(error)) from error
            rules += self._call(number, tool, written)
        start = f"start: {self._reasoning(rules)}({' | '.join(choices)})"
        return "\n".join([_OPTIONS, start, *rules, ""])

    def _call(self, number: int, tool: Tool, written: JsonFrame | ParameterFormat) -> list[str]:
        """Return the rules of the calls of a tool."""
        field = parameters_field(tool)
        schema = self._prepared(arguments_schema(tool), field)
        if isinstance(written, JsonFrame):
            return [
                f"call{number}: {written.before} arguments{number} {written.after}",
                f"arguments{number}: {as_rule(schema)}",
            ]
        parameters = ParameterRules(written, self._spell, as_rule, number)
        rules = list(parameters.write(f"call{number}", schema))
        self.left_out += (
            f"{field}.{place}".rstrip(".") for place in dict.fromkeys(parameters.left_out)
        )
        return rules

    def _document(self, constraint: OutputConstraint) -> list[str]:
        if constraint.text_form is not None:
            return document_rules(constraint.text_form)
        held = self._prepared(answer_schema(constraint), SCHEMA_FIELD)
        refused = [place for place in self.left_out if not place.endswith(_SET_MARK)]
        if constraint.is_strict and refused:
            place = refused[0].removeprefix(f"{SCHEMA_FIELD}.")
            raise InvalidRequest(
                SCHEMA_FIELD,
                f"{place} cannot be enforced; leave it out, or send strict: false, and "
                "the answer is held to the rest",
            )
        return [f"document: {as_rule(held)}"]

    def _prepared(self, schema: Mapping[str, Any], field: str) -> dict[str, Any]:
        held = prepared_schema(schema, allows_more_keys=self._allows_more_keys)
        self.left_out += (f"{field}.{place}" for place in held.left_out)
        return held.schema

    def _reasoning(self, rules: list[str]) -> str:
        """Add the rules of reasoning where it is a message of its own."""
        frame = self._family.reasoning_frame
        if frame is None:
            return ""
        before, after = spelled_marks(frame.before), spelled_marks(frame.after)
        rules.append(f"reasoning: {before} PROSE {after}")
        rules.append(r"PROSE: /(.|\n)*/")
        return "reasoning? "


def schema_text(schema: Mapping[str, Any]) -> str:
    """Return a schema as JSON."""
    try:
        text = json.dumps(schema, allow_nan=False, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("it contains a lone surrogate, which is not a character") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except TypeError as error:
        raise ValueError(f"it is not JSON: {error}") from error
    return text


def prepared_schema(schema: Mapping[str, Any], *, allows_more_keys: bool) -> Enforceable:
    """Return a schema as it is compiled, and the keywords that are left out."""
    try:
        return _prepared(schema_text(schema), allows_more_keys)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


@lru_cache(_CACHED_SCHEMAS)
def _prepared(text: str, allows_more_keys: bool) -> Enforceable:
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"longer than {MAX_CHARACTERS} characters, written as JSON")
    held = enforceable(json.loads(text), closes=not allows_more_keys)
    return held if allows_more_keys else held._replace(schema=closed(held.schema))


def as_rule(schema: Mapping[str, Any]) -> str:
    """Return the grammar of a prepared schema, with our options for the library."""
    return f"%json {json.dumps({**schema, **_SCHEMA_OPTIONS}, ensure_ascii=False)}"


@dataclass(frozen=True, slots=True)
class FormDraft:
    """A request whose schemas or other form keep within the bounds.

    Attributes:
        request: The request, without its conversation.
        digest: The same only for the same form.
        tools: Its tools; a schema beyond the bounds allows any object.
        left_out: The fields of such schemas.
    """

    request: GenerationRequest
    digest: bytes
    tools: tuple[Tool, ...] = ()
    left_out: tuple[str, ...] = ()


def draft_of(request: GenerationRequest, last: FormDraft | None = None) -> FormDraft:
    """Return the draft of a constrained request."""
    if last is not None and is_same_form(last.request, request):
        return last
    bounds = Bounds()
    digest = sha256()
    owner = request.cache_owner.name
    is_strict = request.constraint is not None and request.constraint.is_strict
    digest.update(f"{owner}\0{request.tool_choice} {request.allows_more_keys} {is_strict}".encode())
    if (schema := _constraint_schema(request)) is not None:
        try:
            digest.update(_checked(schema, bounds))
        except ValueError as error:
            raise InvalidRequest(SCHEMA_FIELD, str(error)) from error
    tools, left_out = list(request.tools), []
    for place, tool in enumerate(request.tools if may_call(request) else ()):
        before = copy(bounds)
        try:
            written = _checked(arguments_schema(tool), bounds)
        except ValueError:
            bounds, tools[place] = before, without_schema(tool)
            left_out.append(parameters_field(tool))
            written = b"any object"
        digest.update(f"\0{tool.name}\0".encode("utf-8", "surrogatepass") + written)
    if (form := text_form_of(request)) is not None:
        try:
            check_bounds(form)
        except ValueError as error:
            raise InvalidRequest(field_of(form), str(error)) from error
        digest.update(fingerprint(form).encode())
    # Without the conversation, which may be long and does not matter here.
    bare = replace(request, messages=(), prompt=None, prediction=None)
    return FormDraft(bare, digest.digest(), tuple(tools), tuple(left_out))


def _checked(schema: Mapping[str, Any], bounds: Bounds) -> bytes:
    """Return a schema as JSON; raises ``ValueError`` where it is out of bounds."""
    bounds.check(schema)
    return schema_text(schema).encode()


def without_schema(tool: Tool) -> Tool:
    """Return a tool that takes any object."""
    return replace(tool, parameters={"type": "object", "additionalProperties": True})


def schemas_of(request: GenerationRequest) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the schemas that may constrain an answer, each with its field."""
    if (schema := _constraint_schema(request)) is not None:
        yield SCHEMA_FIELD, schema
    if may_call(request):
        for tool in request.tools:
            yield parameters_field(tool), arguments_schema(tool)


def _constraint_schema(request: GenerationRequest) -> Mapping[str, Any] | None:
    constraint = request.constraint
    is_schema = constraint is not None and constraint.text_form is None
    return answer_schema(constraint) if constraint is not None and is_schema else None


def parameters_field(tool: Tool) -> str:
    """Return the field of a tool's schema: by name, because a dialect may leave out tools."""
    return f"tools.{tool.name}.parameters"


def text_form_of(request: GenerationRequest) -> TextForm | None:
    """Return the form other than JSON that constrains an answer; None if there is none."""
    return None if request.constraint is None else request.constraint.text_form


def form_field(request: GenerationRequest) -> str:
    """Return the field of a request that asks for a form."""
    return "constraint" if request.tool_choice.mode != "required" else "tool_choice"


def is_same_form(request: GenerationRequest, other: GenerationRequest) -> bool:
    """Return whether two requests share the objects that decide their grammar."""
    return (
        request.constraint is other.constraint
        and request.tools is other.tools
        and request.tool_choice == other.tool_choice
        and request.allows_more_keys is other.allows_more_keys
        and request.cache_owner == other.cache_owner
    )
