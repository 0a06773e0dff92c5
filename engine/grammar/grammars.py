"""The grammar of a whole answer, as llguidance reads it, from what a request asks for."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any

from engine.errors import InvalidRequest
from engine.grammar.call_formats import JsonFrame, ParameterFormat, call_format
from engine.grammar.call_parameters import ParameterRules
from engine.grammar.lark_text import Spell, in_slashes, quoted, spelled_marks
from engine.grammar.schema_bounds import MAX_CHARACTERS, Bounds, pointed_at
from engine.grammar.schema_support import Enforceable, enforceable
from engine.output.families import Family
from engine.values.request import GenerationRequest, OutputConstraint, TextForm, Tool
from engine.wording import counted

# Checks their bounds, and writes them as rules of llguidance's Lark dialect
# (https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md).

MAX_REGEX_CHARACTERS = 16_384
MAX_GRAMMAR_CHARACTERS = 65_536
MAX_CHOICES = 10_000
MAX_CHOICE_CHARACTERS = 128 * 1024
SCHEMA_FIELD = "constraint.json_schema"
# The name of a request's own grammar within the grammar of the whole answer.
OWN_GRAMMAR = "own"

# Texts, regular expressions and comments of Lark, which may contain anything.
_QUOTED = re.compile(r'"(?:\\.|[^"\\\n])*"|/(?!/)(?:\\.|[^/\\\n])+/|//[^\n]*|#[^\n]*')
_SPECIAL_TOKEN = re.compile(r"<[^<>\n]*>")
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
    return lark


def _texts(form: TextForm) -> tuple[str, ...]:
    if form.regex is not None:
        return (form.regex,)
    return form.choices or ((form.grammar or ""),)


# JSON Schema allows any further keys where ``additionalProperties`` is absent, and a model that
# is constrained by such a schema may add keys until it reaches a limit. Objects for which the
# schema itself decides about further keys stay as they are. A schema that names no key at all
# stands for any object.
#
# Differences from JSON Schema (https://json-schema.org/draft/2020-12/json-schema-core), all of
# them stricter: an object without ``additionalProperties`` (or ``unevaluatedProperties``) has the
# keys of its ``properties``, ``patternProperties`` and ``required`` only. Parts that are combined
# (``allOf``, ``$ref`` with siblings, ``anyOf`` and ``oneOf`` beside ``properties``) may each use
# the keys of the others.

Schema = Any
"""A JSON schema: an object, true or false."""

# Closing a schema with more parts, or with alternatives that repeat more keys, takes too long.
_MAX_PARTS = 10_000
# How many references may follow one another in the same place.
_DEEPEST = 100
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("prefixItems", "items")
_SINGLES = ("items", "additionalItems", "unevaluatedItems", "additionalProperties")
_CHOICES = ("anyOf", "oneOf")
_NAMING = ("properties", "patternProperties")
_DEFINITIONS = ("$defs", "definitions")
_ABOUT_OBJECTS = frozenset({"properties", "patternProperties", "required", "allOf", *_CHOICES})
_SAYS_MORE = frozenset({"additionalProperties", "unevaluatedProperties"})
_POINTER = re.compile(r"#(?:/.*)?")

_Names = tuple[str, ...]


def closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema whose objects have only the keys that it names."""
    whole: dict[str, Any] = _Closer(schema).close(schema)
    return whole


@dataclass
class _Keys:
    """The keys that the combined parts of an object name, in their order."""

    names: dict[str, int] = field(default_factory=dict)
    patterns: dict[str, None] = field(default_factory=dict)
    is_open: bool = False

    def add(self, part: Mapping[str, Any]) -> None:
        """Add the keys that one part names."""
        for name in _named(part):
            self.names[name] = self.names.get(name, 0) + 1
        self.patterns.update(dict.fromkeys(_mapping(part, "patternProperties")))
        self.is_open |= any(part.get(key, False) is not False for key in _SAYS_MORE)

    @property
    def shared(self) -> frozenset[str]:
        """The names that occur in more than one part."""
        return frozenset(name for name, count in self.names.items() if count > 1)


