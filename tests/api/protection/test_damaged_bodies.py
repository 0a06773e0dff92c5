"""Requests that are damaged at random are answered or refused, and never fail or end the server."""

import json
import random
from collections.abc import Iterator

import pytest

from tests.api.conftest import SCRIPTS, Site, acting
from tests.api.dialects.documented import ASKED
from tests.api.dialects.test_documented_requests import FORMS
from tests.api.questions import INNER, PATHS, question
from tests.support.attacks.damage import damaged
from tests.support.random_cases import cases
from tests.support.scripted import Stage

_SAMPLING = {"temperature": 0.5, "top_p": 0.9, "top_k": 5, "seed": 5}


def bodies(path: str) -> list[str]:
    found = [*ASKED[path], *FORMS.get(path, [])]
    if path in PATHS:
        ids = {} if path in INNER else {"stop_token_ids": [5]}
        found.append(question(path, "Hi", 4, stop=["END"], **_SAMPLING) | ids)
    return [json.dumps({"model": "m", **body}) for body in found]


@pytest.fixture(scope="module")
def small_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with acting(Stage(tmp_path_factory.mktemp("scripted"), SCRIPTS, context=1_000)) as (site, _):
        yield site


@pytest.mark.parametrize("path", ASKED)
def test_damaged_request_is_answered_or_refused(small_site: Site, path: str) -> None:
    draws = random.Random(path)
    sound = [body for body in bodies(path) if '"think": true' not in body]  # it cannot think
    for body in sound:
        assert small_site.send("POST", path, body.encode()).status == 200, body
    for _ in range(cases(25)):
        body = damaged(draws, draws.choice(sound))
        assert small_site.send("POST", path, body).status < 500, body[:500]
