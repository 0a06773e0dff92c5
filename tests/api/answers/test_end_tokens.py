"""An answer that ends at its template's end token says so in the record of every dialect."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import Site, acting
from tests.api.questions import PATHS, question
from tests.engine.inference.test_end_tokens import TURN_END, stage
from tests.support.scripted import GO, START

RAW = f"{START}user:go{TURN_END}\n{GO}"


@pytest.fixture(scope="module")
def healed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with acting(stage(tmp_path_factory.mktemp("healed"))) as (site, _):
        yield site


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("ignored", [False, True])
def test_end_token_of_the_template_ends_the_answer(healed: Site, path: str, ignored: bool) -> None:
    own = {"report": True, "ignore_template_eos": ignored}
    body = question(path, "go", 20, raw=RAW) | {"stream": False, "fullstop": own}
    answer = healed.send("POST", path, body).json
    stop = _report(answer)["stop"]
    assert stop["kind"] == "eos"
    assert stop["source"] == ("tokenizer" if ignored else "template")
    assert (stop["token_text"] == TURN_END) is not ignored


def test_server_that_ignores_template_ends_answers_on(tmp_path: Path) -> None:
    with acting(stage(tmp_path), ignore_template_eos=True) as (site, _):
        body = question("/v1/messages", "go", 20) | {"fullstop": {"report": True}}
        assert (
            _report(site.send("POST", "/v1/messages", body).json)["stop"]["source"] == "tokenizer"
        )


def _report(answer: Any) -> dict[str, Any]:
    if isinstance(answer, dict):
        if isinstance(answer.get("fullstop"), dict) and "stop" in answer["fullstop"]:
            return dict(answer["fullstop"])
        answer = list(answer.values())
    if isinstance(answer, list):
        for part in answer:
            if found := _report(part):
                return found
    return {}
