"""Requests that the OpenAPI document allows or forbids, sent to a real server with a real model.

Schemathesis draws the requests from the document alone, the same ones every time."""

from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api.server.openapi import document
from api.server.routes import ROUTES, Route
from tests.support.random_cases import cases

EXAMPLES = cases(100)
SCHEMA = schemathesis.openapi.from_dict(
    document(ROUTES),
    config=SchemathesisConfig.from_dict({"generation": {"with-security-parameters": False}}),
)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
# The parts of a request that can be wrong: the body, or a name in the path.
ASKED = [route for route in ROUTES if route.request is not None or "{" in route.path]
PER_MODE = max(2, EXAMPLES // (2 * len(ASKED)))

FEW = 3
# The field of each dialect's limit; without a limit the model would write for minutes.
LIMITS = {
    "/v1/messages": ("max_tokens",),
    "/v1/chat/completions": ("max_completion_tokens", "max_tokens"),
    "/v1/completions": ("max_tokens",),
    "/v1/responses": ("max_output_tokens",),
    "/generate": ("max_new_tokens",),
    "/api/chat": ("num_predict",),
    "/api/generate": ("num_predict",),
}
# A request that each dialect accepts for certain: all drawn ones may be refused.
_ASK = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
PLAIN: dict[str, dict[str, Any]] = {
    "/v1/messages": _ASK | {"max_tokens": FEW},
    "/v1/chat/completions": _ASK | {"max_tokens": FEW},
    "/v1/completions": {"model": "m", "prompt": "Hi", "max_tokens": FEW},
    "/v1/responses": {"model": "m", "input": "Hi", "max_output_tokens": FEW},
    "/generate": {"text": "Hi", "sampling_params": {"max_new_tokens": FEW}},
    "/api/chat": _ASK | {"options": {"num_predict": FEW}},
    "/api/generate": {"model": "m", "prompt": "Hi", "options": {"num_predict": FEW}},
}
NESTED = {"/generate": "sampling_params", "/api/chat": "options", "/api/generate": "options"}


def bounded(path: str, body: Any) -> Any:
    """Return a body that is as valid or invalid as before, but asks for few tokens."""
    if path in NESTED and isinstance(body, dict):
        inner = body.get(NESTED[path], {})
        if isinstance(inner, list):
            return {**body, NESTED[path]: [_bounded(path, one) for one in inner]}
        return {**body, NESTED[path]: _bounded(path, {} if inner is None else inner)}
    return _bounded(path, body)


def _bounded(path: str, body: Any) -> Any:
    if not isinstance(body, dict):
        return body
    few: dict[str, Any] = {}
    for name in LIMITS.get(path, ()):
        wanted = body.get(name)
        if wanted is None or (type(wanted) is int and not 0 < wanted <= FEW):
            few[name] = FEW if wanted is None or wanted > 0 or path in NESTED else wanted
    if type(body.get("n")) is int:
        few["n"] = min(body["n"], 2)
    return {**body, **few}


@pytest.mark.parametrize(
    ("route", "mode"),
    [
        pytest.param(route, mode, id=f"{route.method} {route.path}-{mode.value}")
        for route in ASKED
        for mode in GenerationMode
        # Any text is a name, so no path is wrong.
        if route.request is not None or mode is GenerationMode.POSITIVE
    ],
)
def test_a_request_with_a_body_is_answered_as_documented(
    site: Any, route: Route, mode: GenerationMode
) -> None:
    statuses: set[int] = set()
    with requests.Session() as session:

        @settings(
            max_examples=PER_MODE,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        @given(SCHEMA[route.path][route.method].as_strategy(generation_mode=mode))
        def holds(case: Any) -> None:
            case.body = bounded(route.path, case.body)
            response = case.call(base_url=site.url, session=session, timeout=60)
            statuses.add(response.status_code)
            if response.status_code != 200:
                assert response.json()["error"]
            case.validate_response(response, checks=CHECKS)

        holds()
    # If all or none were accepted, the test would prove nothing.
    if mode is GenerationMode.NEGATIVE:
        assert 400 in statuses
    elif route.path in PLAIN:
        case = SCHEMA[route.path][route.method].Case(body=PLAIN[route.path])
        response = case.call(base_url=site.url, timeout=60)
        assert response.status_code == 200
        case.validate_response(response, checks=CHECKS)
    ask = {"model": "m", "max_tokens": 2, "messages": [{"role": "user", "content": "Hi"}]}
    assert site.send("POST", "/v1/messages", ask).json["usage"]["output_tokens"] > 0


@pytest.mark.parametrize(
    "route",
    [route for route in ROUTES if route not in ASKED],
    ids=lambda route: f"{route.method} {route.path}",
)
def test_a_request_without_parameters_is_answered_as_documented(site: Any, route: Route) -> None:
    case = SCHEMA[route.path][route.method].Case()

    case.validate_response(case.call(base_url=site.url, timeout=60), checks=CHECKS)
