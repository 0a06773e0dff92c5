"""The report of an answer that a limit ended says who set the limit."""

from typing import Any

import pytest

CLAUDE = {"User-Agent": "claude-cli/2.0.14 (external, cli)"}
TURNS = [{"role": "user", "content": "Count from 1 to 30"}]
TASK = [{"role": "user", "content": "### Task:\nGenerate 3 broad tags."}]
CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
COMPLETIONS = "/v1/completions"


def report_of(
    site: Any, path: str, body: dict[str, Any], headers: dict[str, str] | None = None
) -> dict[str, Any]:
    asked = {"model": "m", "temperature": 0, "fullstop": {"report": True}, **body}
    found = site.send("POST", path, asked, headers).json
    found = found[0] if isinstance(found, list) else found
    report: dict[str, Any] = found.get("choices", [found])[0]["fullstop"]
    return report


@pytest.mark.parametrize(
    ("path", "body", "headers", "source"),
    [
        (CHAT, {"messages": TURNS, "max_tokens": 3}, {}, "request"),
        (CHAT, {"messages": TURNS, "max_tokens": 3}, {"User-Agent": "curl/8.7.1"}, "request"),
        (MESSAGES, {"messages": TURNS, "max_tokens": 3}, CLAUDE, "tool"),
        (CHAT, {"messages": TASK}, {}, "server"),
        (CHAT, {"messages": TASK}, CLAUDE, "server"),
        (COMPLETIONS, {"prompt": "1 2 3", "ignore_eos": True}, {}, "api"),
        (COMPLETIONS, {"prompt": "1 2 3", "ignore_eos": True}, CLAUDE, "api"),
        (COMPLETIONS, {"prompt": "1 2 3", "max_tokens": 3}, {}, "request"),
        ("/generate", {"text": "1 2", "sampling_params": {"ignore_eos": True}}, {}, "api"),
        ("/generate", {"text": "1 2", "sampling_params": {"max_new_tokens": 3}}, {}, "request"),
        ("/v1/responses", {"input": TURNS, "max_output_tokens": 16}, {}, "request"),
        ("/api/chat", {"messages": TURNS, "options": {"num_predict": 3}, "stream": False}, {},
         "request"),
    ],
)  # fmt: skip
def test_report_names_who_set_the_limit(
    serve: Any, path: str, body: dict[str, Any], headers: dict[str, str], source: str
) -> None:
    report = report_of(serve(task_max_tokens=7), path, body, headers)
    assert (report["stop"]["kind"], report["limit_from"]) == ("max_tokens", source)


def test_report_of_an_answer_without_a_limit_names_nobody(serve: Any) -> None:
    report = report_of(serve(), CHAT, {"messages": TURNS, "stop": ["2"], "max_tokens": 90})
    assert (report["stop"]["kind"], report["limit_from"]) == ("stop_string", None)
    assert report["budget_from"] is None


@pytest.mark.parametrize(
    ("fields", "headers", "source"),
    [
        ({}, {}, "server"),
        ({"thinking_budget": 3}, {}, "request"),
        ({"thinking_budget": 3}, {"User-Agent": "opencode/1.0.61 ai-sdk/provider-utils"}, "tool"),
        ({}, CLAUDE, "server"),
    ],
)
def test_report_names_who_set_the_thinking_budget(
    serve: Any, fields: dict[str, Any], headers: dict[str, str], source: str
) -> None:
    turns = [{"role": "user", "content": "Why do bees dance?"}]
    body = {"messages": turns, "enable_thinking": True, "max_tokens": 40, **fields}
    report = report_of(serve(thinking_budget=4), CHAT, body, headers)
    assert report["thinking_budget_end"]["budget"] == fields.get("thinking_budget", 4)
    assert report["budget_from"] == source
