"""Every dialect is complete: its value has all that the server, its logs and its documents need."""

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from api.dialects.shared.dialect import Dialect
from api.dialects.shared.encoding import json_text
from api.server import openapi
from api.server.routes import DIALECTS, TABLE
from api.service.errors import ApiError, ErrorKind

each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


@each_dialect
@pytest.mark.parametrize("kind", ErrorKind)
def test_every_error_has_a_status_and_a_message(dialect: Dialect, kind: ErrorKind) -> None:
    status, body = dialect.render_error(ApiError(kind, "is wrong", field=("a", 0)), "req_1")

    assert 400 <= status < 600
    assert "is wrong" in json_text(body)


def is_there(schema: dict[str, Any], parts: Sequence[str], schemas: dict[str, Any]) -> bool:
    """Whether a path leads to a field of a schema; an object without named fields has all."""
    if "$ref" in schema:
        return is_there(schemas[schema["$ref"].rpartition("/")[2]], parts, schemas)
    if "anyOf" in schema:
        return any(is_there(one, parts, schemas) for one in schema["anyOf"])
    if not parts:
        return True
    if "properties" not in schema:
        return schema.get("type") == "object"
    found = schema["properties"].get(parts[0])
    return found is not None and is_there(found, parts[1:], schemas)


@each_dialect
def test_an_error_names_a_field_as_the_request_spells_it(dialect: Dialect) -> None:
    document = openapi.document(TABLE)
    schemas = document["components"]["schemas"]
    bodies = [
        document["paths"][route.path]["post"]["requestBody"]["content"]["application/json"]
        for route in dialect.answers
    ]
    for ours, theirs in dialect.field_names.items():
        assert any(is_there(body["schema"], theirs.split("."), schemas) for body in bodies), (
            f"{ours} is called {theirs}, which no request of {dialect.name} has"
        )


def test_the_types_of_requests_load_without_a_web_framework() -> None:
    modules = {route.request.__module__ for dialect in DIALECTS for route in dialect.answers}
    code = (
        f"import sys, {', '.join(sorted(modules))}\n"
        "heavy = {'aiohttp', 'mlx', 'PySide6'} & sys.modules.keys()\n"
        "sys.exit(f'loads {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )

    assert done.returncode == 0, done.stderr
