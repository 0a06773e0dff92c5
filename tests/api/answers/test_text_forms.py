"""Regular expressions, choices and grammars, as each vendor's requests spell them."""

import re
from typing import Any

import pytest

from engine.grammar.masks import TokenConstraint

PATTERN = "[A-C]{3}-[0-9]{2}"
GBNF = 'root ::= "ab" [0-9]\n'
CHOICES = ["yes", "no, never"]
MESSAGES = [{"role": "user", "content": "Say: hello"}]
SPELLINGS: dict[str, tuple[dict[str, Any], str]] = {
    "guided_regex": ({"guided_regex": PATTERN}, PATTERN),
    "guided_choice": ({"guided_choice": CHOICES}, "yes|no, never"),
    "guided_grammar": ({"guided_grammar": GBNF}, "ab[0-9]"),
    "structured regex": ({"structured_outputs": {"regex": PATTERN}}, PATTERN),
    "structured choice": ({"structured_outputs": {"choice": CHOICES}}, "yes|no, never"),
    "structured grammar": ({"structured_outputs": {"grammar": GBNF}}, "ab[0-9]"),
    "SGLang's regex": ({"regex": PATTERN}, PATTERN),
    "SGLang's ebnf": ({"ebnf": GBNF}, "ab[0-9]"),
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


def test_the_vendors_client_streams_a_constrained_answer(openai_client: Any) -> None:
    chunks = openai_client.chat.completions.create(
        model="m", messages=MESSAGES, stream=True, extra_body={"guided_choice": CHOICES}
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) in CHOICES


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


def test_generate_names_its_own_field_in_a_refusal(site: Any) -> None:
    for sampling in ({"regex": "(open"}, {"ebnf": "x"}, {"regex": "a", "ebnf": GBNF}):
        name = list(sampling)[-1]
        reply = site.send("POST", "/generate", {"text": "Hi", "sampling_params": sampling})
        assert reply.status == 400
        assert f"sampling_params.{name}" in reply.json["error"]["message"]


def test_an_empty_constraint_constrains_nothing(site: Any) -> None:
    empty = {"guided_regex": "", "guided_choice": [], "grammar": "", "structured_outputs": {}}
    reply = site.send(
        "POST", "/v1/completions", {"model": "m", "prompt": "Hi", "max_tokens": 3, **empty}
    )
    assert reply.status == 200


@pytest.mark.parametrize("path", [*ROUTES, "/generate"])
@pytest.mark.parametrize("streams", [False, True])
def test_a_constraint_that_grows_too_large_during_the_answer_is_the_requests_fault(
    site: Any, monkeypatch: pytest.MonkeyPatch, path: str, streams: bool
) -> None:
    allowed = TokenConstraint.allowed

    def fails_later(self: TokenConstraint) -> bytes:
        """Fail as the library does when its automaton has grown too large."""
        asked.append(1)
        return allowed(self) if len(asked) < 3 else self._fail("too many expressions")

    asked: list[int] = []
    monkeypatch.setattr(TokenConstraint, "allowed", fails_later)
    pattern = "[a-z]{2,9}-[0-9]{9}"
    body: dict[str, Any] = {"text": "Hi", "sampling_params": {"regex": pattern}}
    if path != "/generate":
        body = {"model": "m", **ROUTES[path], "guided_regex": pattern}
    reply = site.send("POST", path, {**body, "stream": streams})
    assert len(asked) >= 3
    assert reply.status == (200 if streams else 400), reply.body
    said = reply.body.decode()
    assert "too many expressions; simplify the schema, regular expression or grammar" in said
    assert any(one in said for one in ("invalid_request", "invalid_prompt")) or path == "/generate"
