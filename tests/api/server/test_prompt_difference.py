"""A server names the part of a request whose change made it read a prompt again."""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

RULES = "Answer in one word. Use the tools of the project, and name the file that you changed. " * 3
REPORT = {"report": True}


def _tool(name: str) -> dict[str, Any]:
    return {"name": name, "description": f"Runs {name}.", "parameters": {"type": "object"}}


def _chat(question: str, system: str, tools: tuple[str, ...]) -> dict[str, Any]:
    return {
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": question}],
        "tools": [{"type": "function", "function": _tool(name)} for name in tools],
    }


def _messages(question: str, system: str, tools: tuple[str, ...]) -> dict[str, Any]:
    listed = [_tool(name) for name in tools]
    for tool in listed:
        tool["input_schema"] = tool.pop("parameters")
    turns = [{"role": "user", "content": question}]
    return {"system": system, "messages": turns, "tools": listed}


def _responses(question: str, system: str, tools: tuple[str, ...]) -> dict[str, Any]:
    listed = [{"type": "function", **_tool(name)} for name in tools]
    return {"instructions": system, "input": question, "tools": listed, "store": False}


ROUTES: dict[str, Callable[[str, str, tuple[str, ...]], dict[str, Any]]] = {
    "/v1/chat/completions": _chat,
    "/v1/messages": _messages,
    "/v1/responses": _responses,
    "/api/chat": _chat,
}


def _report(body: Any) -> dict[str, Any]:
    found = body.get("fullstop") or body["choices"][0]["fullstop"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("path", ROUTES)
def test_changed_part_is_in_the_report_and_the_log(
    serve: Any, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    site = serve()

    def ask(question: str, system: str, *tools: str) -> dict[str, Any]:
        limit = "max_output_tokens" if path == "/v1/responses" else "max_tokens"
        body = {"model": "m", "stream": False, limit: 4, "fullstop": REPORT}
        if path == "/api/chat":
            del body[limit]
            body["options"] = {"num_predict": 4}
        reply = site.send("POST", path, body | ROUTES[path](question, system, tools))
        assert reply.status == 200, reply.body
        return _report(reply.json)

    site.send("POST", "/flush_cache")
    question = "Which file has the longest name of all files in this project, and how long is it?"
    with caplog.at_level(logging.INFO, logger="api.access"):
        first = ask(question, RULES)
        changed = ask(question, "Today is Monday. " + RULES)
        other = ask(question + " Say it twice.", RULES)
    assert "prompt_difference" not in first
    found = changed["prompt_difference"]
    assert (found["part"], found["message"]) == ("system", 0)
    assert "Today is Monday" in found["here"]
    assert "Today" not in found["before"]
    assert found["read_again"] >= 16
    assert "prompt_difference" not in other
    lines = [each.getMessage() for each in caplog.records if each.name == "api.access"]
    again = [line for line in lines if "read again" in line]
    assert len(again) == 1
    assert again[0].endswith(f"{found['read_again']} tokens read again: the system text differs")
    assert "Monday" not in json.dumps(lines)


def test_a_client_with_another_key_gets_nothing_of_it(serve: Any) -> None:
    site = serve(api_key="one")
    site.send("POST", "/flush_cache", headers={"Authorization": "Bearer one"})

    def ask(system: str, headers: dict[str, str]) -> dict[str, Any]:
        body = {"model": "m", "max_tokens": 4, "fullstop": REPORT}
        reply = site.send(
            "POST", "/v1/chat/completions", body | _chat("Which file?" * 9, system, ()), headers
        )
        assert reply.status == 200, reply.body
        return _report(reply.json)

    local = serve()
    ask("A secret. " + RULES, {"Authorization": "Bearer one"})
    body = {"model": "m", "max_tokens": 4, "fullstop": REPORT}
    reply = local.send("POST", "/v1/chat/completions", body | _chat("Which file?" * 9, RULES, ()))
    assert "secret" not in json.dumps(reply.json)
