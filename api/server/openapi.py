"""The OpenAPI 3.1 document, made from the routes and the types of their bodies and answers.

Making it takes some 200 ms; any thread.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from aiohttp import web
from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from api.dialects.openai.chat import CHAT
from api.dialects.shared.answer_text import json_text
from api.dialects.shared.dialect import Dialect
from api.server.answering import Route, own_route
from api.service.errors import ApiError, ErrorKind

# The type of a body, and whether the server reads it or writes it.
_Used = tuple[Any, JsonSchemaMode]
_References = Mapping[_Used, Any]
_REFERENCES = "#/components/schemas/{model}"
_SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}
# The routes of the application.
TABLE: web.AppKey[Sequence[Route]] = web.AppKey("routes", Sequence)


@own_route("GET", "/openapi.json")
async def get_openapi(request: web.Request) -> web.StreamResponse:
    """These routes as an OpenAPI 3.1 document."""
    text = await asyncio.to_thread(_document_text, request.app)
    return web.Response(text=text, content_type="application/json")


@lru_cache(maxsize=1)
def _document_text(app: web.Application) -> str:
    return json_text(document(app[TABLE]))


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the document of a table of routes."""
    used = dict.fromkeys(type_ for route in routes for type_ in _types_of(route))
    references, definitions = TypeAdapter.json_schemas(
        [(type_, mode, TypeAdapter(type_)) for type_, mode in used],
        ref_template=_REFERENCES,
    )
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, references)
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


def _types_of(route: Route) -> Iterator[_Used]:
    if route.request is not None:
        yield route.request, "validation"
    for model in (route.answer, *route.other_answers.values()):
        if model is not None:
            yield model, "serialization"
    yield _dialect(route).error_type, "serialization"


def _dialect(route: Route) -> Dialect:
    """Return the dialect of a route's errors for requests that do not show their own."""
    return route.dialect if route.dialect is not None else CHAT


def _operation(route: Route, references: _References) -> dict[str, Any]:
    responses = {"200": _success(route, references)}
    for status, model in route.other_answers.items():
        content = _json(references[model, "serialization"])
        responses[str(status)] = {"description": HTTPStatus(status).phrase, "content": content}
    dialect, request_id = _dialect(route), "req_0123456789abcdef"
    _, example = dialect.render_error(ApiError(ErrorKind.INTERNAL, "what went wrong"), request_id)
    error = _json(references[dialect.error_type, "serialization"], example=example)
    about = "What went wrong, in the dialect's own envelope"
    operation: dict[str, Any] = {
        "operationId": "_".join(
            [route.method.lower(), *(re.findall(r"[A-Za-z0-9]+", route.path) or ["root"])]
        ),
        "summary": route.description,
        "tags": [route.dialect.name if route.dialect is not None else "Server"],
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
    elif route.media_type is not None:
        content[route.media_type] = {}
    if route.stream is not None:
        # No schema: tools disagree whether it would describe the whole body or one event.
        content[route.stream] = {}
    return {"description": "The answer"} | ({"content": content} if content else {})


def _json(schema: Any, **more: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema, **more}}
