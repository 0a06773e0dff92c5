"""The answer to a raw prompt is the generated text, with its tags, calls and markers."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.conftest import Site, acting
from tests.support.models.formats import ANALYSIS, CALL, FINAL, FORMATS, HARMONY, tool_template
from tests.support.scripted import END, GO, START, Stage

CALLED = ["<think>", "\n", "hm ", "</think>", "\n\n", *FORMATS["json"][2], "\n", "so"]
FAMILIES: dict[str, tuple[list[str], dict[str, Any]]] = {
    "tags": (
        CALLED,
        {
            "plain": ["<think>", "</think>", "<tool_call>", "</tool_call>"],
            "template": tool_template("<tool_call> tool_call.name"),
        },
    ),
    "special tags": (
        CALLED[5:],
        {
            "special": ["<tool_call>", "</tool_call>"],
            "template": tool_template("<tool_call> tool_call.name"),
        },
    ),
    "open-ended": (
        FORMATS["open-ended"][2],
        {"special": ["[TOOL_CALLS]", "[ARGS]"], "template": tool_template("[TOOL_CALLS]")},
    ),
    "any special token": (["</tool_call>", "a", "<|odd|>", "b"], {"special": ["<|odd|>"]}),
    "harmony": ([*ANALYSIS, *CALL[:-1], "<|end|>", *FINAL, "yes"], HARMONY),
}
PROMPT = f"{START}user:go{END}{GO}"


def text_of(answer: dict[str, Any]) -> str:
    if "choices" in answer:
        [choice] = answer["choices"]
        assert not {"tool_calls", "reasoning_content"} & choice.keys()
        return str(choice["text"])
    assert not {"thinking", "reasoning_content", "tool_calls"} & answer.keys()
    return str(answer["text"] if "text" in answer else answer["response"])


@pytest.fixture(scope="module", params=FAMILIES)
def played(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Site, str]]:
    script, options = FAMILIES[request.param]
    folder = tmp_path_factory.mktemp("raw")
    with acting(Stage(folder, {"go": script}, **options)) as (site, _):
        yield site, "".join(script)


def test_a_tag_is_text_for_the_stops_of_a_raw_prompt(played: tuple[Site, str]) -> None:
    site, whole = played
    tag = next(one for one in ("</tool_call>", "[TOOL_CALLS]", "<|message|>") if one in whole)
    answer = site.send(
        "POST", "/v1/completions", {"model": "m", "prompt": PROMPT, "max_tokens": 100, "stop": tag}
    ).json
    assert text_of(answer) == whole.partition(tag)[0]
    assert answer["choices"][0]["matched_stop"] == tag
