"""The OpenAPI 3.1 document, made from the routes and the types of their bodies and answers.

Making it takes some 200 ms; any thread.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from api.dialects.openai.chat import CHAT
from api.dialects.shared.dialect import Dialect, Route
from api.service.errors import ApiError, ErrorKind

# The type of a body, and whether the server reads it or writes it.
_Used = tuple[Any, JsonSchemaMode]
_References = Mapping[_Used, Any]
_REFERENCES = "#/components/schemas/{model}"
_SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}


def document(table: Sequence[tuple[Dialect | None, Route]]) -> dict[str, Any]:
    """Return the document of a table of routes, each with its dialect."""
    used = dict.fromkeys(type_ for row in table for type_ in _types_of(*row))
    references, definitions = TypeAdapter.json_schemas(
        [(type_, mode, TypeAdapter(type_)) for type_, mode in used],
        ref_template=_REFERENCES,
    )
    paths: dict[str, dict[str, Any]] = {}
    for dialect, route in table:
        operations = paths.setdefault(route.path, {})
        operations[route.method.lower()] = _operation(dialect, route, references)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fullstop",
            "version": version("fullstop-chat"),
            "description": "One local model behind several APIs; each says in its own way why an "
            "answer ended.",
        },
        "paths": paths,
        "components": {"schemas": definitions.get("$defs", {}), "securitySchemes": _SECURITY},
    }


def _types_of(dialect: Dialect | None, route: Route) -> Iterator[_Used]:
    if route.request is not None:
        yield route.request, "validation"
    for model in (route.answer, *route.other_answers.values()):
        if model is not None:
            yield model, "serialization"
    yield (dialect or CHAT).error_type, "serialization"


def _operation(dialect: Dialect | None, route: Route, references: _References) -> dict[str, Any]:
    # The server's own routes answer requests that show no dialect with the errors of Chat
    # Completions.
    errors = dialect or CHAT
    responses = {"200": _success(route, references)}
    for status, model in route.other_answers.items():
        content = _json(references[model, "serialization"])
        responses[str(status)] = {"description": HTTPStatus(status).phrase, "content": content}
    failure = ApiError(ErrorKind.INTERNAL, "what went wrong")
    _, example = errors.render_error(failure, "req_0123456789abcdef")
    error = _json(references[errors.error_type, "serialization"], example=example)
    about = "What went wrong, in the dialect's own envelope"
    operation: dict[str, Any] = {
        "operationId": "_".join(
            [route.method.lower(), *(re.findall(r"[A-Za-z0-9]+", route.path) or ["root"])]
        ),
        "summary": route.summary,
        "tags": ["Server" if dialect is None else dialect.name],
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"{(\w+)}", route.path)
        ],
        "responses": {**responses, "default": {"description": about, "content": error}},
    }
    if route.request is not None:
        content = _json(references[route.request, "validation"])
        operation["requestBody"] = {"required": True, "content": content}
    if route.needs_key:
        # The server asks for a key only if it has one.
        operation["security"] = [{}, *({name: []} for name in _SECURITY)]
    return operation


def _success(route: Route, references: _References) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if route.answer is not None:
        content = _json(references[route.answer, "serialization"])
    if route.media_type is not None:
        # No schema: tools disagree whether it would describe a whole stream or one event.
        content[route.media_type.partition(";")[0]] = {}
    return {"description": "The answer"} | ({"content": content} if content else {})


def _json(schema: Any, **more: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema, **more}}
