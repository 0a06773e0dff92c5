"""The contract's cases of stops, through the whole pipeline of an answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.output.families import TagFamily
from engine.stopping.rules import StopRules
from engine.values.events import TextDelta
from tests.api.answers.test_answer_tokens import played

CASES = json.loads((Path(__file__).parents[1] / "stop_cases.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_an_answer_emits_what_the_contract_says(case: dict[str, Any]) -> None:
    rules = StopRules.of(*dict.fromkeys(case["stops"]), include_stop=case["include_stop"])
    steps = played([piece.encode() for piece in case["pieces"]], rules, TagFamily())
    emitted = [
        "".join(event.text for event in step if isinstance(event, TextDelta)) for step in steps
    ]
    if not case["last_is_flush"] and case["reason"] != "stop_string":
        assert emitted.pop() == ""  # the step of EOS, which ends an answer here
    assert emitted == case["emits"]
