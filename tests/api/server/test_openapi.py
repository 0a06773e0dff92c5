"""The OpenAPI document of the routes."""

import re
from typing import Any

from openapi_spec_validator import validate

from api.server.routes import ROUTES


def test_openapi_document_is_valid_and_has_every_route(site: Any) -> None:
    document = site.send("GET", "/openapi.json").json

    validate(document)
    listed = {
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    }
    assert listed == {
        (route.method, re.sub(r"\{(\w+):.*?\}", r"{\1}", route.path)) for route in ROUTES
    }
