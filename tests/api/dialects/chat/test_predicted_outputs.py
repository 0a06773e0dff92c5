"""Predicted outputs through OpenAI's own client, on the demo model."""

from typing import Any

import openai
import pytest

from tests.support.models.guessing import verify_all_drafts

COUNT = [{"role": "user", "content": "Count from 1 to 30, one number per line"}]
COUNTED = "\n".join(str(number) for number in range(1, 31))


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guesses are checked however slow the machine is."""
    verify_all_drafts(monkeypatch, 8)


def asked(openai_client: openai.OpenAI, *, is_streamed: bool, **fields: Any) -> tuple[str, Any]:
    wanted: dict[str, Any] = {
        "model": "m",
        "messages": COUNT,
        "temperature": 0,
        "max_completion_tokens": 80,
        "extra_body": {"enable_thinking": False},
        **fields,
    }
    if not is_streamed:
        whole = openai_client.chat.completions.create(**wanted)
        return whole.choices[0].message.content or "", whole.usage
    stream = openai_client.chat.completions.create(
        stream=True, stream_options={"include_usage": True}, **wanted
    )
    chunks = list(stream)
    text = "".join(one.choices[0].delta.content or "" for one in chunks if one.choices)
    return text, chunks[-1].usage


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_usage_reports_the_accepted_and_rejected_tokens_of_a_prediction(
    openai_client: openai.OpenAI, is_streamed: bool
) -> None:
    wrong = COUNTED.replace("\n14\n", "\n19\n")
    plain, before = asked(openai_client, is_streamed=is_streamed)
    text, usage = asked(
        openai_client, is_streamed=is_streamed, prediction={"type": "content", "content": wrong}
    )

    assert text == plain
    assert usage.completion_tokens == before.completion_tokens
    details = usage.completion_tokens_details
    assert details.accepted_prediction_tokens > 5
    assert details.rejected_prediction_tokens > 0
    assert details.accepted_prediction_tokens < usage.completion_tokens
    assert before.completion_tokens_details.accepted_prediction_tokens == 0
    assert before.completion_tokens_details.rejected_prediction_tokens == 0
