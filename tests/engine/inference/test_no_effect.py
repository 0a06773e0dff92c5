"""Options for reasoning that change nothing are named when the request is accepted."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.engine import Engine
from engine.values.request import Effort, GenerationRequest, LimitSource, Sampling
from tests.support.asking import request, run
from tests.support.scripted import Stage

TAGS = {"plain": ["<think>", "</think>"]}

SWITCH = "{{ messages[0].content }}<|go|>{% if enable_thinking %}{% endif %}"


@pytest.mark.parametrize(
    ("options", "fields", "expected"),
    [
        (TAGS, {"thinking_budget": 9}, ()),
        ({}, {"thinking_budget": 9}, ("thinking_budget (this model has no reasoning to end)",)),
        ({}, {"thinking_budget": 9, "thinking_budget_from": LimitSource.SERVER}, ()),
        (
            TAGS,
            {"thinking_budget": 9, "max_tokens": 9},
            ("thinking_budget (the limit of 9 comes first)",),
        ),
        (TAGS, {"thinking_budget": 8, "max_tokens": 9}, ()),
        (TAGS, {"effort": Effort.LOW}, ()),
        (
            {},
            {"sampling": Sampling(temperature=1, xtc_threshold=0.2)},
            ("xtc_threshold (xtc_probability is 0)",),
        ),
        ({}, {"sampling": Sampling(temperature=1, xtc_threshold=0.2, xtc_probability=0.5)}, ()),
        (TAGS, {"effort": Effort.HIGH}, ("effort (this model knows no efforts)",)),
        ({}, {"effort": Effort.LOW}, ("effort (this model knows no efforts)",)),
        (
            TAGS,
            {"effort": Effort.LOW, "thinking_budget": 9},
            ("effort (the thinking budget takes precedence)",),
        ),
        (TAGS, {"effort": Effort.LOW, "thinking": False}, ("effort (reasoning is off)",)),
        (TAGS, {"effort": Effort.NONE, "thinking": False}, ()),
        (TAGS, {"thinking": True}, ("thinking (the chat template has no switch for it)",)),
        (TAGS | {"template": SWITCH}, {"thinking": True}, ()),
        (TAGS, {"thinking": True, "thinking_budget": 9}, ()),
    ],
)
def test_reasoning_options_without_effect_are_named(
    tmp_path: Path, options: dict[str, Any], fields: dict[str, Any], expected: tuple[str, ...]
) -> None:
    stage = Stage(tmp_path, {"go": ["a"]}, **options)

    async def not_applied(asked: GenerationRequest) -> tuple[str, ...]:
        async with Engine(loader=stage.load) as engine:
            await engine.load(tmp_path)
            generation = await engine.generate(asked)
            rendered = await engine.render_prompt(asked)
            answer = await generation.collect()
            assert rendered.not_applied == generation.not_applied
            return answer.finished.details.no_effect

    found = run(not_applied(replace(request("go"), **fields)))
    assert found == expected
