"""A limit of 0 tokens: some dialects only read the prompt, others refuse the request."""

import json
from collections.abc import Callable
from typing import Any

import anthropic
import pytest

from tests.api.conftest import LONG
from tests.support.scripted import GO

TURNS = [{"role": "user", "content": LONG}]


def test_a_message_with_a_limit_of_0_leaves_its_prompt_in_the_cache(
    serve: Callable[..., Any], staged: Callable[..., Any]
) -> None:
    stage = staged(step_s=0)
    client = anthropic.Anthropic(base_url=serve(stage.engine).url, api_key="k")
    warmed = client.messages.create(model="m", max_tokens=0, messages=TURNS)
    assert stage.wait_until_idle()
    asked = client.messages.create(model="m", max_tokens=3, messages=TURNS)

    assert warmed.content == []
    assert (warmed.stop_reason, warmed.stop_sequence) == ("max_tokens", None)
    assert (warmed.usage.input_tokens > 1, warmed.usage.output_tokens) == (True, 0)
    assert asked.usage.cache_read_input_tokens == warmed.usage.input_tokens - 1
    assert asked.content[0].text == "word word word "


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_raw_prompt_with_a_limit_of_0_is_read_and_ends_at_the_limit(
    staged: Callable[..., Any], is_streamed: bool
) -> None:
    stage = staged(step_s=0)
    site = stage.site
    prompt, stream = f"user:{LONG}{GO}", {"model": "m", "stream": is_streamed}
    asked = {"prompt": prompt, "max_tokens": 0, "n": 2, **stream}
    asked_sglang = {"text": prompt, "sampling_params": {"max_new_tokens": 0}, **stream}
    completed = site.send("POST", "/v1/completions", asked)
    generated = site.send("POST", "/generate", asked_sglang)
    assert (completed.status, generated.status) == (200, 200)
    if is_streamed:
        chunks = [json.loads(data)["choices"][0] for _, data in completed.events[:-1]]
        answer = json.loads(generated.events[-2][1])
    else:
        chunks, answer = completed.json["choices"], generated.json
    assert {chunk["text"] for chunk in chunks} == {""}
    assert [one["finish_reason"] for one in chunks if one["finish_reason"]] == ["length"] * 2
    assert (answer["text"], answer["output_ids"]) == ("", [])
    assert answer["meta_info"]["finish_reason"] == {"type": "length", "length": 0}
    assert answer["meta_info"]["cached_tokens"] == answer["meta_info"]["prompt_tokens"] - 1
