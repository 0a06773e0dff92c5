"""Regular expressions, choices and grammars, as each vendor's requests spell them."""

import re
from typing import Any

import pytest

PATTERN = "[A-C]{3}-[0-9]{2}"
GBNF = 'root ::= "ab" [0-9]\n'
CHOICES = ["yes", "no, never"]
MESSAGES = [{"role": "user", "content": "Say: hello"}]
SPELLINGS: dict[str, tuple[dict[str, Any], str]] = {
    "guided_regex": ({"guided_regex": PATTERN}, PATTERN),
    "guided_choice": ({"guided_choice": CHOICES}, "yes|no, never"),
    "structured regex": ({"structured_outputs": {"regex": PATTERN}}, PATTERN),
    "SGLang's regex": ({"regex": PATTERN}, PATTERN),
    "llama.cpp's grammar": ({"grammar": GBNF}, "ab[0-9]"),
}
ROUTES = {
    "/v1/chat/completions": {"messages": MESSAGES},
    "/v1/completions": {"prompt": "Hi"},
    "/v1/responses": {"input": "Hi"},
}


def texts(path: str, answer: Any) -> str:
    if path == "/v1/responses":
        return str(answer["output"][-1]["content"][0]["text"])
    choice = answer["choices"][0]
    return str(choice["message"]["content"] if "message" in choice else choice["text"])


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("name", SPELLINGS)
def test_each_spelling_constrains_the_answer(site: Any, path: str, name: str) -> None:
    fields, pattern = SPELLINGS[name]
    reply = site.send("POST", path, {"model": "m", **ROUTES[path], **fields})
    assert reply.status == 200, reply.body
    assert re.fullmatch(pattern, texts(path, reply.json))


@pytest.mark.parametrize(
    ("sampling", "pattern"),
    [({"regex": PATTERN}, PATTERN), ({"ebnf": GBNF}, "ab[0-9]")],
    ids=["regex", "ebnf"],
)
def test_generate_constrains_the_answer(site: Any, sampling: dict[str, Any], pattern: str) -> None:
    reply = site.send("POST", "/generate", {"text": "Hi", "sampling_params": sampling})
    assert reply.status == 200, reply.body
    assert re.fullmatch(pattern, reply.json["text"])


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"guided_regex": "(?=a)b"}, "guided_regex"),
        ({"structured_outputs": {"regex": "(open"}}, "structured_outputs.regex"),
        ({"structured_outputs": {"choice": [""]}}, "structured_outputs.choice"),
        ({"guided_choice": "yes"}, "guided_choice"),
        ({"grammar": "no grammar"}, "grammar"),
        ({"ebnf": "start: <[1]>"}, "ebnf"),
        ({"guided_regex": "a", "grammar": GBNF}, "grammar"),
        ({"guided_regex": "a", "guided_json": {"type": "object"}}, "guided_regex"),
    ],
)
def test_an_invalid_constraint_is_refused_by_the_requests_own_field(
    site: Any, path: str, fields: dict[str, Any], param: str
) -> None:
    reply = site.send("POST", path, {"model": "m", **ROUTES[path], **fields})
    assert reply.status == 400
    assert reply.json["error"]["param"] == param
