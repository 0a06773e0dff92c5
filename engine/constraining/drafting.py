"""Drafts the forms of answers: checks that a request's schemas keep within bounds. Any thread.

Takes some ten milliseconds at most; nothing is compiled here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from engine.constraining.grammars import answer_schema, arguments_schema, may_call, schema_text
from engine.constraining.schema_bounds import Bounds
from engine.constraining.text_forms import check_bounds, field_of, fingerprint
from engine.errors import InvalidRequest
from engine.values.request import GenerationRequest, TextForm


@dataclass(frozen=True, slots=True)
class FormDraft:
    """A request whose schemas or other form keep within the bounds."""

    request: GenerationRequest
    digest: bytes


def draft_of(request: GenerationRequest, last: FormDraft | None = None) -> FormDraft:
    """Return the draft of a constrained request."""
    if last is not None and is_same_form(last.request, request):
        return last
    bounds = Bounds()
    digest = sha256()
    owner = request.cache_owner.name
    digest.update(f"{owner}\0{request.tool_choice} {request.allows_more_keys}".encode())
    for field, schema in schemas_of(request):
        try:
            bounds.check(schema)
            digest.update(f"\0{field}\0{schema_text(schema)}".encode())
        except ValueError as error:
            raise InvalidRequest(field, str(error)) from error
    if (form := text_form_of(request)) is not None:
        try:
            check_bounds(form)
        except ValueError as error:
            raise InvalidRequest(field_of(form), str(error)) from error
        digest.update(fingerprint(form).encode())
    # Without the conversation, which may be long and does not matter here.
    return FormDraft(replace(request, messages=(), prompt=None, prediction=None), digest.digest())


def schemas_of(request: GenerationRequest) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the schemas that may constrain an answer, each with its field."""
    if request.constraint is not None and request.constraint.text_form is None:
        yield "constraint.json_schema", answer_schema(request.constraint)
    if may_call(request):
        # By name, not by index: a dialect may have left out tools of other kinds.
        for tool in request.tools:
            yield f"tools.{tool.name}.parameters", arguments_schema(tool)


def text_form_of(request: GenerationRequest) -> TextForm | None:
    """Return the form other than JSON that constrains an answer; None if there is none."""
    return None if request.constraint is None else request.constraint.text_form


def form_field(request: GenerationRequest) -> str:
    """Return the field of a request that asks for a form."""
    return "constraint" if request.tool_choice.mode != "required" else "tool_choice"


def is_same_form(one: GenerationRequest, other: GenerationRequest) -> bool:
    """Return whether two requests share the objects that decide their grammar."""
    return (
        one.constraint is other.constraint
        and one.tools is other.tools
        and one.tool_choice == other.tool_choice
        and one.allows_more_keys is other.allows_more_keys
        and one.cache_owner == other.cache_owner
    )
