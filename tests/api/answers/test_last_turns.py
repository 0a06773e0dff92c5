"""A conversation that ends with the assistant's turn: what each API does with it."""

from typing import Any

import pytest

QUESTION = {"role": "user", "content": "Count from 1 to 3, one number per line"}
ANSWER = {"role": "assistant", "content": "1\n2\n3"}
BEGUN = {"role": "assistant", "content": "1\n2\n"}
CONTINUED = {"continue_final_message": True}
PAIR = {"continue_final_message": True, "add_generation_prompt": False}
OPENAI = pytest.mark.parametrize("route", ["chat", "responses"])


def ask(site: Any, route: str, *turns: Any, status: int = 200, **fields: Any) -> dict[str, Any]:
    path, name = {
        "chat": ("/v1/chat/completions", "messages"),
        "responses": ("/v1/responses", "input"),
        "messages": ("/v1/messages", "messages"),
        "ollama": ("/api/chat", "messages"),
    }[route]
    sent = {"model": "m", "stream": False, "temperature": 0, name: list(turns), **fields}
    reply = site.send("POST", path, sent)
    assert reply.status == status, reply.body
    found: dict[str, Any] = reply.json
    return found


def text_of(answer: dict[str, Any]) -> str:
    match answer:
        case {"choices": [{"message": {"content": text}}]}:
            return str(text)
        case {"output": [{"content": [{"text": text}]}]}:
            return str(text)
        case {"content": [{"text": text}]} | {"message": {"content": text}}:
            return str(text)
    raise AssertionError(answer)


def prompt_tokens(answer: dict[str, Any]) -> int:
    usage = answer["usage"]
    return int(usage.get("prompt_tokens", usage.get("input_tokens")))


@OPENAI
def test_a_new_turn_follows_a_complete_answer(site: Any, route: str) -> None:
    answer = ask(site, route, QUESTION, ANSWER)
    assert text_of(answer).strip()

    counted = site.send("POST", "/tokenize", {"messages": [QUESTION, ANSWER]}).json
    assert counted["count"] == prompt_tokens(answer)
    text = site.send("POST", "/detokenize", {"tokens": counted["tokens"]}).json["prompt"]
    assert "3<|im_end|>\n<|im_start|>assistant" in text


@OPENAI
@pytest.mark.parametrize("fields", [CONTINUED, PAIR], ids=["alone", "pair"])
def test_an_answer_that_was_begun_is_continued_on_request(
    site: Any, route: str, fields: dict[str, Any]
) -> None:
    answer = ask(site, route, QUESTION, BEGUN, **fields)
    assert text_of(answer).strip() == "3"

    body = {"messages": [QUESTION, BEGUN], **fields}
    counted = site.send("POST", "/tokenize", body).json
    assert counted["count"] == prompt_tokens(answer)
    if route == "responses":
        body = {"input": [QUESTION, BEGUN], **fields}
        counted = site.send("POST", "/v1/responses/input_tokens", body).json
        assert counted["input_tokens"] == prompt_tokens(answer)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/tokenize", "/v1/responses"])
@pytest.mark.parametrize(
    ("turns", "fields"),
    [
        ([QUESTION, BEGUN], {"continue_final_message": True, "add_generation_prompt": True}),
        ([QUESTION], CONTINUED),
    ],
    ids=["both", "no answer to continue"],
)
def test_a_contradiction_is_refused(
    site: Any, path: str, turns: list[Any], fields: dict[str, Any]
) -> None:
    sent = {"model": "m", "messages": turns, "input": turns, **fields}
    reply = site.send("POST", path, sent)
    assert reply.status == 400
    assert reply.json["error"]["param"] == "continue_final_message"


@pytest.mark.parametrize("route", ["messages", "ollama"])
def test_messages_and_ollama_continue_as_their_vendors_do(site: Any, route: str) -> None:
    answer = ask(site, route, QUESTION, BEGUN, max_tokens=20)
    assert text_of(answer).strip() == "3"
