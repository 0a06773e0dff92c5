"""The grammar of a whole answer, as llguidance reads it, from the form that a request demands."""

from collections.abc import Mapping, Sequence
from typing import Any

from engine.errors import InvalidRequest
from engine.grammar.call_parameters import ParameterRules
from engine.grammar.forced_calls import ForcedCall, forced_call
from engine.grammar.lark_text import Spell
from engine.grammar.schemas import as_rule, prepare_schema
from engine.grammar.text_forms import document_rules, with_own_grammar
from engine.output.families import Family
from engine.values.request import GenerationRequest, OutputConstraint, Tool

# ``masks.TokenConstraint`` finds forced tokens itself: the library would also force special tokens
# whose names occur in a schema as text, and these do not fit.
_OPTIONS = '%llguidance {"no_forcing": true}'

_SCHEMA_FIELD = "constraint.json_schema"
# OpenAI's SDK sends ``strict: true`` with every pydantic model, and a set takes an array in which
# items repeat: this keyword is left out and named even where a strict schema is refused.
_TOLERATED = ".uniqueItems"
_DESCRIBING = frozenset(
    {"properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "allOf",
     "anyOf", "oneOf", "$ref"}
)  # fmt: skip


def may_call(request: GenerationRequest) -> bool:
    """Return whether a constrained answer can be a tool call."""
    choice = request.tool_choice.mode
    return choice == "required" or (choice == "auto" and bool(request.tools))


def answer_grammar(
    request: GenerationRequest, family: Family, spell: Spell
) -> tuple[str, tuple[str, ...]]:
    """Return the grammar of a constrained request's answer, and the keywords that it leaves out.

    Where the model may choose, the grammar allows the text and a call; where a call is required, it
    allows only calls.
    """
    rules = _Rules(family, spell, allows_more_keys=request.allows_more_keys)
    if request.tool_choice.mode == "required":
        return rules.grammar(None, _callable_tools(request)), tuple(rules.left_out)
    constraint = request.constraint
    assert constraint is not None
    whole = rules.grammar(constraint, request.tools if may_call(request) else ())
    return with_own_grammar(whole, constraint.text_form), tuple(rules.left_out)


def schema_grammar(schema: Mapping[str, Any], *, allows_more_keys: bool = False) -> str:
    """Return the grammar of one schema alone."""
    prepared, _ = prepare_schema(schema, allows_more_keys=allows_more_keys)
    return f"start: {as_rule(prepared)}\n"


def constraint_field(request: GenerationRequest) -> str:
    """Return the engine's name of the field that a grammar which does not compile comes from."""
    constraint = request.constraint
    if constraint is None or request.tool_choice.mode == "required":
        return "tool_choice"
    if (form := constraint.text_form) is None:
        return _SCHEMA_FIELD
    if form.regex is not None:
        return "constraint.regex"
    return "constraint.choices" if form.choices else "constraint.grammar"


def arguments_schema(tool: Tool) -> Mapping[str, Any]:
    """Return the schema of a tool's arguments, which are always an object.

    A tool that describes no argument takes none.
    """
    described: dict[str, Any] = {} if tool.parameters.keys() & _DESCRIBING else {"properties": {}}
    return {**described, **tool.parameters, "type": "object"}


def _callable_tools(request: GenerationRequest) -> Sequence[Tool]:
    name = request.tool_choice.name
    if not request.tools:
        raise InvalidRequest("tool_choice", "a call is required, but there are no tools")
    if name is None:
        return request.tools
    named = [tool for tool in request.tools if tool.name == name]
    if not named:
        known = ", ".join(tool.name for tool in request.tools)[:200]
        raise InvalidRequest(
            "tool_choice", f"there is no tool {name[:200]!r}; the tools are: {known}"
        )
    return named


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
            heads = " | ".join(map(self._spell, self._family.answer_heads))
            rules.append(f"answer: {f'({heads})' if heads else ''} document")
            rules.extend(self._document(constraint))
        for number, tool in enumerate(tools):
            choices.append(f"call{number}")
            try:
                call = forced_call(self._family, tool.name, self._spell)
            except ValueError as error:
                field = "tool_choice" if constraint is None else "constraint"
                raise InvalidRequest(field, str(error)) from error
            rules += self._call(number, tool, call)
        start = f"start: {self._reasoning(rules)}({' | '.join(choices)})"
        return "\n".join([_OPTIONS, start, *rules, ""])

    def _call(self, number: int, tool: Tool, call: ForcedCall) -> list[str]:
        field = parameters_field(tool)
        schema = self._prepared(arguments_schema(tool), field)
        call_format = self._family.call_format
        if call_format is None or not call.json_head:
            return [
                f"call{number}: {call.before} arguments{number} {call.after}",
                f"arguments{number}: {as_rule(schema)}",
            ]
        parameters = ParameterRules(call_format, call, self._spell, number)
        rules = list(parameters.write(f"call{number}", schema))
        self.left_out += (
            f"{field}.{keyword}".rstrip(".") for keyword in dict.fromkeys(parameters.left_out)
        )
        return rules

    def _document(self, constraint: OutputConstraint) -> list[str]:
        if constraint.text_form is not None:
            return document_rules(constraint.text_form)
        schema = {"type": "object"} if constraint.json_schema is None else constraint.json_schema
        held = self._prepared(schema, _SCHEMA_FIELD)
        refused = [keyword for keyword in self.left_out if not keyword.endswith(_TOLERATED)]
        if constraint.is_strict and refused:
            keyword = refused[0].removeprefix(f"{_SCHEMA_FIELD}.")
            raise InvalidRequest(
                _SCHEMA_FIELD,
                f"{keyword} cannot be enforced; leave it out, or send strict: false, and "
                "the answer is held to the rest",
            )
        return [f"document: {as_rule(held)}"]

    def _prepared(self, schema: Mapping[str, Any], field: str) -> dict[str, Any]:
        held, left_out = prepare_schema(schema, allows_more_keys=self._allows_more_keys)
        self.left_out += (f"{field}.{keyword}" for keyword in left_out)
        return held

    def _reasoning(self, rules: list[str]) -> str:
        """Add the rules of reasoning where it is a message of its own."""
        frame = self._family.reasoning_frame
        if frame is None:
            return ""
        before, after = map(self._spell, frame)
        rules.append(f"reasoning: {before} PROSE {after}")
        rules.append(r"PROSE: /(.|\n)*/")
        return "reasoning? "


def parameters_field(tool: Tool) -> str:
    """Return the field of a tool's schema: by name, because a dialect may leave out tools."""
    return f"tools.{tool.name}.parameters"


def form_field(request: GenerationRequest) -> str:
    """Return the field of a request that asks for a form."""
    return "constraint" if request.tool_choice.mode != "required" else "tool_choice"
