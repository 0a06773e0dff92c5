"""Whatever is posted to a route: no 5xx, every error in its envelope, and the engine lives on."""

import copy
import http.client
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.server.routes import ROUTES
from engine.values.request import Limits
from tests.support.attacks.request_bodies import BODIES, MORE_BODIES
from tests.support.random_cases import cases

pytestmark = pytest.mark.long

EXAMPLES = cases(120)
EVERY_BODY = [*sorted(BODIES.items()), *MORE_BODIES]

WORDS = st.sampled_from(
    ["", "text", "type", "role", "user", "tool", "json_object", "json_schema", "required", "END"]
)
ODD_NUMBERS = st.sampled_from([0, -1, 2**31, 2**63, -(2**63), 2**64, 10**30, 0.0, -0.0, 1e308])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | ODD_NUMBERS | WORDS | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(WORDS | st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
RAW = st.binary(max_size=40) | st.sampled_from(
    [b"NaN", b'{"model": Infinity}', b"[" * 100_000, b'{"a":' * 5_000, b'"\\ud800"', b"1" * 5_000]
)


def places_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of everything inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, item in items:
        found.append((*path, key))
        if isinstance(item, dict | list):
            found += places_in(item, (*path, key))
    return found


@st.composite
def bodies(draw: st.DrawFn) -> tuple[str, bytes]:
    """Draw a path and a body: a correct one with up to three changes, any JSON, or any bytes."""
    path, right = draw(st.sampled_from(EVERY_BODY))
    kind = draw(st.sampled_from(["changed"] * 8 + ["any", "raw"]))
    if kind == "raw":
        return path, draw(RAW)
    if kind == "any":
        return path, json.dumps(draw(VALUES)).encode()
    body = copy.deepcopy(right)
    for _ in range(draw(st.integers(1, 3))):
        places = places_in(body)
        if not places:
            break
        *parents, last = draw(st.sampled_from(places))
        at: Any = body
        for key in parents:
            at = at[key]
        if draw(st.integers(0, 4)) == 0:
            del at[last]
        else:
            at[last] = draw(VALUES)
    return path, json.dumps(body).encode()


def check_envelope(path: str, body: Any) -> None:
    """Check the shape of an error."""
    if path.startswith("/v1/messages"):
        assert body["type"] == "error"
        assert body["error"].keys() >= {"type", "message"}
    elif path.startswith("/v1/"):
        assert body["error"].keys() == {"message", "type", "param", "code"}
    elif path.startswith("/api/"):
        assert body.keys() == {"error"}
        assert isinstance(body["error"], str)
    else:
        assert isinstance(body["error"]["message"], str)


def test_every_route_with_a_body_is_tried() -> None:
    assert BODIES.keys() == {route.path for route in ROUTES if route.request is not None}


def test_the_unchanged_bodies_are_accepted(staged: Callable[..., Any]) -> None:
    site = staged(step_s=0).site

    for path, body in EVERY_BODY:
        reply = site.send("POST", path, body)
        assert reply.status == 200, (path, body, reply.body)


def test_no_body_breaks_the_server(staged: Callable[..., Any]) -> None:
    stage = staged(Limits(max_waiting=1000), step_s=0, context=4096)
    site = stage.site
    connection = http.client.HTTPConnection(site.host, site.address.port, timeout=30)
    statuses: dict[int, int] = {}

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(bodies())
    def holds(sent: tuple[str, bytes]) -> None:
        path, body = sent
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        statuses[response.status] = statuses.get(response.status, 0) + 1
        assert response.status < 500, answer
        if response.status != 200:
            check_envelope(path, json.loads(answer))
        else:
            assert b"internal error" not in answer

    try:
        holds()
    finally:
        connection.close()
    # If all or none were accepted, the test would prove nothing.
    assert statuses[200] > EXAMPLES // 50
    assert statuses[400] > EXAMPLES // 5
    assert stage.wait_until_idle()
    ask = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    assert site.send("POST", "/v1/messages", ask).json["content"][0]["text"] == "Hello"
