"""Options of the chat template in requests of all APIs, as the demo model's template takes them."""

from typing import Any

import pytest

from tests.api.conftest import Site
from tests.api.questions import PATHS, question

TURNS = [{"role": "user", "content": "Count from 1 to 3"}]
HEADER = "x-fullstop-not-applied"


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("path", [path for path in PATHS if path != "/generate"])
def test_unknown_template_option_is_named_in_the_header(
    site: Site, path: str, is_streamed: bool
) -> None:
    body = question(path, "Hi", 3) | {"stream": is_streamed}
    body["chat_template_kwargs"] = {"no_such_word": 1}
    reply = site.send("POST", path, body)
    assert reply.status == 200
    assert reply.headers[HEADER] == "chat_template_kwargs.no_such_word"
    known = {**body, "chat_template_kwargs": {"enable_thinking": False}}
    is_raw = path == "/v1/completions"
    assert (HEADER in site.send("POST", path, known).headers) is is_raw


@pytest.mark.parametrize("path", ["/tokenize", "/v1/messages/count_tokens"])
def test_template_options_count_as_they_answer(site: Site, path: str) -> None:
    def count(**kwargs: Any) -> int:
        body = {"messages": TURNS, "thinking": None, "chat_template_kwargs": kwargs}
        found = site.send("POST", path, body).json
        return int(found.get("count") or found["input_tokens"])

    assert count(enable_thinking=True) != count(enable_thinking=False)
