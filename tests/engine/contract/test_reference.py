"""The reference itself against what the page says in so many words."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.stopping.record import StopKind
from engine.stopping.rules import StopRules, StopScope
from tests.engine.contract.found import found
from tests.engine.contract.reference import expected
from tests.engine.contract.writing.case import Case
from tests.engine.contract.writing.vocabularies import EOS, ODD, model

PAGE = json.loads((Path(__file__).parents[1] / "stop_cases.json").read_text(encoding="utf-8"))
CALL = '{"name": "add", "arguments": {"a": 1}}'
TOOL = ["<tool_call>", CALL, "</tool_call>"]
BRACKETS = ["[TOOL_CALLS]", "add", "[ARGS]", '{"a": 1}']
HARMONY_START = "<|start|>assistant"
ANALYSIS = ["<|channel|>", "analysis", "<|message|>", "hm", "<|end|>"]
TO_ADD = ["<|start|>", "assistant", "<|channel|>", "commentary", " to=functions.", "add"]
HARMONY_CALL = [*TO_ADD, "<|message|>", '{"a": 1}']


@pytest.mark.parametrize("case", PAGE, ids=[case["id"] for case in PAGE])
def test_it_gives_what_the_pages_own_cases_say(case: dict[str, Any]) -> None:
    made = model("byte-level", "plain")
    script = [made.ids[bytes([byte])] for byte in "".join(case["pieces"]).encode()]
    rules = StopRules.of(*dict.fromkeys(case["stops"]), include_stop=case["include_stop"])
    answer = expected(Case("byte-level", "plain", tuple(script), rules))
    assert answer.text == "".join(case["emits"])
    stopped = case["reason"] == "stop_string"
    assert (answer.kind, answer.value) == (
        StopKind.STOP_STRING if stopped else StopKind.EOS,
        case["value"],
    )


@pytest.mark.parametrize(
    ("case", "wanted"),
    [
        # 2: the earliest to complete, then the longest, then list order.
        (found("byte-level", "plain", ["an", "ana"], strings=["nan", "n"]), {"value": "n"}),
        (
            found("byte-level", "plain", ["b", "an"], strings=["n", "ban"]),
            {"value": "ban", "text_offset": 0},
        ),
        # 4: what was held is released, and passes the matcher.
        (found("byte-level", "plain", ["EN"], strings=["END"]), {"text": "EN", "held": "EN"}),
        (
            found("byte-level", "plain", ["a", b"\xf0"], strings=["\ufffd"]),
            {"text": "a", "kind": StopKind.STOP_STRING, "dropped": "\ufffd"},
        ),
        # 5: the stop and what follows it are dropped.
        (
            found("byte-level", "plain", ["a", "END."], strings=["ND"]),
            {"text": "aE", "dropped": "ND.", "token_index": 1, "text_offset": 2},
        ),
        # 6: no match joins two channels; tags fire under scope all only.
        (
            found(
                "byte-level",
                "thinking",
                ["<think>", "EN", "</think>", "D"],
                strings=["END"],
                scope=StopScope.ALL,
            ),
            {"thinking": "EN", "text": "D", "kind": StopKind.EOS, "thinking_tokens": 3},
        ),
        (
            found("byte-level", "thinking", ["<think>", "a", "</think>"], strings=["</think>"]),
            {"kind": StopKind.EOS},
        ),
        (
            found(
                "byte-level",
                "thinking",
                ["<think>", "a", "</think>"],
                strings=["</think>"],
                scope=StopScope.ALL,
            ),
            {"kind": StopKind.STOP_STRING, "value": "</think>", "thinking": "a"},
        ),
        (
            found("byte-level", "thinking", ["hm", "</think>", "\n\n", "ok"], prompt="<think>"),
            {"thinking": "hm", "text": "ok"},
        ),
        (
            found("byte-level", "harmony", ["<|channel|>", "analysis"], prompt=HARMONY_START),
            {"text": "", "thinking": ""},
        ),
        # 8: ids, and special tokens named as strings.
        (
            found("byte-level", "plain", ["EN", "D"], strings=["END"], ids=["D"]),
            {"kind": StopKind.STOP_STRING, "text": ""},
        ),
        (
            found("byte-level", "plain", ["a", "b"], strings=["bc"], ids=["b"]),
            {"kind": StopKind.STOP_TOKEN, "text": "a", "dropped": "b"},
        ),
        (
            found("byte-level", "plain", ["EN", b"\xf0", ODD], strings=["END", ODD]),
            {"text": "EN\ufffd", "value": ODD, "held": "EN"},
        ),
        # 9: a whole call is a call, whatever ends it.
        (found("byte-level", "json calls", TOOL, ids=[EOS]), {"kind": StopKind.TOOL_CALL}),
        (found("byte-level", "json calls", TOOL, strings=[EOS]), {"kind": StopKind.TOOL_CALL}),
        (found("byte-level", "json calls", TOOL, max_tokens=3), {"kind": StopKind.TOOL_CALL}),
        (found("byte-level", "json calls", TOOL, max_tokens=4), {"kind": StopKind.TOOL_CALL}),
        (found("byte-level", "json calls", TOOL, max_tokens=2), {"kind": StopKind.MAX_TOKENS}),
        (found("byte-level", "bracketed calls", BRACKETS, max_tokens=4), {"unfinished": ""}),
        (
            found(
                "byte-level", "harmony", [*HARMONY_CALL, "<|call|>"], strings=["<|call|>"]
            ),
            {"kind": StopKind.TOOL_CALL, "calls": (("add", {"a": 1}),)},
        ),
        (
            found(
                "byte-level", "harmony", [*ANALYSIS, *HARMONY_CALL], prompt=HARMONY_START,
                max_tokens=13,
            ),
            {"kind": StopKind.MAX_TOKENS, "unfinished": '{"a": 1}', "thinking": "hm"},
        ),
        (found("byte-level", "plain", ["a"], max_tokens=2), {"kind": StopKind.EOS}),
        # 10, 11: counting and options.
        (
            found("byte-level", "plain", ["a", "b", "a"], strings=["a"], min_tokens=1),
            {"text": "ab", "output_tokens": 3},
        ),
        (
            found("byte-level", "plain", ["a", "END."], strings=["ND"], include_stop=True),
            {"text": "aEND", "dropped": ".", "text_offset": 2},
        ),
        (
            found("byte-level", "plain", ["a", EOS, "b"], ignore_eos=True, max_tokens=3),
            {"text": "ab", "kind": StopKind.MAX_TOKENS},
        ),
        # Raw prompts: not a character is lost.
        (
            found("byte-level", "bracketed calls", BRACKETS, prompt="a", is_raw=True),
            {"text": '[TOOL_CALLS]add[ARGS]{"a": 1}', "calls": (), "kind": StopKind.EOS},
        ),
    ],
)  # fmt: skip
def test_it_gives_what_the_page_says(case: Case, wanted: dict[str, Any]) -> None:
    answer = expected(case)
    assert {name: getattr(answer, name) for name in wanted} == wanted
