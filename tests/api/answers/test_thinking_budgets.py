"""Each API takes the effort and the budget of reasoning as its vendor spells them."""

from collections.abc import Callable
from typing import Any

import pytest

TURNS = [{"role": "user", "content": "Count from 1 to 5"}]


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
def test_answer_continues_after_its_thinking_budget(
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
