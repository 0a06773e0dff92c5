"""Log-probabilities: one entry for each token of the answer's text, and none for other tokens."""

import itertools
import json
import math
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from api.dialects.openai.write import finite
from tests.api.conftest import Site, acting
from tests.support.models.formats import ANALYSIS, FINAL, HARMONY
from tests.support.scripted import Stage

SCRIPT = ["Hel", "lo ", "EN", "D of", " it"]
STREAMED = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("logprobs")
    stage = Stage(folder, {"go": [*ANALYSIS, *FINAL, *SCRIPT]}, **HARMONY)
    with acting(stage) as (found, _):
        yield found


def is_sure(logprob: float) -> bool:
    """Whether a log-probability belongs to a scripted token, which is certain."""
    return math.isclose(logprob, 0.0, abs_tol=1e-3)


@STREAMED
def test_chat_reports_each_token_of_the_content(
    openai_client: openai.OpenAI, is_streamed: bool
) -> None:
    answer: Any = openai_client.chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": "go"}],
        stop="END",
        logprobs=True,
        stream=is_streamed,
    )
    choices = [chunk.choices[0] for chunk in answer] if is_streamed else [answer.choices[0]]
    found = [one for choice in choices if choice.logprobs for one in choice.logprobs.content]

    assert [one.token for one in found] == ["Hel", "lo "]
    assert [bytes(one.bytes) for one in found] == [b"Hel", b"lo "]
    assert all(is_sure(one.logprob) for one in found)
    if is_streamed:
        with_text = [choice for choice in choices if choice.delta.content]
        assert ["".join(one.token for one in choice.logprobs.content) for choice in with_text] == [
            choice.delta.content for choice in with_text
        ]


@STREAMED
def test_completions_reports_each_token_of_the_text(
    openai_client: openai.OpenAI, is_streamed: bool
) -> None:
    answer: Any = openai_client.completions.create(
        model="m",
        prompt="<|start|>user:<|message|>user:go<|end|><|start|>assistant<|go|>",
        stop="END",
        logprobs=0,
        max_tokens=100,
        stream=is_streamed,
    )
    choices = [chunk.choices[0] for chunk in answer] if is_streamed else [answer.choices[0]]
    found = [choice.logprobs for choice in choices if choice.logprobs is not None]

    # The answer to a raw prompt contains everything that was generated.
    tokens = ["<|channel|>", "analysis", "<|message|>", "think "]
    offsets = [0, *itertools.accumulate(map(len, tokens))][: len(tokens)]
    assert [token for one in found for token in one.tokens] == tokens
    assert [offset for one in found for offset in one.text_offset] == offsets
    assert all(is_sure(value) for one in found for value in one.token_logprobs)


def test_log_probabilities_are_valid_json_numbers(site: Site) -> None:
    ask = {
        "model": "m",
        "messages": [{"role": "user", "content": "go"}],
        "logprobs": True,
        "logit_bias": {"5": -100},
    }
    reply = site.send("POST", "/v1/chat/completions", ask)

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(reply.body, parse_constant=refuse)


@STREAMED
def test_chat_lists_the_likeliest_tokens(openai_client: openai.OpenAI, is_streamed: bool) -> None:
    answer: Any = openai_client.chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": "go"}],
        logprobs=True,
        top_logprobs=20,
        stream=is_streamed,
    )
    choices = [chunk.choices[0] for chunk in answer] if is_streamed else [answer.choices[0]]
    first = next(one for choice in choices if choice.logprobs for one in choice.logprobs.content)

    assert len(first.top_logprobs) == 20
    assert (first.top_logprobs[0].token, bytes(first.top_logprobs[0].bytes)) == ("Hel", b"Hel")
    assert first.top_logprobs[0].logprob == first.logprob
    assert first.top_logprobs[1].logprob < first.logprob


@pytest.mark.parametrize("logprob", [math.nan, -math.inf])
def test_a_log_probability_that_json_cannot_express_becomes_the_least(logprob: float) -> None:
    assert finite(logprob) == -9999.0
    assert finite(-1.5) == -1.5
