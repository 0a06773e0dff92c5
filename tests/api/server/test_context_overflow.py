"""A prompt beyond the context is reported in each vendor's words, for which their clients look."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from api.service.errors import ContextOverflow
from tests.api.conftest import SCRIPTS, Site, acting
from tests.api.dialects.asking import ROUTES, encoder
from tests.api.questions import RAW_PATHS, question
from tests.support.scripted import Stage

CONTEXT = 64
CHAT_WORDS = (
    f"This model's maximum context length is {CONTEXT} tokens. However, your messages resulted in "
    "{n} tokens. Please reduce the length of the messages. (context_length_exceeded)"
)
OPENAI = {"type": "invalid_request_error", "code": "context_length_exceeded"}
STREAMED = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])


# For each route: the error for n tokens.
SAID: dict[str, Callable[[int], dict[str, Any]]] = {
    "/v1/messages": lambda n: {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": f"prompt is too long: {n} tokens > {CONTEXT} maximum",
        },
    },
    "/v1/chat/completions": lambda n: {
        "error": OPENAI | {"message": CHAT_WORDS.format(n=n), "param": "messages"}
    },
    "/v1/completions": lambda n: {
        "error": OPENAI | {"message": CHAT_WORDS.format(n=n), "param": "prompt"}
    },
    "/v1/responses": lambda n: {
        "error": OPENAI | {"message": CHAT_WORDS.format(n=n), "param": "input"}
    },
    "/generate": lambda n: {
        "error": {
            "message": f"The input ({n} tokens) is longer than the model's context length "
            f"({CONTEXT} tokens).",
            "type": "invalid_request",
            "param": "text",
            "code": 400,
        }
    },
    "/api/chat": lambda n: {
        "error": f"prompt too long; exceeded max context length by {n - CONTEXT} tokens"
    },
    "/api/generate": lambda n: {
        "error": f"prompt too long; exceeded max context length by {n - CONTEXT} tokens"
    },
}
# The tokens that the scripted model's template adds to a question: two tags and "user:".
AROUND = 8


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with acting(Stage(tmp_path_factory.mktemp("small"), SCRIPTS, context=CONTEXT)) as (site, _):
        yield site


def sent(site: Site, path: str, letters: int, is_streamed: bool) -> Any:
    text = "x" * letters
    return site.send("POST", path, question(path, text, 8, raw=text) | {"stream": is_streamed})


@STREAMED
@pytest.mark.parametrize("letters", [200, 30_000], ids=["beyond", "far beyond"])
@pytest.mark.parametrize("path", SAID)
def test_every_dialect_reports_it_in_its_vendors_words(
    small: Site, path: str, letters: int, is_streamed: bool
) -> None:
    reply = sent(small, path, letters, is_streamed)
    body = reply.json
    body.pop("request_id", None)

    assert reply.status == 400
    assert reply.headers["x-should-retry"] == "false"
    assert body == SAID[path](letters + (0 if path in RAW_PATHS else AROUND))


@pytest.mark.parametrize("api", ROUTES)
def test_stream_that_has_begun_reports_it_in_its_vendors_words(api: str) -> None:
    path = ROUTES[api].path
    said = SAID[path](200)["error"]
    text = said if isinstance(said, str) else said["message"]
    field = "prompt" if path == "/v1/completions" else "input"
    frames = "".join(encoder(api).fail(ContextOverflow((field,), 200, CONTEXT)))

    assert text in frames
    if path.startswith(("/v1/chat", "/v1/completions", "/v1/responses")):
        assert '"code":"context_length_exceeded"' in frames.replace('": "', '":"')
