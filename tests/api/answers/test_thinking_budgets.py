"""Each API takes the effort and the budget of reasoning as its vendor spells them."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from api.dialects.anthropic.read import prompt_from_wire
from api.dialects.anthropic.read import requests_from_wire as messages_requests
from api.dialects.anthropic.wire import MessageCreateParams
from api.dialects.chat.read import requests_from_wire as chat_requests
from api.dialects.chat.wire import ChatCompletionParams
from api.dialects.ollama.read import chat_from_wire
from api.dialects.ollama.wire import ChatParams
from api.dialects.responses.read import requests_from_wire as responses_requests
from api.dialects.responses.wire import ResponseParams
from api.dialects.shared.body import parsed
from api.transport.errors import ApiError
from engine.values.request import Effort, GenerationRequest

TURNS = [{"role": "user", "content": "Count from 1 to 5"}]


def chat(**fields: Any) -> GenerationRequest:
    body = {"model": "m", "messages": TURNS, **fields}
    return chat_requests(parsed(json.dumps(body).encode(), ChatCompletionParams))[0]


def responses(**fields: Any) -> GenerationRequest:
    body = {"model": "m", "input": "Hi", **fields}
    return responses_requests(parsed(json.dumps(body).encode(), ResponseParams))[0]


def messages(strict: bool = False, **fields: Any) -> GenerationRequest:
    body = {"model": "m", "max_tokens": 4096, "messages": TURNS, **fields}
    params = parsed(json.dumps(body).encode(), MessageCreateParams)
    [found] = messages_requests(params, strict=strict)
    assert prompt_from_wire(params).effort is found.effort  # it may change the prompt
    return found


@pytest.mark.parametrize("read", [chat, responses])
@pytest.mark.parametrize(
    ("fields", "budget"),
    [
        ({}, None),
        ({"thinking_budget": 512}, 512),
        ({"thinking_token_budget": 0}, 0),
        ({"chat_template_kwargs": {"thinking_budget": 7}}, 7),
        ({"thinking_budget": 3, "thinking_token_budget": 5}, 3),
        ({"thinking_budget": -1}, None),
        ({"thinking_budget": None}, None),
    ],
)
def test_the_spellings_of_open_servers_for_a_budget_are_accepted(
    read: Callable[..., GenerationRequest], fields: dict[str, Any], budget: int | None
) -> None:
    assert read(**fields).thinking_budget == budget


def test_a_budget_in_a_gateways_object_is_accepted() -> None:
    asked = chat(reasoning={"max_tokens": 99})
    assert (asked.thinking, asked.thinking_budget) == (True, 99)
    assert chat(reasoning={"max_tokens": 99, "enabled": False}).thinking is False
    assert chat(reasoning={"max_tokens": 0}).thinking is None


@pytest.mark.parametrize(
    ("word", "effort", "thinks"),
    [
        ("none", None, False),
        ("minimal", None, False),
        ("low", Effort.LOW, True),
        ("medium", Effort.MEDIUM, True),
        ("HIGH", Effort.HIGH, True),
        ("xhigh", Effort.HIGH, True),
    ],
)
def test_each_level_of_effort_means_the_same_in_every_api(
    word: str, effort: Effort | None, thinks: bool
) -> None:
    body = {"model": "m", "messages": TURNS, "think": word}
    [ollama] = chat_from_wire(ChatParams.model_validate(body))
    for found in (
        chat(reasoning_effort=word),
        chat(reasoning={"effort": word}),
        responses(reasoning={"effort": word}),
        ollama,
    ):
        assert (found.effort, found.thinking) == (effort, thinks)


def test_reasoning_without_a_level_of_effort_has_no_bound() -> None:
    for found in (responses(reasoning={}), chat(reasoning={"enabled": True})):
        assert (found.thinking, found.effort) == (True, None)


def test_messages_accepts_a_budget_and_an_effort() -> None:
    found = messages(thinking={"type": "enabled", "budget_tokens": 2048})
    assert (found.thinking, found.thinking_budget) == (True, 2048)
    found = messages(thinking={"type": "adaptive"}, output_config={"effort": "low"})
    assert (found.thinking, found.effort) == (True, Effort.LOW)


@pytest.mark.parametrize("budget", [1023, 4096])
def test_strict_servers_refuse_the_budgets_that_the_hosted_messages_api_refuses(
    budget: int,
) -> None:
    thinking = {"type": "enabled", "budget_tokens": budget}
    assert messages(thinking=thinking).thinking_budget == budget
    with pytest.raises(ApiError, match="must be"):
        messages(strict=True, thinking=thinking)


BUDGET = 6


@pytest.mark.parametrize(
    ("path", "body", "reasoning_tokens"),
    [
        (
            "/v1/chat/completions",
            {"messages": TURNS, "enable_thinking": True, "thinking_budget": BUDGET},
            lambda found: found["usage"]["completion_tokens_details"]["reasoning_tokens"],
        ),
        (
            "/v1/responses",
            {"input": TURNS, "reasoning": {"effort": "high"}, "thinking_token_budget": BUDGET},
            lambda found: found["usage"]["output_tokens_details"]["reasoning_tokens"],
        ),
        (
            "/v1/messages",
            {
                "messages": TURNS,
                "max_tokens": 99,
                "thinking": {"type": "enabled", "budget_tokens": BUDGET},
            },
            lambda found: found["usage"]["output_tokens_details"]["thinking_tokens"],
        ),
    ],
)
def test_an_answer_continues_after_its_budget_and_reports_where_the_reasoning_ended(
    site: Any,
    path: str,
    body: dict[str, Any],
    reasoning_tokens: Callable[[Any], int],
) -> None:
    asked = {"model": "m", "temperature": 0, **body, "fullstop": {"report": True}}
    found = site.send("POST", path, asked).json
    report = found.get("choices", [found])[0]["fullstop"]
    end = report["thinking_budget_end"]
    assert end["budget"] == BUDGET
    # The opening tag comes first. The forced tokens are the end of the line, the tag, and the
    # blank line of the answer, which does not count as reasoning.
    assert end["token_index"] == BUDGET + 1
    assert reasoning_tokens(found) == 1 + BUDGET + 2
    assert report["stop"]["channel"] == "text"


def test_the_servers_budget_applies_to_requests_without_one(serve: Any) -> None:
    site = serve(thinking_budget=BUDGET)

    def end_of(**fields: Any) -> Any:
        asked = {"messages": TURNS, "enable_thinking": True, "temperature": 0, "max_tokens": 40}
        asked |= {"model": "m", "fullstop": {"report": True}, **fields}
        [choice] = site.send("POST", "/v1/chat/completions", asked).json["choices"]
        return choice["fullstop"]["thinking_budget_end"]

    assert end_of()["budget"] == BUDGET
    assert end_of(thinking_budget=3)["budget"] == 3
    assert end_of(reasoning_effort="high") is None
    answer = site.send("POST", "/v1/completions", {"model": "m", "prompt": "1 2 3"}).json
    assert answer["choices"][0]["finish_reason"] == "length"


def test_a_budget_for_a_raw_prompt_is_refused_by_its_name(site: Any) -> None:
    asked = {"model": "m", "prompt": "Hi", "thinking_budget": 5}
    found = site.send("POST", "/v1/completions", asked).json
    assert found["error"]["param"] == "thinking_budget"
    assert "raw prompt" in found["error"]["message"]