class _Closer:
    """Closes one document."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = _MAX_PARTS

    def close(self, node: Schema, extra: _Names = ()) -> Schema:
        """Return a part with its objects closed."""
        self._count(1 + len(extra))
        if not isinstance(node, Mapping):
            return _only(extra) if node is True and extra else node
        if "allOf" in node:
            return self._close_sole(node, extra) or self._merge(node, extra)
        if "$ref" in node:
            if node.keys() & _ABOUT_OBJECTS:
                return self._merge(node, extra)
            target = self._target(node)
            if extra and target is not None:
                return self.close(target, extra)
            return self._with_definitions(node)
        choices = [key for key in _CHOICES if isinstance(node.get(key), list)]
        if len(choices) > 1:
            return self._merge(node, extra)
        inner = self._with_inner(node)
        if node.keys() & _SAYS_MORE:
            # The schema itself decides about further keys; the parts beside it stay as they are.
            return inner
        if choices:
            names = (*extra, *_named(node))
            inner[choices[0]] = [self.close(branch, names) for branch in node[choices[0]]]
        elif extra or any(isinstance(node.get(key), Mapping) for key in _NAMING):
            if not isinstance(node.get("properties", {}), Mapping):
                return inner
            allowed = dict.fromkeys((*_named(node), *extra), True)
            inner["properties"] = {**inner.get("properties", {}), **_without(allowed, node)}
            inner["additionalProperties"] = False
        return inner

    def _close_sole(self, node: Mapping[str, Any], extra: _Names) -> Schema | None:
        """Close an ``allOf`` of a single part, which is how some libraries write references."""
        parts = node["allOf"]
        is_sole = isinstance(parts, list) and len(parts) == 1
        if not is_sole or node.keys() & (_ABOUT_OBJECTS | _SAYS_MORE | {"$ref"}) - {"allOf"}:
            return None
        return {**self._with_inner(node), "allOf": [self.close(parts[0], extra)]}

    def _merge(self, node: Mapping[str, Any], extra: _Names) -> Schema:
        """Close parts that are combined; each may use the keys of all of them."""
        parts = list(self._parts(node))
        keys = _Keys()
        for part in parts:
            if part is None:
                return self._with_definitions(node)
            self._learn(keys, part)
        if keys.is_open:
            return self._with_definitions(node)
        shared = keys.shared
        own = self._opened(parts[0], shared)
        others = [self._opened(part, shared) for part in parts[1:] if part is not None]
        merged = {**own, **({"allOf": others} if others else {})}
        if keys.names or keys.patterns or extra:
            allowed = dict.fromkeys((*keys.names, *extra), True)
            properties = {**_mapping(merged, "properties")}
            merged["properties"] = {**properties, **_without(allowed, merged)}
            patterns = {**_mapping(merged, "patternProperties")}
            if keys.patterns:
                merged["patternProperties"] = {**dict.fromkeys(keys.patterns, True), **patterns}
            merged["additionalProperties"] = False
        return merged

    def _parts(self, node: Schema, depth: int = 0) -> Iterator[Mapping[str, Any] | None]:
        """Yield the parts that apply to the same value, this one first; None for unknown ones."""
        self._count()
        if not isinstance(node, Mapping):
            if node is not True:
                yield None
            return
        if depth > _DEEPEST:
            raise ValueError("it refers to itself without end")
        yield {key: value for key, value in node.items() if key not in ("allOf", "$ref")}
        if "$ref" in node:
            target = self._target(node)
            if target is None:
                yield None
            else:
                yield from self._parts(target, depth + 1)
        inner = node.get("allOf", [])
        for branch in inner if isinstance(inner, list) else [None]:
            yield from self._parts(branch, depth + 1)

    def _learn(self, keys: _Keys, part: Mapping[str, Any]) -> None:
        """Add the keys of a part and of its alternatives."""
        keys.add(part)
        for choice in _CHOICES:
            branches = part.get(choice)
            for branch in branches if isinstance(branches, list) else ():
                for inner in self._parts(branch):
                    if inner is None:
                        keys.is_open |= branch is not False
                    else:
                        self._learn(keys, inner)

    def _opened(self, part: Mapping[str, Any] | None, shared: frozenset[str]) -> dict[str, Any]:
        """Return a part whose own keys are open and whose values are closed.

        Values of keys that occur in several parts stay open: each would forbid the others' keys.
        """
        assert part is not None, "an unknown part is not opened"
        opened = self._with_inner(part)
        if shared and "properties" in opened:
            opened["properties"] = {
                name: part["properties"][name] if name in shared else value
                for name, value in opened["properties"].items()
            }
        for choice in _CHOICES:
            branches = part.get(choice)
            if isinstance(branches, list):
                opened[choice] = [self._opened_whole(branch, shared) for branch in branches]
        return opened

    def _opened_whole(self, branch: Schema, shared: frozenset[str]) -> Schema:
        if not isinstance(branch, Mapping):
            return branch
        own, *others = [self._opened(part, shared) for part in self._parts(branch)]
        return {**own, "allOf": others} if others else own

    def _with_definitions(self, node: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of a part in which only its definitions are closed."""
        return {**node, **self._with_inner({k: v for k, v in node.items() if k in _DEFINITIONS})}

    def _with_inner(self, node: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of a part in which the values below it are closed."""
        inner = dict(node)
        for key in _MAPS:
            if isinstance(value := node.get(key), Mapping):
                inner[key] = {name: self.close(inner_node) for name, inner_node in value.items()}
        for key in _LISTS:
            if isinstance(value := node.get(key), list):
                inner[key] = [self.close(inner_node) for inner_node in value]
        for key in _SINGLES:
            if isinstance(value := node.get(key), Mapping):
                inner[key] = self.close(value)
        return inner

    def _target(self, node: Mapping[str, Any]) -> Schema | None:
        """Return the target of a reference; None where it is not in this document."""
        reference = node["$ref"]
        if not isinstance(reference, str) or not _POINTER.fullmatch(reference):
            return None
        target = pointed_at(self._root, reference)
        if isinstance(target, Mapping) and target is self._root:
            # Its definitions stay where they are.
            return {key: value for key, value in target.items() if key not in _DEFINITIONS}
        return target

    def _count(self, parts: int = 1) -> None:
        self._left -= parts
        if self._left < 0:
            raise ValueError(f"it has more than {_MAX_PARTS} parts")


def _mapping(node: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = node.get(key)
    return value if isinstance(value, Mapping) else {}


def _named(node: Mapping[str, Any]) -> _Names:
    """Return the keys that a part names, required ones too."""
    required = node.get("required")
    listed = required if isinstance(required, list) else []
    listed = [name for name in listed if isinstance(name, str)]
    return tuple(dict.fromkeys((*_mapping(node, "properties"), *listed)))


def _without(allowed: Mapping[str, Any], node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that a part's properties do not describe."""
    known = _mapping(node, "properties")
    return {name: value for name, value in allowed.items() if name not in known}


def _only(names: _Names) -> dict[str, Any]:
    return {"properties": dict.fromkeys(names, True), "additionalProperties": False}


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


def is_own_form(request: GenerationRequest) -> bool:
    """Whether the grammar of an answer is ours: any JSON object, without a client's schema."""
    constraint = request.constraint
    if constraint is None or may_call(request):
        return False
    return constraint.json_schema is None and constraint.text_form is None


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
